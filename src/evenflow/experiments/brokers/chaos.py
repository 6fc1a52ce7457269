"""Brokers under faults: lost, late and repeated messages, crashes at any time, partitions between clusters.

At the end every subscriber must be served by exactly one broker, every session must have ended,
and no delivery may be lost or duplicated.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from evenflow.brokers.edge import EdgeBroker
from evenflow.brokers.head import HeadActor
from evenflow.brokers.session_trace import SessionTrace
from evenflow.brokers.settings import EVEN, BrokerSettings
from evenflow.experiments.brokers.data_path import BrokerModel
from evenflow.experiments.brokers.delivery import count_deliveries
from evenflow.experiments.brokers.overlay import BrokerSpec, Overlay
from evenflow.experiments.brokers.workload import QuoteWorkload, advertisement, build
from evenflow.experiments.registry import Experiment, TraceWriter
from evenflow.experiments.settings import setting
from evenflow.sim.network import Network

SPECS = (
    BrokerSpec("B10", "B10", None, 2000, 32, 10),
    BrokerSpec("B11", "B10", "B10", 100, 32, 0.5),
    BrokerSpec("B12", "B10", "B10", 300, 32, 1),
    BrokerSpec("B20", "B20", None, 2000, 32, 10),
    BrokerSpec("B21", "B20", "B20", 200, 32, 1),
    BrokerSpec("B22", "B20", "B20", 400, 32, 2),
)
EDGES = tuple(spec.name for spec in SPECS if spec.head)
PEACE_S = 900.0  # seconds without faults at the end, in which every session must end
QUICK = BrokerSettings(  # a tenth of the published intervals, so that a run has many sessions
    local_pie_s=5.0, global_pie_s=10.0, press_samples=10, press_timeout_s=8.0, stable_s=5.0, stable_window_s=10.0,
    local_detect_s=(3.0, 6.0), global_detect_s=(8.0, 12.0), migration_timeout_s=2.0, reply_timeout_s=3.0, quiet_s=60.0,
    global_ratio=0.1, global_delay=0.1,
)  # fmt: skip


@dataclass(frozen=True)
class ChaosSettings:
    """The settings of `padres-chaos`."""

    subscribers: int = setting(120, "subscribers, all of which join the weakest broker", low=1, high=2000)
    publishers: int = setting(10, "publishers", low=1, high=100)
    seconds: float = setting(400.0, "virtual seconds with faults", low=60.0, high=5000.0)
    loss: float = setting(0.05, "share of control messages that are lost", low=0.0, high=0.9)
    duplication: float = setting(0.05, "share that comes twice", low=0.0, high=0.9)
    reordering: float = setting(0.1, "share that comes late", low=0.0, high=0.9)
    crashes: int = setting(3, "edge brokers that crash, each at a moment of its own", low=0, high=50)
    partitions: int = setting(1, "times that the clusters are cut off from each other", low=0, high=10)
    even: bool = setting(default=False, help="with our balancer instead of the published one")


def run(settings: ChaosSettings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    """Run one seed: first with faults, then without."""
    world = Chaos(settings, seed, trace)
    return world.run()


class Chaos:
    """One run of `padres-chaos`."""

    def __init__(self, settings: ChaosSettings, seed: int, trace: TraceWriter | None) -> None:
        self.settings = settings
        self.chance = random.Random(f"{seed}/chaos")
        self.end = settings.seconds + PEACE_S
        self.workload = self._workload(seed)
        self.records: list[Mapping[str, Any]] = []
        self.faults: dict[str, int] = {}
        self._trace = trace
        self._session_trace = None if trace is None else SessionTrace(trace, max)
        self._introduce()
        network = Network(
            loss=settings.loss,
            duplication=settings.duplication,
            reordering=settings.reordering,
            late=5.0,
            on_fault=lambda kind, _, to, *__: self._fault(kind, to),
        )
        links = (("B10", "B20"),)
        self.sim = Overlay(
            seed,
            SPECS,
            links,
            self.workload.catalogue,
            self.workload.kinds,
            self.end,
            model=BrokerModel(per_subscription=0.15, window_s=10),
            move_s=0.02,
            wait_out=not settings.even,
            network=network,
            trace=self._note,
        )

    def _workload(self, seed: int) -> QuoteWorkload:
        settings = self.settings
        return build(
            self.chance, seed=seed, publishers=settings.publishers, subscribers=settings.subscribers, zero_traffic=0.2,
            joins=(10.0, settings.seconds / 3), seconds=self.end - 60.0, change_at=settings.seconds / 2,
            series="independent", days=30,
        )  # fmt: skip

    def _introduce(self) -> None:
        """Write the brokers to the trace."""
        if self._trace is None:
            return
        for spec in SPECS:
            about = {"kind": "node", "at": 0.0, "node": spec.name, "step": "joined", "cluster": spec.cluster}
            self._trace({**about, "head": not spec.head, "parent": spec.head})

    def _fault(self, kind: str, node: str | None = None) -> None:
        self.faults[kind] = self.faults.get(kind, 0) + 1
        if self._trace is not None:
            self._trace({"kind": "fault", "at": self.sim.now, "fault": kind, **({"node": node} if node else {})})

    def _note(self, record: Mapping[str, Any]) -> None:
        self.records.append(record)
        if self._trace is not None and self._session_trace is not None:
            self._trace(record)
            self._session_trace.observe(record)

    def run(self) -> dict[str, Any]:
        """Run with faults, remove them, wait, and return the counts."""
        sim, settings = self.sim, self.settings
        sim.publish(self.workload.times, self.workload.quotes)
        sim.start(self._actors())
        for publisher in self.workload.publishers:
            name, text = f"P{publisher.symbol}", advertisement(self.workload.symbols[publisher.symbol])
            sim.at(publisher.joins, lambda name=name, text=text: sim.advertise(name, text))  # type: ignore[misc]
        for number, (at, key) in enumerate(self.workload.subscribers):
            sim.at(at, lambda number=number, key=key: self._join(f"S{number}", key))  # type: ignore[misc]
        for _ in range(settings.crashes):
            self._plan_crash()
        for _ in range(settings.partitions):
            at = self.chance.uniform(settings.seconds / 3, settings.seconds * 0.9)
            length = self.chance.uniform(5.0, 60.0)
            sim.at(at, lambda at=at, length=length: self._cut(at + length))  # type: ignore[misc]
        sim.run(until=settings.seconds)
        sim.network.loss = sim.network.duplication = sim.network.reordering = 0.0
        for name in EDGES:
            sim.restore(name)
        sim.run(until=self.end)
        sim.advance(self.end)
        return self._findings()

    def _join(self, name: str, key: int) -> None:
        able = [edge for edge in EDGES if edge not in self.sim.down]
        if able:
            self.sim.join(name, key, "B11" if "B11" in able else able[0])
        else:
            self.sim.at(self.sim.now + 5.0, lambda: self._join(name, key))

    def _cut(self, until: float) -> None:
        self._fault("partition_begun")
        self.sim.partition(("B20", "B21", "B22"), until)

    def _plan_crash(self) -> None:
        """Plan the crash of a broker at a random time or during a session, and its restart."""
        sim, settings = self.sim, self.settings
        name = self.chance.choice(EDGES)
        at = self.chance.uniform(30.0, settings.seconds * 0.9)
        back = self.chance.uniform(5.0, 60.0)
        aimed = self.chance.random() < 0.7

        def crash(tries: int = 200) -> None:
            cell = sim.cells.get(name)
            actor: Any = cell.actor.actor if cell is not None and cell.actor is not None else None  # type: ignore[attr-defined]
            if name in sim.down or actor is None:
                return
            busy = actor.giving is not None or actor.taking is not None
            if aimed and not busy and tries and sim.now < settings.seconds * 0.95:
                sim.at(sim.now + 0.5, lambda: crash(tries - 1))
                return
            self._fault("crash_in_session" if busy else "crash", name)
            sim.fail(name)
            sim.at(sim.now + back, lambda: sim.restore(name))

        sim.at(at, crash)

    def _actors(self) -> dict[str, Any]:
        balancing = QUICK
        if self.settings.even:
            balancing = replace(QUICK, **{**EVEN, "empty_backoff_s": 30.0, "calm_s": 20.0})
        lives: dict[str, int] = {}

        def edge(spec: BrokerSpec) -> EdgeBroker:
            lives[spec.name] = lives.get(spec.name, 0) + 1
            assert spec.head is not None
            speed = self.sim.brokers[spec.name].speed
            uniform = random.Random(f"{self.sim.seed}/{spec.name}/{lives[spec.name]}").uniform
            catalogue = self.workload.catalogue
            return EdgeBroker(
                spec.name, spec.cluster, spec.head, balancing, catalogue, uniform, speed, lives[spec.name]
            )

        builders: dict[str, Any] = {}
        for spec in SPECS:
            if spec.head:
                builders[spec.name] = lambda spec=spec: edge(spec)
            else:
                edges = [s.name for s in SPECS if s.head == spec.name]
                uniform = random.Random(f"{self.sim.seed}/{spec.name}").uniform
                builders[spec.name] = lambda s=spec, e=edges, u=uniform: HeadActor(s.name, s.cluster, e, balancing, u)
        return builders

    def _findings(self) -> dict[str, Any]:
        sim = self.sim
        served: dict[str, list[str]] = {name: [] for name in sim.subscriber_of}
        for subscriber, broker in sim.service.periods:
            served[subscriber].append(broker)
        homeless = sum(not where for where in served.values())
        two_homes = sum(len(where) > 1 for where in served.values())
        astray = sum(len(where) == 1 and where[0] != sim.subscriber_of[name].home for name, where in served.items())
        actors: dict[str, Any] = {name: sim.cells[name].actor.actor for name in (*EDGES, "B10", "B20")}  # type: ignore[union-attr]
        stuck = [
            name for name in EDGES
            if (actors[name].giving and self.end - actors[name].giving.began > PEACE_S / 2)
            or (actors[name].taking and self._old(actors[name].taking.session))
        ]  # fmt: skip
        unended = sum(bool(actor.moving) for actor in sim.subscriber_of.values())
        delivery = count_deliveries(sim)
        sessions = [r for r in self.records if r["kind"] == "broker_session"]
        return {
            "subscribers": len(served),
            "homeless": homeless,
            "two_homes": two_homes,
            "astray": astray,
            "open_sessions": len(stuck),
            "open_moves": unended,
            "unprocessed": delivery.unprocessed,
            "lost": delivery.lost,
            "duplicated": delivery.duplicated,
            "doubles_removed": delivery.doubles_removed,
            "deliveries": delivery.expected,
            "sessions": len(sessions),
            "moved": sum(s["moved"] for s in sessions),
            "cross_cluster": sum(s["giver"][:2] != s["taker"][:2] and bool(s["moved"]) for s in sessions),
            "violations": homeless + two_homes + astray + len(stuck) + delivery.lost + delivery.duplicated,
            "faults": dict(sorted(self.faults.items())),
            "events": sim.events,
        }

    def _old(self, session: str) -> bool:
        return any(r["kind"] == "broker_session" and r["session"] == session for r in self.records)


CHAOS = Experiment(
    "padres-chaos",
    "a small federation under every fault: one home each, every session ends, nothing lost or doubled.",
    ChaosSettings,
    run,
)
