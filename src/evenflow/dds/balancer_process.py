"""The load balancer as a process of its own."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from evenflow.dds.bus import Bus, ControlPort
from evenflow.dds.journal import Journal
from evenflow.dds.node_process import BALANCER
from evenflow.dds.process import Cell, Process, received
from evenflow.dds.recalled import check_notes
from evenflow.dds.wire.roles import for_balancer
from evenflow.slices.algorithm import Algorithm
from evenflow.slices.balancer import LoadBalancer
from evenflow.slices.settings import BalancerSettings


class BalancerProcess:
    """Runs one :class:`LoadBalancer` on a domain until it is stopped; started again, it goes on from its journal."""

    def __init__(
        self, algorithm: Algorithm, settings: BalancerSettings, period_s: float, domain: int, state: Path, *, keep: bool
    ) -> None:
        self.bus = Bus(domain)
        check = partial(check_notes, slices=settings.slices, where=state)
        self.journal = Journal(state, notes=True, keep=keep, check=check)
        balancer = LoadBalancer(algorithm, settings, period_s)
        self.port = ControlPort(self.bus, BALANCER, for_balancer(balancer, BALANCER), caches=False)
        self.cell = Cell(BALANCER, balancer, self.journal, self.port.send)
        self.process = Process(self.bus, [self.cell], [lambda: received(self.cell, self.port.arrived())], self._turn)
        self._told = 0.0

    def run(self) -> None:
        """Go on until a signal ends it."""
        self.process.run()

    def _turn(self, now: float) -> None:
        if self.process.asked_to_leave:
            self.process.stop()
        if now - self._told >= 2.0:
            self._told = now
            record = {"kind": "traffic", "at": now, "sent": self.port.sent, "received": self.port.received}
            self.journal.write({}, [{**record, "dropped": self.bus.incoming.total}], sync=False)
