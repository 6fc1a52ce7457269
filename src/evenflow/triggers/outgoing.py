"""Collects the messages that one event makes a worker send to others; this module sends nothing.

Invariant: messages to one worker keep the order in which they were fired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from evenflow.triggers.app import Write
from evenflow.triggers.messages import Events, Heartbeat, Lend


@dataclass(slots=True)
class Outgoing:
    """Writes and bodies by receiver; with ``beat`` a heartbeat is attached to the writes."""

    beat: Callable[[], Heartbeat] | None = None
    events: dict[str, list[Write]] = field(default_factory=dict)
    bodies: dict[str, list[Any]] = field(default_factory=dict)

    def fire(self, to: str, write: Write) -> None:
        """Add a write to the others for the same worker."""
        self.events.setdefault(to, []).append(write)

    def send(self, to: str, body: Any) -> None:
        """Add a body after the writes that were fired before it."""
        self._close(to)
        self.bodies.setdefault(to, []).append(body)

    def _close(self, to: str) -> None:
        writes = self.events.pop(to, None)
        if writes:
            beat = self.beat() if self.beat is not None else None
            self.bodies.setdefault(to, []).append(Events(tuple(writes), beat))

    def messages(self) -> Iterator[tuple[str, Any]]:
        """Yield and remove all messages: one per worker, or more if there are several parts of groups, one in each."""
        for to in list(self.events):
            self._close(to)
        bodies, self.bodies = self.bodies, {}
        for to, those in bodies.items():
            for message in _together(those):
                yield to, message[0] if len(message) == 1 else tuple(message)


def _together(bodies: list[Any]) -> list[list[Any]]:
    found: list[list[Any]] = [[]]
    for body in bodies:
        if type(body) is Lend and any(type(other) is Lend for other in found[-1]):
            found.append([])
        found[-1].append(body)
    return found
