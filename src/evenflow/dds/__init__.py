"""DPSLB on a real data distribution service (Eclipse Cyclone DDS): processes, topics, publishers and subscribers."""

from __future__ import annotations

from typing import Any

__all__ = ["publish", "subscribe", "subscribe_batches"]


def __getattr__(name: str) -> Any:
    """Load the helpers when they are asked for: who reads a log needs no Cyclone."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from evenflow.dds import plain, rows  # noqa: PLC0415

    return getattr(rows if name == "subscribe_batches" else plain, name)
