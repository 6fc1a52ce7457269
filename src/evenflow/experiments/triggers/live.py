"""The experiment ``dlber-live``: PageRank on Spark on skewed lanes, unbalanced and balanced, then with added links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenflow.experiments.registry import Experiment, TraceWriter
from evenflow.experiments.settings import setting
from evenflow.experiments.triggers.graph import Graph, power_law, read_graph, skewed_homes
from evenflow.invariants import compare
from evenflow.triggers.app import NO_ENTRY, Key, Row, Write
from evenflow.triggers.pagerank import DIST, PAGES, page_rows, pagerank, residual
from evenflow.triggers.policies import AskWhenIdle, Dlber, FillToMean, NoBalancing, Policy
from evenflow.triggers.settings import WorkerSettings

if TYPE_CHECKING:
    from evenflow.spark.triggers.plane import TriggerRun

DAMPING = 0.85


@dataclass(frozen=True)
class LiveSettings:
    """Settings of `dlber-live`."""

    graph: str | None = setting("wiki-Vote", "an edge list, or wiki-Vote; none generates one")
    pages: int = setting(2000, "pages of the generated graph", low=2, high=1_000_000)
    lanes: int = setting(8, "lanes", low=2, high=256)
    skew: float = setting(1.0, "lane i holds a share of the pages proportional to (i + 1) ** -skew", low=0.0, high=5.0)
    policy: Literal["fill_to_mean", "ask_when_idle", "dlber"] = setting("fill_to_mean", "who moves groups")
    tolerance: float = setting(3e-8, "change of a rank, of mean 1, that is passed on", low=1e-12, high=1.0)
    fine: float = setting(3e-8, "a tolerance at which links are added, for ranks that sum to 1", low=1e-15, high=1.0)
    coarse: float = setting(3e-6, "another one", low=1e-15, high=1.0)
    budget_s: float = setting(0.3, "most CPU seconds of a lane for triggers in one round: the heartbeat", low=0.001)
    least_s: float = setting(
        0.03, "least CPU seconds of a balanced round, which ends soon after an average lane is through", low=0.001
    )
    trigroup_s: float = setting(0.002, "predicted CPU seconds of a trigger group", low=1e-6)
    added: Literal["held_back", "random"] = setting(
        "held_back", "links that are added at the end: some of the graph's own, or between pages drawn at random"
    )
    added_pct: float = setting(1.0, "how many of them, per cent", low=0.0, high=100.0)


def run(settings: LiveSettings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    """Run unbalanced, balanced, and with added links, in one session."""
    from evenflow.spark.session import local_session, stderr_into  # noqa: PLC0415 - load Spark only if needed

    graph = _graph(settings, seed)
    homes = skewed_homes(graph.pages, settings.lanes, settings.skew, np.random.default_rng([seed, 2]))
    with TemporaryDirectory(prefix="evenflow-") as folder:
        with stderr_into(Path(folder) / "spark.log"):
            spark = local_session(2, name="evenflow dlber-live", settings={"spark.log.level": "ERROR"})
        try:
            row = measure(spark, settings, graph, homes, seed)
        finally:
            spark.stop()
    if trace is not None:
        moved = f"{row['groups_moved']} groups moved, slowest lane at {row['busy_ratio']:.2f} of the unbalanced one"
        trace({"kind": "note", "at": 0.0, "why": moved})
    return row


def measure(spark: Any, settings: LiveSettings, graph: Graph, homes: Mapping[int, int], seed: int) -> dict[str, object]:
    """Run everything in an existing session, and compare with a power iteration."""
    none = _start(spark, settings, graph, homes, NoBalancing(), settings.tolerance)
    rounds_none = none.run()
    run = _start(spark, settings, graph, homes, _policy(settings), settings.tolerance)
    rounds = run.run()
    exact = power_iteration(graph)
    row: dict[str, object] = {
        "pages": len(graph.pages),
        "edges": graph.edges,
        "l1_error": l1(told(run), exact),
        "l1_error_none": l1(told(none), exact),
        "residual": residual(run.rows(PAGES), DAMPING),
        "busy_max_s": max(busy(run)),
        "busy_max_none_s": max(busy(none)),
        "busy_ratio": max(busy(run)) / max(busy(none)),
        "busy_s": sum(busy(run)),
        "busy_none_s": sum(busy(none)),
        "task_cpu_max_s": max(_cpu(run)),
        "task_cpu_max_none_s": max(_cpu(none)),
        "rounds": rounds,
        "rounds_none": rounds_none,
        "round_s": run.wall_s / rounds,
        "executed": executed(run),
        "executed_none": executed(none),
        "groups_moved": _count(run, "groups"),
        "triggers_moved": _count(run, "lent"),
        "groups_moved_none": _count(none, "groups"),
        "instructions": run.instructed,
    }
    if settings.added_pct > 0:
        chance = np.random.default_rng([seed, 3])
        before, after = graph, graph
        if settings.added == "held_back":
            before = with_fewer_links(graph, settings.added_pct, chance)
        else:
            after = with_more_links(graph, settings.added_pct, chance)
        row |= _added(spark, settings, before, after, homes, settings.fine, "")
        row |= _added(spark, settings, before, after, homes, settings.coarse, "_coarse")
    return row


def _added(
    spark: Any,
    settings: LiveSettings,
    before: Graph,
    after: Graph,
    homes: Mapping[int, int],
    tolerance: float,
    suffix: str,
) -> dict[str, object]:
    """Run until nothing changes, add links, run again, and return the results of the second run."""
    run = _start(spark, settings, before, homes, _policy(settings), tolerance * len(before.pages))
    run.run()
    full, full_s = executed(run), sum(busy(run))
    changed = [page for page, targets in after.links.items() if set(targets) != set(before.links.get(page, ()))]
    run.write([Write(PAGES, (page,), "links", NO_ENTRY, after.links[page]) for page in changed])
    rounds = run.run()
    return {
        f"added_links{suffix}": after.edges - before.edges,
        f"added_rounds{suffix}": rounds,
        f"added_work_pct{suffix}": 100 * (executed(run) - full) / full,
        f"added_busy_pct{suffix}": 100 * (sum(busy(run)) - full_s) / full_s,
        f"l1_error_added{suffix}": l1(told(run), power_iteration(after)),
    }


def _graph(settings: LiveSettings, seed: int) -> Graph:
    if settings.graph is not None:
        return read_graph(settings.graph)
    return power_law(settings.pages, np.random.default_rng([seed, 1]))


def _policy(settings: LiveSettings) -> Policy:
    """Return the policy with parameters for rounds on Spark, where the heartbeat is the budget."""
    if settings.policy == "dlber":
        return Dlber(1.1 * settings.budget_s)
    if settings.policy == "ask_when_idle":
        return AskWhenIdle(settings.trigroup_s, fresh_s=1.0)
    return FillToMean(settings.trigroup_s)


def _start(
    spark: Any, settings: LiveSettings, graph: Graph, homes: Mapping[int, int], policy: Policy, tolerance: float
) -> TriggerRun:
    from evenflow.spark.triggers.plane import Placed, TriggerRun  # noqa: PLC0415 - load Spark only if needed

    worker = WorkerSettings(
        heartbeat_s=0.0,
        trigroup_s=settings.trigroup_s,
        estimate="mean" if settings.policy == "dlber" else "line",
        first_s=1e-4,
        reads="end",
        asks=policy.asks,
        direct=True,
    )
    placed = Placed(lambda: pagerank(tolerance, DAMPING, lazy=True), homes, worker)
    least_s = None if isinstance(policy, NoBalancing) else settings.least_s
    run = TriggerRun(spark, placed, settings.lanes, policy, settings.budget_s, least_s)
    shares: dict[int, list[int]] = {lane: [] for lane in range(settings.lanes)}
    for page in graph.pages:
        shares[homes[page]].append(page)
    app, linked = pagerank(tolerance, DAMPING, lazy=True), graph.linked
    run.start(lambda lane: page_rows(app, graph.links, linked, shares[lane], DAMPING), (DIST,))
    return run


def with_fewer_links(graph: Graph, per_cent: float, chance: np.random.Generator) -> Graph:
    """Return the graph without ``per_cent`` of its links, drawn at random."""
    out = set(chance.choice(graph.edges, round(graph.edges * per_cent / 100), replace=False).tolist())
    number = count()
    kept = {page: tuple(t for t in targets if next(number) not in out) for page, targets in graph.links.items()}
    return Graph(graph.pages, kept)


def with_more_links(graph: Graph, per_cent: float, chance: np.random.Generator) -> Graph:
    """Return the graph with ``per_cent`` more links, between pages drawn at random."""
    links = {page: dict.fromkeys(targets) for page, targets in graph.links.items()}
    wanted = round(graph.edges * per_cent / 100)
    pages = np.array(graph.pages)
    while wanted:
        source, target = (int(page) for page in chance.choice(pages, 2))
        if source != target and target not in links.setdefault(source, {}):
            links[source][target] = None
            wanted -= 1
    return Graph(graph.pages, {page: tuple(targets) for page, targets in links.items()})


def power_iteration(graph: Graph, damping: float = DAMPING, tolerance: float = 1e-14) -> dict[int, float]:
    """Return the usual PageRank: normalised, and pages without links give to all pages."""
    place = {page: i for i, page in enumerate(graph.pages)}
    sources = np.array([place[page] for page, targets in graph.links.items() for _ in targets], np.int64)
    targets = np.array([place[t] for ts in graph.links.values() for t in ts], np.int64)
    n = len(graph.pages)
    degree = np.bincount(sources, minlength=n)
    rank = np.full(n, 1.0 / n)
    for _ in range(1000):
        share = rank / np.maximum(degree, 1)
        flow = np.bincount(targets, weights=share[sources], minlength=n)
        after = (1.0 - damping + damping * rank[degree == 0].sum()) / n + damping * flow
        moved = float(np.abs(after - rank).sum())
        rank = after
        if moved < tolerance:
            break
    return dict(zip(graph.pages, rank.tolist(), strict=True))


def normalised(rows: Mapping[Key, Row]) -> dict[Any, float]:
    """Return the ranks that pages have sent, scaled to a sum of 1."""
    total = sum(row["told"] for row in rows.values())
    return {page: row["told"] / total for page, row in rows.items()}


def told(run: TriggerRun) -> dict[Any, float]:
    """Return the normalised ranks of a run."""
    return normalised(run.rows(PAGES))


def l1(found: Mapping[Any, float], exact: Mapping[int, float]) -> float:
    """Return the L1 distance of the ranks; raise an error if there are no pages to compare."""
    compare(exact, found).judged("dlber-live")
    return sum(abs(found[page] - rank) for page, rank in exact.items())


def busy(run: TriggerRun) -> list[float]:
    """Return each lane's CPU seconds spent in triggers."""
    return [sum(round_[lane].busy_s for round_ in run.reports) for lane in range(run.lanes)]


def _cpu(run: TriggerRun) -> list[float]:
    return [sum(round_[lane].cpu_s for round_ in run.reports) for lane in range(run.lanes)]


def executed(run: TriggerRun) -> int:
    """Return the number of executions."""
    return sum(report.executed for round_ in run.reports for report in round_)


def _count(run: TriggerRun, what: str) -> int:
    return sum(report.counts.get(what, 0) for report in run.reports[-1])


LIVE = Experiment(
    "dlber-live",
    "PageRank by triggers on Spark, skewed lanes, unbalanced and balanced; then links are added.",
    LiveSettings,
    run,
)
