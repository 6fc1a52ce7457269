"""Keeps distributed event processing evenly loaded while it runs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenflow.spark.brokers import brokers
    from evenflow.spark.plane import balance
    from evenflow.spark.subscriptions import match

__all__ = ["balance", "brokers", "match"]

# A driver is loaded by whoever uses it: nobody pays for the others.
_LAZY = {
    "balance": "evenflow.spark.plane",
    "brokers": "evenflow.spark.brokers",
    "match": "evenflow.spark.subscriptions",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'evenflow' has no attribute {name!r}")
