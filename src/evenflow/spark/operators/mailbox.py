"""Runs the units' actors in the driver process between two batches: messages arrive at once, timers in order."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evenflow.actor import Actor, Note, Received, Save, Send, Started, Wake, Woken
from evenflow.operators.carrier import Runs, Stops


@dataclass
class Mailbox:
    """One mailbox for all units, with a virtual clock.

    Parameters
    ----------
    actors
        The units.
    note
        Called with every trace record.
    """

    actors: Mapping[str, Actor]
    note: Callable[[Mapping[str, Any]], object]
    where: dict[int, str] = field(default_factory=dict)  # operator → the unit that runs it
    now: float = 0.0
    messages: int = 0
    _heap: list[tuple[float, int, str, Any]] = field(default_factory=list)
    _order: int = 0

    def start(self, life: int) -> None:
        """Start every unit; ``life`` is the number of starts on this directory."""
        for unit in self.actors:
            self._push(self.now, unit, Started({"life": life - 1}))
        self.run(self.now)

    def run(self, until: float) -> None:
        """Handle all events that are due up to a time."""
        while self._heap and self._heap[0][0] <= until:
            self.now, _, unit, event = heapq.heappop(self._heap)
            for command in self.actors[unit].handle(event, self.now):
                self._obey(unit, command)
        self.now = until

    def _obey(self, unit: str, command: Any) -> None:
        kind = type(command)
        if kind is Send:
            self.messages += 1
            self._push(self.now, command.to, Received(unit, command.message))
        elif kind is Wake:
            self._push(command.at, unit, Woken(command.name))
        elif kind is Note:
            self.note(command.record)
        elif kind is Runs:
            self.where.update(dict.fromkeys(command.ops, unit))
        elif kind is Stops:
            for op in command.ops:
                del self.where[op]
        else:
            # Units need not save anything here: when a batch starts no transfer is under way, so only the places of the
            # operators must survive, and the pipeline writes them.
            assert kind is Save or kind.__name__ == "Agrees", command

    def _push(self, at: float, unit: str, event: Any) -> None:
        self._order += 1
        heapq.heappush(self._heap, (max(at, self.now), self._order, unit, event))
