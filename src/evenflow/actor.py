"""What actors and drivers exchange: an actor has no IO, its driver brings events and carries out its commands.

The driver makes every ``Save`` durable before it carries out the commands after it,
so after a crash an actor remembers everything that it told others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

# Named tuples, not dataclasses: the simulator makes millions of these and a tuple costs a third.


class Started(NamedTuple):
    """The actor starts, with what it saved if this is a restart after a crash."""

    saved: Mapping[str, Any]


class Received(NamedTuple):
    """A message arrived. It may be late, repeated or out of order."""

    sender: str
    message: Any


class Woken(NamedTuple):
    """A wake-up that the actor asked for is due."""

    name: Any


class Send(NamedTuple):
    """Give a message to the network, which may lose it."""

    to: str
    message: Any


class Wake(NamedTuple):
    """Ask to be woken at a time."""

    at: float
    name: Any = None


class Note(NamedTuple):
    """Write one record to the trace."""

    record: Mapping[str, Any]


class Save(NamedTuple):
    """Make these values durable, all or none; ``None`` deletes a key."""

    values: Mapping[str, Any]


Command = Send | Wake | Note | Save


class Actor(Protocol):
    """One participant, such as a node, a balancer or a publisher."""

    def handle(self, event: Any, now: float) -> list[Any]:
        """Handle one event and return commands; a system may have commands of its own."""
        ...
