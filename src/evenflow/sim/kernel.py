"""Virtual time: the earliest event is handled next, and every handled event may cause later ones.

The kernel is one driver of the actors, no more: it owns no decision.
Same seed, same order of events, same trace, byte for byte.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

from evenflow.actor import Actor, Note, Received, Save, Send, Started, Wake, Woken
from evenflow.sim.network import Network

ANY_LIFE = -1  # a message finds whichever life of its addressee is running
AHEAD = 1 << 62  # an actor that starts hears of it before anything else that happens at the same time


class Cell:
    """One actor's place: its running object, what it saved, and how often it was started."""

    __slots__ = ("actor", "build", "life", "name", "notes", "saved")

    def __init__(self, name: str, build: Callable[[], Actor], *, journal: bool) -> None:
        self.name = name
        self.build = build
        self.actor: Actor | None = None
        self.life = 0
        self.saved: dict[str, Any] = {}
        self.notes: list[Mapping[str, Any]] | None = [] if journal else None


class Simulation:
    """Runs actors in virtual time.

    Parameters
    ----------
    seed
        Every stream of chance derives from it.
    network
        Decides the fate of every message; by default nothing is delayed or lost.
    trace
        Called with each record that an actor notes.

    Examples
    --------
    >>> class Echo:
    ...     def handle(self, event, now):
    ...         return [Note({"at": now, "got": event.message})] if isinstance(event, Received) else []
    >>> seen = []
    >>> sim = Simulation(1, trace=seen.append)
    >>> sim.add("echo", Echo)
    >>> sim.post("me", "echo", "hello")
    >>> sim.run()
    >>> seen
    [{'at': 0.0, 'got': 'hello'}]
    """

    def __init__(
        self,
        seed: int,
        network: Network | None = None,
        trace: Callable[[Mapping[str, Any]], object] | None = None,
    ) -> None:
        self.seed = seed
        self.now = 0.0
        self.events = 0
        self.network = network or Network()
        self.network.bind(self.chance("network"))
        self.cells: dict[str, Cell] = {}
        self.carry_out: dict[type, Callable[[str, Any], object]] = {}  # commands that only some systems have
        self._trace = trace or (lambda record: None)
        self._heap: list[tuple[float, int, Cell | None, int, Any]] = []
        self._order = 0  # breaks ties by order of causation, so that a tie never depends on the heap

    def chance(self, name: str) -> random.Random:
        """Return the stream of chance with this name: its draws depend on the seed and the name alone."""
        digest = blake2b(f"{self.seed}/{name}".encode(), digest_size=8).digest()
        return random.Random(int.from_bytes(digest, "big"))

    # -- actors ---------------------------------------------------------------------------------

    def add(self, name: str, build: Callable[[], Actor], *, journal: bool = False) -> None:
        """Start an actor; ``build`` makes it anew after a crash. With ``journal`` its notes are given back to it."""
        if name in self.cells:
            msg = f"an actor named {name!r} runs already"
            raise ValueError(msg)
        self.cells[name] = Cell(name, build, journal=journal)
        self.restart(name)

    def crash(self, name: str) -> None:
        """End an actor now: its memory and its wake-ups are gone, what it saved stays."""
        cell = self.cells[name]
        cell.actor = None
        cell.life += 1

    def restart(self, name: str) -> None:
        """Start an actor again with what it saved; nothing happens if it runs."""
        cell = self.cells[name]
        if cell.actor is None:
            cell.actor = cell.build()
            saved = cell.saved if cell.notes is None else {**cell.saved, "notes": list(cell.notes)}
            self._order += 1
            heapq.heappush(self._heap, (self.now, self._order - AHEAD, cell, cell.life, Started(saved)))

    def remove(self, name: str) -> None:
        """Take an actor out for good; messages to it go nowhere."""
        self.crash(name)
        del self.cells[name]

    def running(self, name: str) -> bool:
        """Say whether an actor is there and alive."""
        cell = self.cells.get(name)
        return cell is not None and cell.actor is not None

    # -- causes ---------------------------------------------------------------------------------

    def at(self, when: float, action: Callable[[], object]) -> None:
        """Do something at a time: how experiments change the world."""
        self._push(max(when, self.now), None, ANY_LIFE, action)

    def post(self, sender: str, to: str, message: object) -> None:
        """Send one message through the network."""
        cell = self.cells.get(to)
        if cell is None:
            return
        now = self.now
        for delay in self.network.copies(sender, to, message, now):
            self._order += 1
            heapq.heappush(self._heap, (now + delay, self._order, cell, ANY_LIFE, Received(sender, message)))

    def deliver(self, to: str, event: object) -> None:
        """Hand an event to an actor now, past the network."""
        cell = self.cells.get(to)
        if cell is not None:
            self._push(self.now, cell, ANY_LIFE, event)

    def in_flight(self) -> list[Any]:
        """Return the messages that are on their way."""
        return [event.message for _, _, _, _, event in self._heap if type(event) is Received]

    def note(self, record: Mapping[str, Any]) -> None:
        """Put a record of the experiment's own on the trace."""
        self._trace(record)

    # -- the loop -------------------------------------------------------------------------------

    def run(self, until: float = float("inf")) -> None:
        """Handle events in order until none is left or the clock would pass ``until``."""
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= until:
            now, _, cell, life, event = pop(heap)
            self.now = now
            self.events += 1
            if cell is None:
                event()
            elif cell.actor is not None and life in (ANY_LIFE, cell.life):
                self._obey(cell, cell.actor.handle(event, now))
        if until != float("inf"):
            self.now = max(self.now, until)

    def _obey(self, cell: Cell, commands: list[Any]) -> None:
        for command in commands:
            kind = type(command)
            if kind is Send:
                self.post(cell.name, command.to, command.message)
            elif kind is Wake:
                self._push(max(command.at, self.now), cell, cell.life, Woken(command.name))
            elif kind is Note:
                if cell.notes is not None:
                    cell.notes.append(command.record)
                self._trace(command.record)
            elif kind is Save:
                for key, value in command.values.items():
                    if value is None:
                        cell.saved.pop(key, None)
                    else:
                        cell.saved[key] = value
            else:
                self.carry_out[kind](cell.name, command)

    def _push(self, at: float, cell: Cell | None, life: int, event: object) -> None:
        self._order += 1
        heapq.heappush(self._heap, (at, self._order, cell, life, event))
