"""Slices in virtual time: nodes join and leave, streams are skewed, drift and jump, nodes differ, things break."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from evenflow.experiments.figures import SERIES
from evenflow.experiments.registry import Experiment, TraceWriter
from evenflow.experiments.settings import setting
from evenflow.experiments.slices.chaos import CHAOS, quiet
from evenflow.experiments.slices.figures import series_of, stream_figures
from evenflow.experiments.slices.kill import KILL
from evenflow.experiments.slices.rounds import ROUNDS
from evenflow.experiments.slices.scale import SCALE
from evenflow.experiments.slices.summary import Summary, is_even
from evenflow.experiments.slices.workload import Drift, Sensors
from evenflow.experiments.slices.world import BALANCER, World
from evenflow.planner import Settings
from evenflow.policies import named
from evenflow.sim import Network, Simulation
from evenflow.slices.algorithm import Algorithm, Planned
from evenflow.slices.balancer import Drain
from evenflow.slices.settings import BalancerSettings, NodeSettings

COUNTS = (
    "items", "processed", "unprocessed", "lost", "duplicated", "owner_violations", "sessions", "unfinished_sessions",
)  # fmt: skip


@dataclass(frozen=True)
class Stream:
    """What every experiment with single items can be told."""

    nodes: int = setting(8, "processing nodes", low=1, high=500)
    slices: int = setting(256, "slices", low=1, high=100_000)
    sensors: int = setting(2000, "sensors that publish", low=1, high=1_000_000)
    gateways: int = setting(10, "publishers that speak for the sensors", low=1, high=1000)
    rate: float = setting(1000.0, "items per second, in all", low=1.0)
    seconds: float = setting(150.0, "virtual seconds", low=20.0)
    zipf: float | None = setting(None, "skew of the sensors' rates; none draws 0.4 to 1.05 per seed", low=0.0, high=3.0)
    arrivals: Literal["periodic", "poisson"] = setting("periodic", "sensors report at intervals, or at random")
    utilisation: float = setting(0.6, "mean load over capacity", low=0.05, high=1.0)
    policy: str = setting("least_moves", "even_counts, load_classes, least_moves, or module:Class of your own")
    plan_every_s: float = setting(5.0, "seconds between balancing rounds; 0 plans on every notification", low=0.0)
    filter: Literal["reader", "node"] = setting("reader", "where foreign items are filtered out")
    monitor_s: float = setting(2.0, "seconds between samples", low=0.1)

    def __post_init__(self) -> None:
        named(self.policy)  # an unknown policy is refused before anything is written


@dataclass(frozen=True)
class Join(Stream):
    """`slices-join`: two nodes share the slices, others join while items flow."""

    nodes: int = setting(2, "nodes at the start", low=1, high=500)
    joins: int = setting(1, "nodes that join", low=1, high=500)
    slices: int = setting(10, "slices", low=1, high=100_000)
    zipf: float | None = setting(0.0, "skew of the sensors' rates; none draws 0.4 to 1.05 per seed", low=0.0, high=3.0)
    rate: float = setting(400.0, "items per second, in all", low=1.0)
    seconds: float = setting(60.0, "virtual seconds", low=20.0)
    policy: str = setting("even_counts", "even_counts, load_classes, least_moves, or module:Class of your own")
    plan_every_s: float = setting(0.0, "seconds between balancing rounds; 0 plans on every notification", low=0.0)


@dataclass(frozen=True)
class Drains(Stream):
    """`slices-drain`: one node is drained when asked, another because it idles."""

    nodes: int = setting(4, "nodes at the start", low=3, high=500)
    slices: int = setting(64, "slices", low=1, high=100_000)
    zipf: float | None = setting(0.6, "skew of the sensors' rates; none draws 0.4 to 1.05 per seed", low=0.0, high=3.0)
    rate: float = setting(400.0, "items per second, in all", low=1.0)
    seconds: float = setting(80.0, "virtual seconds", low=40.0)
    idle_below: float = setting(40.0, "per cent CPU below which a node idles", low=0.0, high=100.0)
    idle_for: float = setting(6.0, "seconds it must idle", low=0.0)
    utilisation: float = setting(0.25, "mean load over capacity", low=0.05, high=1.0)


@dataclass(frozen=True)
class Drifts(Stream):
    """`slices-drift`: the hot sensors change, at once or gradually."""

    drift: Literal["jump", "slow"] = setting("jump", "how the hot set changes")
    seconds: float = setting(300.0, "virtual seconds", low=60.0)
    zipf: float | None = setting(0.8, "skew of the sensors' rates; none draws 0.4 to 1.05 per seed", low=0.0, high=3.0)


@dataclass(frozen=True)
class Hetero(Stream):
    """`slices-hetero`: the fastest node has ten times the capacity of the slowest."""

    spread: float = setting(10.0, "capacity of the fastest node over the slowest's", low=1.0, high=1000.0)
    zipf: float | None = setting(0.6, "skew of the sensors' rates; none draws 0.4 to 1.05 per seed", low=0.0, high=3.0)


def algorithm(policy: str, every_s: float) -> Algorithm:
    """Return the algorithm of a policy's name, with the settings that suit noisy measurements."""
    if policy == "least_moves":
        slow = 6 * every_s  # a slice that moved rests: what follows a drift too closely runs after noise
        return Planned(
            named(policy, ceiling=0.025, target=0.005),
            Settings(),
            every_s,
            3,
            rest_s=slow,
            doubt=3.2,
            tolerance=0.04,
            settle=10,
            name=policy,
        )
    if policy == "even_counts":
        return Planned(named(policy), every_s=every_s, name=policy)
    return Planned(named(policy), every_s=every_s, samples=3, name=policy)


