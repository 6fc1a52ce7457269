"""The experiment ``dlber`` in virtual time: PageRank on a skewed placement, balanced by *DLBer* or by our policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from evenflow.experiments.figures import SERIES
from evenflow.experiments.registry import Experiment, TraceWriter
from evenflow.experiments.settings import setting
from evenflow.experiments.triggers.chaos import CHAOS
from evenflow.experiments.triggers.figures import dlber_figures
from evenflow.experiments.triggers.graph import Graph, power_law, read_graph, skewed_homes
from evenflow.experiments.triggers.live import LIVE
from evenflow.experiments.triggers.world import Cluster, Costs
from evenflow.triggers.pagerank import pagerank, residual
from evenflow.triggers.policies import Policy, policy_named
from evenflow.triggers.settings import BalancerSettings, WorkerSettings

IDEAL = "shared_queue"
OURS = ("fill_to_mean", "ask_when_idle")


@dataclass(frozen=True)
class Settings:
    """Settings of `dlber`."""

    policy: Literal["dlber", "fill_to_mean", "ask_when_idle", "none", "shared_queue"] = setting(
        "dlber", "who moves triggers; shared_queue is the ideal: one queue for all workers"
    )
    pages: int = setting(2000, "pages of the generated graph", low=2, high=1_000_000)
    graph: str | None = setting(None, "an edge list to read instead, or wiki-Vote")
    workers: int = setting(8, "workers", low=1, high=1000)
    skew: float = setting(
        1.0, "worker i holds a share of the pages proportional to (i + 1) ** -skew", low=0.0, high=5.0
    )
    spread: float = setting(1.0, "speed of the fastest worker over the slowest's", low=1.0, high=100.0)
    coalesce: bool = setting(default=True, help="at most one waiting trigger per page and type")
    tolerance: float = setting(0.05, "change of a rank, of mean 1, that is passed on", low=1e-12, high=1.0)
    damping: float = setting(0.85, "of PageRank", low=0.0, high=0.999)
    base_s: float = setting(0.05, "seconds of every execution", low=1e-6)
    edge_s: float = setting(0.01, "seconds per link or weight of the page", low=0.0)
    heartbeat_s: float | None = setting(None, "seconds between heartbeats; none is 5, for fill_to_mean 1", low=0.001)
    tunder_s: float = setting(5.5, "a worker with less predicted work fetches", low=0.0)
    trigroup_s: float = setting(1.0, "predicted seconds of a trigger group", low=1e-6)
    latency_s: float = setting(0.005, "seconds of a message", low=0.0)
    transfer_s: float = setting(0.0005, "seconds more per moved trigger", low=0.0)
    decision_s: float = setting(0.01, "seconds of a decision of the master", low=0.0)
    estimate: Literal["mean", "line"] | None = setting(
        None, "predicted time: mean per type (published), or line over degree; none is mean for dlber, else line"
    )
    order: Literal["arrival", "gain"] | None = setting(
        None, "which trigger runs first: the oldest, or what changes most per second; none is gain for ours alone"
    )
    cost_power: float = setting(
        0.7, "what counts for order=gain is the change over the seconds to this power", low=0.0, high=2.0
    )
    reads: Literal["start", "end"] = setting(
        "start", "whether an execution reads its row when it starts or when it ends; the text is silent on it"
    )

    def __post_init__(self) -> None:
        if self.policy == "dlber":
            self.balancer().check_tunder(self.base_s)

    def balancer(self) -> BalancerSettings:
        """Return the balancer's settings."""
        beat = self.heartbeat_s if self.heartbeat_s is not None else 1.0 if self.policy == "fill_to_mean" else 5.0
        return BalancerSettings(beat, self.tunder_s, self.trigroup_s, self.decision_s, self.latency_s, self.transfer_s)


@dataclass(frozen=True, slots=True)
class Finished:
    """A completed run."""

    cluster: Cluster
    makespan_s: float
    speed: float  # of all workers together

    @property
    def total_work_s(self) -> float:
        """The time of all executions, in seconds on a worker of speed 1."""
        return sum(worker.state.busy_s * self.cluster.speeds[worker.name] for worker in self.cluster.workers)

    @property
    def bound_s(self) -> float:
        """The total work divided by the speed of all workers; no schedule of this work can be shorter."""
        return self.total_work_s / self.speed


def graph_of(settings: Settings, seed: int) -> Graph:
    """Return the graph for a seed."""
    if settings.graph is not None:
        return read_graph(settings.graph)
    return power_law(settings.pages, np.random.default_rng([seed, 1]))


