"""The load balancer as a process of its own."""

from __future__ import annotations

from pathlib import Path

from evenflow.dds.bus import Bus, ControlPort
from evenflow.dds.journal import Journal
from evenflow.dds.node_process import BALANCER
from evenflow.dds.process import Cell, Process, received
from evenflow.slices.algorithm import Algorithm
from evenflow.slices.balancer import LoadBalancer
from evenflow.slices.settings import BalancerSettings


class BalancerProcess:
    """Runs one :class:`LoadBalancer` on a domain until it is stopped; started again, it goes on from its journal."""

    def __init__(
        self, algorithm: Algorithm, settings: BalancerSettings, period_s: float, domain: int, state: Path, *, keep: bool
    ) -> None:
        self.bus = Bus(domain)
        self.journal = Journal(state, notes=True, keep=keep)
        self.port = ControlPort(self.bus, BALANCER, caches=False)
        balancer = LoadBalancer(algorithm, settings, period_s)
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
            self.journal.write({}, [record], sync=False)
