"""Keeps distributed event processing evenly loaded while it runs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenflow.spark.brokers.plane import brokers
    from evenflow.spark.kit.controller import Balancing
    from evenflow.spark.matching.match import match
    from evenflow.spark.slices.balance import balance

__all__ = ["Balancing", "balance", "brokers", "match"]

# Spark is loaded with the first use of a name: importing evenflow stays cheap.
_LAZY = {
    "Balancing": "evenflow.spark.kit.controller",
    "balance": "evenflow.spark.slices.balance",
    "match": "evenflow.spark.matching.match",
}


def __getattr__(name: str) -> Any:
    if name == "brokers":
        return import_module("evenflow.brokers")
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'evenflow' has no attribute {name!r}")
