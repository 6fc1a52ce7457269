"""A processing node as a process of its own."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from evenflow.actor import Received
from evenflow.dds.application import Application, Outbox
from evenflow.dds.bus import Bus, ControlPort, to_sample
from evenflow.dds.cargo import warm_up
from evenflow.dds.idl import item_type
from evenflow.dds.journal import Journal
from evenflow.dds.process import Cell, Process, received
from evenflow.dds.readers import SliceReaders
from evenflow.slices.balancer import Drain
from evenflow.slices.ledger import item_id
from evenflow.slices.messages import Item, Refused
from evenflow.slices.node import ProcessingNode
from evenflow.slices.readers import Listen
from evenflow.slices.settings import NodeSettings

BALANCER = "balancer"
MATCH_S = 3.0  # how long a process looks for others before it begins
SETTLED = 1.0  # seconds after the last change of the filter from which its samples are counted


class NodeProcess:
    """Runs one :class:`ProcessingNode` on a domain until it is let go or stopped."""

    def __init__(
        self, name: str, application: Application, settings: NodeSettings, domain: int, state: Path, *, keep: bool
    ) -> None:
        self.name = name
        self.bus = Bus(domain)
        self.journal = Journal(state, keep=keep)
        self.port = ControlPort(self.bus, name, caches=True)
        kinds = {application.topic.name: (application.kind, application.topic.balance)}
        self.readers = SliceReaders(self.bus, kinds, settings.slices, settings.overlap_s)
        me = psutil.Process()
        me.cpu_percent()  # the first reading is 0 by definition
        probes = {"cpu": me.cpu_percent, "memory": lambda: me.memory_info().rss / 2**20}
        self.node = ProcessingNode(name, [application.topic], settings, balancer=BALANCER, probes=probes)
        self._published = 0
        outbox = Outbox(application, self._publish)
        self.cell = Cell(
            name,
            self.node,
            self.journal,
            self.port.send,
            self.port.acknowledge,
            {Listen: lambda command: self.readers.listen(command.slices, time.time())},
            outbox.flush,
        )
        self.process = Process(self.bus, [self.cell], [self._control, self._items], self._turn)
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

    def _control(self) -> list[tuple[Cell, Any]]:
        events = received(self.cell, self.port.arrived())
        for _, event in events:
            if type(event.message) is Refused:
                self.refused = event.message.why
                self.process.stop()
        return events

    def _items(self) -> Iterable[tuple[Cell, Any]]:
        for item in self.readers.arrived():
            self._counted["taken"] += 1
            self._counted["own"] += item.slice in self.node.held
            yield self.cell, Received("", item)

    def _turn(self, now: float) -> None:
        self.readers.close_due(now)
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
            self.journal.write({}, [{**record, "seen": seen, "passed": passed}], sync=False)
        self._counted = {"taken": 0, "own": 0, "from": now}

    def _publish(self, topic: str, kind: type, value: Any) -> None:
        item = Item(item_id(0, self._published), 0, topic, value=value)
        self._published += 1
        self.bus.write(self.bus.writer(topic, item_type(kind)), to_sample(item, kind))
