"""The driver: runs actors in real time, each command carried out in order, what is saved on disk before what is said."""

from __future__ import annotations

import heapq
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from evenflow.actor import Actor, Note, Received, Save, Send, Started, Wake, Woken
from evenflow.dds.bus import Bus
from evenflow.dds.journal import REMEMBERED, Journal
from evenflow.slices.messages import Ack

LONGEST_WAIT = 0.1  # seconds, so that signals are seen


class Cell:
    """One actor with its memory and its ways out.

    Parameters
    ----------
    journal
        Where saves and notes go; an actor without one saves nothing.
    send
        Carries out ``Send``; acknowledgements go to ``acknowledge``, many at once.
    carry_out
        Commands that only some systems have, by type.
    saving
        Returns what else is saved, together with a save.
    committed
        Called after a save is on disk: what an application said meanwhile may go out now.
    """

    def __init__(
        self,
        name: str,
        actor: Actor,
        journal: Journal | None,
        send: Callable[[str, Any], object],
        acknowledge: Callable[[list[int]], object] | None = None,
        carry_out: Mapping[type, Callable[[Any], object]] | None = None,
        saving: Callable[[], Mapping[str, Any]] | None = None,
        committed: Callable[[], object] | None = None,
    ) -> None:
        self.name = name
        self.actor = actor
        self.journal = journal
        self.send = send
        self.acknowledge = acknowledge
        self.carry_out = carry_out or {}
        self.saving = saving
        self.committed = committed

    def obey(self, commands: list[Any], wake: Callable[[float, Any], object]) -> None:
        """Carry commands out in order; saves and notes that follow each other are one commit."""
        values: dict[str, Any] = {}
        notes: list[Mapping[str, Any]] = []
        acks: list[int] = []
        for command in commands:
            kind = type(command)
            if kind is Save:
                self._say(acks)
                values.update(command.values)
            elif kind is Note:
                notes.append(command.record)
            elif kind is Wake:
                wake(command.at, command.name)
            else:
                self._commit(values, notes)
                if kind is Send and type(command.message) is Ack and self.acknowledge is not None:
                    acks.extend(command.message.items)
                    continue
                self._say(acks)
                if kind is Send:
                    self.send(command.to, command.message)
                else:
                    self.carry_out[kind](command)
        self._commit(values, notes)
        self._say(acks)

    def _commit(self, values: dict[str, Any], notes: list[Mapping[str, Any]]) -> None:
        if self.journal is None or not (values or notes):
            return
        saved = bool(values)
        if saved and self.saving is not None:
            values.update(self.saving())
        self.journal.write(values, notes, sync=saved or any(note["kind"] in REMEMBERED for note in notes))
        values.clear()
        notes.clear()
        if saved and self.committed is not None:
            self.committed()

    def _say(self, acks: list[int]) -> None:
        if acks and self.acknowledge is not None:
            self.acknowledge(list(acks))
            acks.clear()


class Process:
    """Runs the cells of one process until it is told to stop.

    Parameters
    ----------
    sources
        Called every turn, in this order: each returns what arrived as pairs of cell and event.
    each_turn
        Called every turn with the time.
    at_end
        Called when it stops, before the journals close.
    """

    def __init__(
        self,
        bus: Bus,
        cells: Iterable[Cell],
        sources: Iterable[Callable[[], Iterable[tuple[Cell, Any]]]],
        each_turn: Callable[[float], object] | None = None,
        at_end: Callable[[], object] | None = None,
    ) -> None:
        self.bus = bus
        self.cells = list(cells)
        self.sources = list(sources)
        self.each_turn = each_turn
        self.at_end = at_end
        self.stopping = False
        self.asked_to_leave = False
        self._timers: list[tuple[float, int, Cell, Any]] = []
        self._order = 0

    def catch_signals(self) -> None:
        """End at once on SIGINT; on SIGTERM ask to leave first, and end at once if it comes again."""
        signal.signal(signal.SIGINT, lambda *_: self.stop())
        signal.signal(signal.SIGTERM, lambda *_: self._terminated())

    def stop(self) -> None:
        """End after this turn."""
        self.stopping = True

    def run(self) -> None:
        """Start every actor and go on until the end."""
        self.start()
        while not self.stopping:
            due = self._timers[0][0] - time.time() if self._timers else LONGEST_WAIT
            self.bus.wait(min(LONGEST_WAIT, due))
            self.turn()
        self.end()

    def start(self) -> None:
        """Start every actor with what its journal has."""
        for cell in self.cells:
            self._give(cell, Started({} if cell.journal is None else cell.journal.started()))

    def turn(self) -> None:
        """Handle what arrived and what is due."""
        for source in self.sources:
            for cell, event in source():
                self._give(cell, event)
        self._wake()
        if self.each_turn is not None:
            self.each_turn(time.time())
        self.bus.incoming.tell()

    def end(self) -> None:
        """Let go of everything."""
        self.bus.incoming.tell(last=True)
        if self.at_end is not None:
            self.at_end()
        for cell in self.cells:
            if cell.journal is not None:
                cell.journal.close()

    def _give(self, cell: Cell, event: Any) -> None:
        def wake(at: float, name: Any) -> None:
            self._order += 1
            heapq.heappush(self._timers, (at, self._order, cell, name))

        cell.obey(cell.actor.handle(event, time.time()), wake)

    def _wake(self) -> None:
        now = time.time()
        while self._timers and self._timers[0][0] <= now and not self.stopping:
            _, _, cell, name = heapq.heappop(self._timers)
            self._give(cell, Woken(name))

    def _terminated(self) -> None:
        self.stopping = self.asked_to_leave
        self.asked_to_leave = True


def received(cell: Cell, arrived: Iterable[tuple[str, Any]]) -> Iterator[tuple[Cell, Any]]:
    """Turn what a port took into events of one cell."""
    return ((cell, Received(sender, message)) for sender, message in arrived)
