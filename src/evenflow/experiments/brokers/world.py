"""Sets up simulated brokers, their workload and their balancers, and records their loads every ten seconds."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenflow.actor import Actor
from evenflow.brokers.edge import EdgeBroker
from evenflow.brokers.head import HeadActor
from evenflow.brokers.load import RATIOS, Load
from evenflow.brokers.session_trace import Estimates, SessionTrace
from evenflow.experiments.brokers.overlay import BrokerSpec, Overlay
from evenflow.experiments.brokers.settings import PadresSettings
from evenflow.experiments.brokers.workload import QuoteWorkload, advertisement, build
from evenflow.experiments.brokers.workload_file import WorkloadFile
from evenflow.experiments.registry import TraceWriter

LOOK_S = 10


@dataclass(slots=True)
class LoadHistory:
    """The loads of a run, every ten seconds, and its sessions."""

    at: list[float] = field(default_factory=list)
    loads: dict[str, list[Load]] = field(default_factory=dict)
    clients: dict[str, list[int]] = field(default_factory=dict)
    sessions: list[Mapping[str, Any]] = field(default_factory=list)
    global_sessions: list[Mapping[str, Any]] = field(default_factory=list)


class BrokerWorld:
    """One run of an experiment with brokers."""

    def __init__(
        self,
        settings: PadresSettings,
        specs: Sequence[BrokerSpec],
        links: Sequence[tuple[str, str]],
        entry: str,
        seed: int,
        trace: TraceWriter | None,
        given: WorkloadFile | None = None,
    ) -> None:
        settings.check()
        self.settings, self.specs, self.entry = settings, specs, entry
        self.history = LoadHistory()
        self.estimates = Estimates(lambda name: self.sim.brokers[name].measure(self.sim.now))
        self._trace = trace
        self._session_trace = None if trace is None else SessionTrace(trace, max)
        self.seed = seed
        self.edges = [spec.name for spec in specs if spec.head]
        self.workload: QuoteWorkload = build(
            self.chance("workload"),
            seed=seed,
            publishers=settings.publishers,
            subscribers=settings.subscribers,
            zero_traffic=settings.zero_traffic,
            joins=(settings.join_from, settings.join_until),
            seconds=settings.seconds,
            change_at=settings.change_at,
            series=settings.quotes,
            given=given,
        )
        self.joins = given.joins if given else {}
        self.entries = [broker for _, _, broker in given.subscribers.values()] if given else []
        self.sim = Overlay(
            seed,
            specs,
            links,
            self.workload.catalogue,
            self.workload.kinds,
            settings.seconds,
            wait_out=settings.balancer != "even",
            trace=self._note,
        )
        for name in self.edges:
            self.history.loads[name], self.history.clients[name] = [], []
        self._introduce({below: above for above, below in links})

    def _introduce(self, above: Mapping[str, str]) -> None:
        """Write the brokers to the trace: edge brokers below their heads, heads as they are linked."""
        if self._trace is None:
            return
        for spec in self.specs:
            about = {"kind": "node", "at": 0.0, "node": spec.name, "step": "joined", "cluster": spec.cluster}
            self._trace({**about, "head": not spec.head, "parent": spec.head or above.get(spec.name)})

    def chance(self, name: str) -> random.Random:
        """Return a named random generator."""
        return random.Random(f"{self.seed}/{name}")

    def run(self) -> Overlay:
        """Run to the end."""
        settings, sim, workload = self.settings, self.sim, self.workload
        sim.publish(workload.times, workload.quotes)
        sim.start(self._actors() if settings.balancer != "none" else {})
        for name, joins in self.joins.items():  # until then it counts as crashed
            sim.fail(name)
            sim.at(joins, lambda name=name: sim.restore(name))  # type: ignore[misc]
        for publisher in workload.publishers:
            name, text = f"P{publisher.symbol}", advertisement(workload.symbols[publisher.symbol])
            sim.at(publisher.joins, lambda name=name, text=text: sim.advertise(name, text))  # type: ignore[misc]
        for number, (at, key) in enumerate(workload.subscribers):
            entry = self.entries[number] if self.entries else self.entry
            sim.at(at, lambda number=number, key=key, entry=entry: sim.join(f"S{number}", key, entry))  # type: ignore[misc]
        for second in range(LOOK_S, int(settings.seconds) + 1, LOOK_S):
            sim.run(until=second)
            self._look(second)
        return sim

    def _actors(self) -> dict[str, Callable[[], Actor]]:
        balancing, sim = self.settings.broker_settings(), self.sim
        found: dict[str, Callable[[], Actor]] = {}
        heads = [spec.name for spec in self.specs if not spec.head]
        for spec in self.specs:
            uniform = self.chance(spec.name).uniform
            if spec.head:
                speed = sim.brokers[spec.name].speed
                found[spec.name] = lambda s=spec, u=uniform, v=speed: EdgeBroker(  # type: ignore[misc]
                    s.name, s.cluster, s.head, balancing, self.workload.catalogue, u, v
                )
            elif len(heads) > 1:
                edges = [s.name for s in self.specs if s.head == spec.name]
                found[spec.name] = lambda s=spec, u=uniform, e=edges: HeadActor(s.name, s.cluster, e, balancing, u)  # type: ignore[misc]
        return found

    def _look(self, now: float) -> None:
        self.sim.advance(now)
        history = self.history
        history.at.append(now)
        for name in self.edges:
            broker = self.sim.brokers[name]
            load = broker.measure(now)
            history.loads[name].append(load)
            history.clients[name].append(broker.clients)
            if self._trace is not None:
                ratios = {"input": load.input_ratio, "output": load.output_ratio, "delay_s": load.matching_delay}
                parts = {
                    "parts": dict(zip(RATIOS, load.ratios(), strict=True)),
                    "limit": self.settings.broker_settings().lower,
                }
                about = {"kind": "sample", "at": now, "node": name, "load": max(load.input_ratio, load.output_ratio)}
                self._trace({**about, **ratios, **parts, "clients": broker.clients})
            if load.memory.ratio > 1.0 and broker.crashed_at is None:
                self.sim.fail(name)

    def _note(self, record: Mapping[str, Any]) -> None:
        if self._trace is not None:
            self._trace(record)
        estimate = self.estimates.observe(record)
        if self._session_trace is not None:
            self._session_trace.observe(record, estimate)
        if record["kind"] == "broker_session":
            self.history.sessions.append(record)
        elif record["kind"] == "global_session":
            self.history.global_sessions.append(record)
