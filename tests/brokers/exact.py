"""Messages are tuples, and tuples of different kinds are equal: ``LeaveOrder("s") == StayOrder("s")``."""

from __future__ import annotations

from typing import Any


def exact(messages: Any) -> str:
    """Return messages, or commands that carry them, in a form that says their kinds too."""
    return repr(messages)
