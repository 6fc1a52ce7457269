"""A processing node as a process of its own."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from evenflow.actor import Received
from evenflow.dds.application import Application
from evenflow.dds.bus import Bus, ControlPort
from evenflow.dds.domain import received as received_by_all
from evenflow.dds.domain import reliable
from evenflow.dds.journal import Journal
from evenflow.dds.process import Cell, Process, received
from evenflow.dds.readers import SliceReaders
from evenflow.dds.recalled import check_saved
from evenflow.dds.results import MATCH_S, Results
from evenflow.dds.seen import Seen
from evenflow.dds.wire.cargo import warm_up
from evenflow.dds.wire.fields import MalformedError
from evenflow.dds.wire.fields import name as checked_name
from evenflow.dds.wire.idl import item_type
from evenflow.dds.wire.roles import for_node
from evenflow.errors import BadInput
from evenflow.slices.balancer import Drain
from evenflow.slices.messages import Refused
from evenflow.slices.node import ProcessingNode
from evenflow.slices.readers import Listen
from evenflow.slices.settings import NodeSettings

BALANCER = "balancer"
WRITE_S = 0.05  # how long a result waits for a reader that is full, before the node does something else
SETTLED = 1.0  # seconds after the last change of the filter from which its samples are counted


class NodeProcess:
    """Runs one :class:`ProcessingNode` on a domain until it is let go or stopped."""

    def __init__(
        self, name: str, application: Application, settings: NodeSettings, domain: int, state: Path, *, keep: bool
    ) -> None:
        _check_name(name)
        self.name = name
        topic = application.topic
        self.bus = Bus(domain)
        check = partial(check_saved, application=application, slices=settings.slices, where=state)
        self.journal = Journal(state, keep=keep, check=check)
        kinds = {topic.name: (application.kind, topic.balance)}
        self.readers = SliceReaders(self.bus, kinds, settings.slices, settings.overlap_s)
        me = psutil.Process()
        me.cpu_percent()  # the first reading is 0 by definition
        probes = {"cpu": me.cpu_percent, "memory": lambda: me.memory_info().rss / 2**20}
        self.node = ProcessingNode(name, [topic], settings, balancer=BALANCER, probes=probes)
        self.port = ControlPort(self.bus, name, for_node(self.node, {topic.name: application.kind}), caches=True)
        self.results = Results(application, self.journal, _Writers(self.bus, application.results), time.time())
        self.cell = Cell(
            name,
            self.node,
            self.journal,
            self.port.send,
            self.port.acknowledge,
            {Listen: lambda command: self.readers.listen(command.slices, time.time())},
            saving=self.results.saving,
            committed=lambda: self.results.turn(time.time()),
        )
        sources = [self._control, self._items if topic.balance else self._items_for_all]
        self.process = Process(self.bus, [self.cell], sources, self._turn, lambda: self.results.close(time.time()))
        self._seen = Seen()
        self._counted = {"taken": 0, "own": 0, "from": 0.0}
        self._asked = 0.0
        self.refused = ""

    def run(self) -> None:
        """Go on until the balancer lets the node go, or a signal ends it."""
        warm_up()
        until = time.time() + MATCH_S
        while time.time() < until and not self.port.matched():
            time.sleep(0.02)
        self.process.run()

    def _control(self) -> Iterator[tuple[Cell, Any]]:
        for cell, event in received(self.cell, self.port.arrived()):
            if type(event.message) is Refused:
                self.refused = event.message.why
                self.process.stop()
            yield cell, event

    def _items(self) -> Iterable[tuple[Cell, Any]]:
        for item in self.readers.arrived():
            self._counted["taken"] += 1
            self._counted["own"] += item.slice in self.node.held
            yield self.cell, Received("", item)

    def _items_for_all(self) -> Iterable[tuple[Cell, Any]]:
        """Take items that every node sees: each once, acknowledged when the listener has had it."""
        handled = []
        for item in self.readers.arrived():
            handled.append(item.id)
            if self._seen.add(item.id):
                yield self.cell, Received("", item)
        if handled:
            self.port.acknowledge(handled)

    def _turn(self, now: float) -> None:
        self.readers.close_due(now)
        self.results.turn(now)
        if self.node.leaving:
            self.process.stop()
        elif self.process.asked_to_leave and now >= self._asked:
            self._asked = now + 1.0
            self.port.send(BALANCER, Drain(self.name))
        if now - self._counted["from"] >= self.node.settings.monitor_s:
            self._note_filter(now)

    def _note_filter(self, now: float) -> None:
        """Note what the filter let through, unless it changed meanwhile."""
        began = self._counted["from"]
        if self.readers.changed_at + SETTLED < began and not self.readers.overlapping:
            taken, own = self._counted["taken"], self._counted["own"]
            seen, passed = self.readers.counts()
            record = {"kind": "filter", "at": now, "node": self.name, "taken": taken, "own": own}
            record |= {"seen": seen, "passed": passed, "dropped": self.bus.incoming.total}
            self.journal.write({}, [record], sync=False)
        self._counted = {"taken": 0, "own": 0, "from": now}


class _Writers:
    """The writers of a node's results; made before the first result, so that readers know them by then."""

    def __init__(self, bus: Bus, kinds: Mapping[str, type]) -> None:
        self._bus = bus
        qos = reliable(WRITE_S)
        self._writers = {topic: bus.writer(topic, item_type(kind), "results", qos) for topic, kind in kinds.items()}

    def readers(self, topic: str) -> bool:
        """Say whether a reader is there."""
        return bool(self._writers[topic].get_matched_subscriptions())

    def write(self, topic: str, sample: Any) -> bool:
        """Write; say whether the transport took it."""
        return self._bus.write(self._writers[topic], sample)

    def received(self, topic: str, wait_s: float) -> bool:
        """Say whether every reader has everything."""
        return received_by_all(self._writers[topic], wait_s)


def _check_name(name: str) -> None:
    try:
        checked_name(name)
    except MalformedError as error:
        raise BadInput(repr(name), f"a name ({error})", "--name") from error
    if name == BALANCER:
        raise BadInput(repr(name), "another name: the balancer has this one", "--name")