def play(settings: Settings, seed: int, policy: str, graph: Graph, trace: TraceWriter | None = None) -> Finished:
    """Run PageRank once with a policy."""
    balancer = settings.balancer()
    workers = settings.workers
    speeds = [settings.spread ** (-n / max(1, workers - 1)) for n in range(workers)]
    asks = policy == "ask_when_idle"
    order = settings.order or ("gain" if policy in OURS else "arrival")
    worker = WorkerSettings(
        coalesce=settings.coalesce,
        order=order,
        cost_power=settings.cost_power,
        heartbeat_s=balancer.heartbeat_s,
        trigroup_s=balancer.trigroup_s,
        estimate=settings.estimate or ("mean" if policy == "dlber" else "line"),
        first_s=settings.base_s + 8 * settings.edge_s,
        reads=settings.reads,
        asks=asks,
        ask_below_s=4 * balancer.asking_s,
        worth_s=balancer.worth_s,
        patience_s=8 * balancer.asking_s,
    )
    chosen: Policy | None = None
    if policy == IDEAL:
        homes = dict.fromkeys(graph.pages, 0)
        worker = replace(worker, heartbeat_s=0.0, slots=workers)
        speeds = [1.0]
    else:
        homes = skewed_homes(graph.pages, workers, settings.skew, np.random.default_rng([seed, 2]))
        if policy != "none":
            chosen = policy_named(policy, balancer)
    app = pagerank(settings.tolerance, settings.damping)
    costs = Costs(settings.base_s, settings.edge_s)
    cluster = Cluster(
        graph, homes, app, speeds, worker, balancer, chosen, costs, damping=settings.damping, seed=seed, trace=trace
    )
    makespan = cluster.run(step_s=max(20 * settings.latency_s, 20 * settings.base_s))
    return Finished(cluster, makespan, float(workers) if policy == IDEAL else sum(speeds))


def run(settings: Settings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    """Run the policy, no balancing and the shared queue on the same graph and placement."""
    graph = graph_of(settings, seed)
    done = play(settings, seed, settings.policy, graph, trace)
    none = done if settings.policy == "none" else play(settings, seed, "none", graph)
    ideal = done if settings.policy == IDEAL else _ideal(settings, seed, graph)
    cluster, master = done.cluster, done.cluster.master
    busy = sum(worker.state.busy_s for worker in cluster.workers)
    control = sum(cluster.total(what) for what in ("asks", "lends", "returns"))
    return {
        "pages": len(graph.pages),
        "edges": graph.edges,
        "makespan_s": done.makespan_s,
        "makespan_none_s": none.makespan_s,
        "makespan_ideal_s": ideal.makespan_s if ideal is not None else None,
        "better_pct": 100 * (none.makespan_s / done.makespan_s - 1),
        "total_work_s": done.total_work_s,
        "total_work_none_s": none.total_work_s,
        "bound_s": done.bound_s,
        "over_pct": 100 * (done.makespan_s / done.bound_s - 1),
        "over_none_pct": 100 * (none.makespan_s / none.bound_s - 1),
        "over_ideal_pct": 100 * (done.makespan_s / ideal.makespan_s - 1) if ideal is not None else None,
        "messages": control + (master.instructions if master is not None else 0),
        "heartbeats": cluster.total("heartbeats"),
        "groups_moved": cluster.total("groups"),
        "triggers_moved": cluster.total("lent"),
        "executed": cluster.total("executed"),
        "idle_s": settings.workers * done.makespan_s - busy,
        "decision_s": (master.decisions if master is not None else 0) * settings.decision_s,
        "residual": residual(cluster.rows(), settings.damping),
        SERIES: _series(done),
    }


def _ideal(settings: Settings, seed: int, graph: Graph) -> Finished | None:
    """Run the shared queue, or return ``None`` where it is not an ideal.

    Without coalescing its order alone causes a multiple of the work.
    """
    return play(settings, seed, IDEAL, graph) if settings.coalesce and settings.spread == 1.0 else None


def _series(done: Finished) -> dict[str, Any]:
    loads = done.cluster.loads
    stride = 1 + len(loads) // 100
    shown = loads[::stride]
    return {
        "at": [at for at, _ in shown],
        "load_s": {name: [row[n] for _, row in shown] for n, name in enumerate(done.cluster.names[:12])},
    }


EXPERIMENTS = (
    Experiment(
        "dlber",
        "PageRank by triggers on a skewed placement; trigger groups move to idle workers.",
        Settings,
        run,
        dlber_figures,
    ),
    LIVE,
    CHAOS,
)
