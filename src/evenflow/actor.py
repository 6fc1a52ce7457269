"""Actors have no IO: an event goes in, commands come out, and a driver carries the commands out.

``handle(event, now)`` is the only door.
The driver makes every ``Save`` durable before it carries out the commands behind it,
so what an actor told the world is never newer than what it remembers after a crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from evenflow.model import Move

# Named tuples, not dataclasses: the simulator makes millions of these and a tuple costs a third.


class Started(NamedTuple):
    """The actor begins, or begins again after a crash with what it had saved."""

    saved: Mapping[str, Any]


class Received(NamedTuple):
    """A message arrived. It may be late, repeated or out of order."""

    sender: str
    message: Any


class Woken(NamedTuple):
    """A wake-up that was asked for is due."""

    name: Any


class Moved(NamedTuple):
    """The driver finished a move that ``Begin`` asked for."""

    move: Move


class Failed(NamedTuple):
    """The driver could not finish a move; the unit is where it was."""

    move: Move
    why: str


Event = Started | Received | Woken | Moved | Failed


class Send(NamedTuple):
    """Give a message to the network. Nothing promises that it arrives."""

    to: str
    message: Any


class Wake(NamedTuple):
    """Ask to be woken at a time; logic never sleeps."""

    at: float
    name: Any = None


class Begin(NamedTuple):
    """Ask the driver to carry a move out by its own steps."""

    move: Move


class Note(NamedTuple):
    """Put one record on the trace."""

    record: Mapping[str, Any]


class Save(NamedTuple):
    """Make these values durable, all or none; ``None`` forgets a key."""

    values: Mapping[str, Any]


Command = Send | Wake | Begin | Note | Save


class Actor(Protocol):
    """One participant: a node, a balancer, a publisher."""

    def handle(self, event: Any, now: float) -> list[Any]:
        """Take one event and say what to do about it, in commands; a system may have commands of its own."""
        ...