def _phases(drift: Drift, change: float, end: float) -> list[float]:
    """Return when the world is another: at a jump, or with each quarter of a slow drift."""
    if drift == "slow":
        return [change + n * (end - change) / 4 for n in range(4)]
    return [change] if drift == "jump" else []


class Bench:
    """One run: a world, a stream and a summary, ready for the experiment's own events."""

    def __init__(self, settings: Stream, seed: int, trace: TraceWriter | None, **balancer: Any) -> None:
        drift: Drift = getattr(settings, "drift", "none")
        change = 0.4 * settings.seconds if drift != "none" else float("inf")
        self.settings = settings
        self.change_at = change
        self.summary = Summary(phases=_phases(drift, change, settings.seconds))
        self.rounds: list[tuple[float, float, float]] = []  # at, true max/mean just before the round, its floor
        self._trace = trace
        self.sim = Simulation(seed, Network(delay=0.002, jitter=0.002), self._write)
        draw = self.sim.chance("stream")
        exponent = settings.zipf if settings.zipf is not None else draw.uniform(0.4, 1.05)
        self.exponent = exponent
        self.sensors = Sensors(
            settings.sensors, settings.slices, settings.rate, exponent, draw, drift, change, settings.seconds
        )
        self.speeds = self._speeds()
        self.world = World(
            self.sim,
            NodeSettings(slices=settings.slices, filter=settings.filter, monitor_s=settings.monitor_s, drain_s=0.01),
            BalancerSettings(slices=settings.slices, **balancer),
            lambda: algorithm(settings.policy, settings.plan_every_s),
        )

    def _speeds(self) -> list[float]:
        settings = self.settings
        spread = getattr(settings, "spread", 1.0)
        weights = [spread ** (i / max(1, settings.nodes - 1)) for i in range(settings.nodes)]
        total = settings.rate / settings.utilisation
        return [total * w / sum(weights) for w in weights]

    def _write(self, record: Mapping[str, Any]) -> None:
        if record["kind"] == "plan":
            self.rounds.append((record["at"], *self.summary.imbalance(self.sensors.slice_rates(record["at"]).tolist())))
        self.summary.read(record)
        if self._trace is not None:
            self._trace(record)

    def join(self, number: int, speed: float) -> None:
        """Start a node of this speed."""
        self.world.join(f"node-{number}", replace(self.world.node_settings, speed=speed))

    def run(self, *events: tuple[float, Callable[[], object]]) -> dict[str, Any]:
        """Start everything, let the events happen at their times, and return the row."""
        settings, sim = self.settings, self.sim
        for number, speed in enumerate(self.speeds):
            sim.at(0.01 * number, lambda n=number, s=speed: self.join(n, s))  # type: ignore[misc]  # bound at once
        for gateway in range(settings.gateways):
            chance = sim.chance(f"gateway {gateway}")
            poisson = settings.arrivals == "poisson"
            schedule = self.sensors.schedule(gateway, settings.gateways, chance, poisson=poisson)
            self.world.publish(schedule, retry_s=3.0)
        for at, event in events:
            sim.at(at, event)
        sim.run(until=settings.seconds)
        row = self.summary.findings(settings.seconds)
        quiet(sim, self.world)
        self.world.note_final()
        self.world.note_waiting()
        self.summary.check.comparison().judged("slices")
        final = self.summary.check.findings()
        row.update({name: final[name] for name in COUNTS})
        return {
            **row,
            "zipf": self.exponent,
            "rounds_to_even": self.rounds_to_even(),
            "events": sim.events,
            SERIES: series_of(self.summary, settings.seconds),
        }

    def rounds_to_even(self) -> int | None:
        """Return how many balancing rounds it took to become even, after the change if there is one."""
        since = self.change_at if self.change_at < float("inf") else 0.0
        rounds = [is_even(ratio, floor) for at, ratio, floor in self.rounds if at >= since]
        # A round acts on what it sees; the world it leaves behind is what the next round finds.
        return next((n for n, even in enumerate(rounds) if even), None)


