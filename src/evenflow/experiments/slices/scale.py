"""Slices at the size the thesis plans for: thousands of nodes, rates instead of single items, the same actors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenflow.experiments.figures import SERIES
from evenflow.experiments.registry import Experiment, TraceWriter
from evenflow.experiments.settings import setting
from evenflow.experiments.slices.figures import scale_figures, series_of
from evenflow.experiments.slices.summary import Summary
from evenflow.experiments.slices.workload import zipf
from evenflow.experiments.slices.world import BALANCER
from evenflow.planner import Settings
from evenflow.policies import named
from evenflow.sim import Network, Simulation
from evenflow.slices.algorithm import Planned
from evenflow.slices.balancer import LoadBalancer
from evenflow.slices.node import ProcessingNode
from evenflow.slices.readers import Listen
from evenflow.slices.settings import BalancerSettings, NodeSettings
from evenflow.slices.topics import Count, Topic

Rates = NDArray[np.float64]


@dataclass(frozen=True)
class ScaleSettings:
    """What `slices-scale` can be told; DPSLB thesis, chapter 3, names the order of magnitude."""

    nodes: int = setting(3000, "processing nodes", low=2, high=20_000)
    slices: int = setting(30_000, "slices", low=2, high=1_000_000)
    publishers: int = setting(300_000, "publishers", low=1, high=10_000_000)
    gbit_s: float = setting(24.0, "gigabits per second, in all", low=0.001)
    item_bytes: int = setting(1000, "bytes of an item", low=1)
    seconds: float = setting(600.0, "virtual seconds", low=60.0)
    zipf: float = setting(0.4, "skew of the publishers' rates", low=0.0, high=2.0)
    utilisation: float = setting(0.6, "mean load over capacity", low=0.05, high=1.0)
    monitor_s: float = setting(5.0, "seconds between samples", low=0.5)
    plan_every_s: float = setting(20.0, "seconds between balancing rounds", low=1.0)
    policy: str = setting("least_moves", "even_counts, load_classes, least_moves, or module:Class of your own")

    def __post_init__(self) -> None:
        named(self.policy)  # an unknown policy is refused before anything is written


class Meter:
    """Measures what arrives: for every slice and sampling period a Poisson number of items around the true rate."""

    def __init__(self, settings: ScaleSettings, seed: int) -> None:
        self.period = settings.monitor_s
        self.rate = settings.gbit_s * 1e9 / 8 / settings.item_bytes
        self._chance = np.random.default_rng([seed, 1])
        self._shares = zipf(settings.publishers, settings.zipf)
        self._slices = settings.slices
        self.rates = self._drawn()
        self._counts: dict[int, list[int]] = {}

    def _drawn(self) -> Rates:
        """Give every publisher's rate to the slice it is hashed to."""
        where = self._chance.integers(0, self._slices, len(self._shares))
        return self.rate * np.bincount(where, weights=self._shares, minlength=self._slices).astype(np.float64)

    def jump(self) -> None:
        """Let other publishers become the hot ones."""
        self.rates = self._drawn()
        self._counts.clear()

    def __call__(self, slices: list[int], since: float, now: float) -> dict[int, float]:
        """Return what arrived for these slices since the last sample."""
        tick = int(now / self.period)
        if tick not in self._counts:
            self._counts = {tick: self._chance.poisson(self.rates * self.period).tolist()}
        counts = self._counts[tick]
        part = (now - since) / self.period
        return {s: counts[s] * part for s in slices}


def run(settings: ScaleSettings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    """Let the first node own everything, the others join, and the hot set jump half-way."""
    summary = Summary(phases=[settings.seconds / 2])
    messages: Counter[str] = Counter()

    def write(record: Mapping[str, Any]) -> None:
        summary.read(record)
        if trace is not None:
            trace(record)

    meter = Meter(settings, seed)
    speed = meter.rate / settings.nodes / settings.utilisation
    sim = Simulation(seed, Network(delay=0.001, jitter=0.001, intercept=_counting(messages)), write)
    node_settings = NodeSettings(
        slices=settings.slices,
        speed=speed,
        monitor_s=settings.monitor_s,
        drain_s=0.005,
        filter="node",  # without single items there is nothing for readers to filter
    )
    plan = Planned(
        named(settings.policy, **({"ceiling": 0.025, "target": 0.01} if settings.policy == "least_moves" else {})),
        Settings(),
        settings.plan_every_s,
        samples=2,
        doubt=3.2 if settings.policy == "least_moves" else 0.0,
        name=settings.policy,
    )
    sim.carry_out[Listen] = lambda node, command: None
    sim.add(
        BALANCER,
        lambda: LoadBalancer(plan, BalancerSettings(slices=settings.slices), settings.monitor_s, record=False),
    )
    topics = [Topic("data", Count())]
    for number in range(settings.nodes):
        name = f"node-{number:04d}"
        build = lambda n=name: ProcessingNode(n, topics, node_settings, balancer=BALANCER, meter=meter)  # noqa: E731
        sim.at(settings.monitor_s * number / settings.nodes, lambda n=name, b=build: sim.add(n, b))  # type: ignore[misc]
    sim.at(settings.seconds / 2, meter.jump)
    evenness: list[tuple[float, float, float]] = []
    for at in np.arange(settings.seconds * 0.1, settings.seconds + 0.1, settings.seconds * 0.02).tolist():
        sim.at(at, lambda t=at: evenness.append((t, *summary.imbalance(meter.rates.tolist()))))  # type: ignore[misc]
    sim.run(until=settings.seconds)
    late = [(ratio, floor) for at, ratio, floor in evenness if at >= 0.8 * settings.seconds]
    found = summary.findings(settings.seconds)
    ratio, floor = (sum(x) / len(late) for x in zip(*late, strict=True))
    kept = ("owner_violations", "sessions", "moves", "steady_moves", "p95_session_s", "thrash_pct")
    return {
        **{name: found[name] for name in kept},
        "nodes": settings.nodes,
        "slices": settings.slices,
        "publishers": settings.publishers,
        "gbit_s": settings.gbit_s,
        "items": int(meter.rate * settings.seconds),
        "max_over_mean": ratio,
        "floor": floor,
        "gap": ratio / floor - 1.0,
        "balancer_messages_per_s": sum(messages.values()) / settings.seconds,
        "events": sim.events,
        SERIES: {
            **series_of(summary, settings.seconds),
            "load_pct": {},  # too many nodes to be shown one by one
            "at": [at for at, _, _ in evenness],
            "max_over_mean": [ratio for _, ratio, _ in evenness],
            "floor": [floor for _, _, floor in evenness],
        },
    }


def _counting(messages: Counter[str]) -> Any:
    """Count what the balancer sends and receives: its traffic must not grow with the rate of items."""

    def see(sender: str, to: str, message: object, _: float) -> None:
        if BALANCER in (sender, to):
            messages[type(message).__name__] += 1

    return see


SCALE = Experiment(
    "slices-scale",
    "3,000 nodes, 30,000 slices, 300,000 publishers, 24 Gbit/s: the same actors, rates instead of items.",
    ScaleSettings,
    run,
    scale_figures,
)