def run_stream(settings: Stream, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    """Run a stream that nothing disturbs."""
    return Bench(settings, seed, trace).run()


def run_join(settings: Join, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    """Let nodes join one after the other from a third of the run on."""
    bench = Bench(settings, seed, trace)
    first, gap = settings.seconds / 3, settings.seconds / 3 / settings.joins
    speed = bench.speeds[0]
    joins = [
        (first + n * gap, lambda n=n: bench.join(settings.nodes + n, speed))  # n is bound at once
        for n in range(settings.joins)
    ]
    bench.summary.phases = [at for at, _ in joins]
    row = bench.run(*joins)
    held = list(bench.summary.owner.values())
    counts = [held.count(f"node-{n}") for n in range(settings.nodes + settings.joins)]
    return {**row, "slices_per_node": counts}


def run_drain(settings: Drains, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    """Drain one node on request at a quarter of the run; idle ones are drained by the balancer."""
    bench = Bench(settings, seed, trace, idle_below=0.0)
    ask = (settings.seconds / 4, lambda: bench.sim.post("operator", BALANCER, Drain("node-1")))
    idle = (settings.seconds / 2, lambda: _watch_idle(bench, settings))
    bench.summary.phases = [ask[0], idle[0]]
    row = bench.run(ask, idle)
    return {**row, "nodes_left": len(bench.summary.capacity)}


def _watch_idle(bench: Bench, settings: Drains) -> None:
    balancer: Any = bench.sim.cells[BALANCER].actor
    balancer.settings = replace(balancer.settings, idle_below=settings.idle_below, idle_for=settings.idle_for)


EXPERIMENTS = (
    Experiment("slices-join", "nodes join while items flow; slices even out.", Join, run_join, stream_figures),
    Experiment(
        "slices-drain", "a node is drained on request, another because it idles.", Drains, run_drain, stream_figures
    ),
    Experiment(
        "slices-skew",
        "a Zipf-skewed stream is spread evenly from measured samples.",
        Stream,
        run_stream,
        stream_figures,
    ),
    Experiment(
        "slices-drift",
        "the hot set jumps or drifts slowly, and the balancer follows.",
        Drifts,
        run_stream,
        stream_figures,
    ),
    Experiment(
        "slices-hetero", "nodes whose capacities differ 1:10 get shares that fit.", Hetero, run_stream, stream_figures
    ),
    CHAOS,
    KILL,
    ROUNDS,
    SCALE,
)
