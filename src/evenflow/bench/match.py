"""Matching, side by side: evenflow, the joins a Spark user would write, polars and duckdb, per CPU-second.

All engines of a case match the same events first, and their pairs must agree in number and checksum.
Then they take turns, so that whatever else the machine does meets all of them alike; a ratio is the median over the turns.
What a run with a single event costs is taken off in the same turn, for every engine: it is the price of a job, not of an event.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import Any

from evenflow.bench import match_joins as joins
from evenflow.bench import workloads
from evenflow.bench.match_engines import Counts, DuckDb, Matcher, Pairs, Polars, SparkJoin, SparkMatch, rules_text
from evenflow.bench.match_index import ADDED_SHARE, index_costs
from evenflow.bench.measure_cpu import cpu_of
from evenflow.bench.workloads import Workload
from evenflow.errors import BadInput
from evenflow.invariants import Comparison
from evenflow.subscriptions.matching import Engine

SIZES = (2_000, 100_000, 1_000_000)
WORKLOADS: Mapping[str, Callable[[int, int, int], Workload]] = {"stock": workloads.stock, "flat": workloads.flat}
EQUI_JOIN, NESTED_LOOP = "Spark equi-join + filter", "Spark nested-loop join"
Say = Callable[[str], None]
_MOST_EVENTS = 100_000
_FEWEST_EVENTS = 4
_WARM_RUNS = 12
_CHECKED = 16_000_000  # rules × events that every engine must agree on before it is timed


@dataclass
class Turn:
    """An engine of a case, with the number of events that it matches each time it is its turn."""

    matcher: Matcher
    events: int
    seconds: list[float] = field(default_factory=list)

    def take(self) -> None:
        """Do the work, and the same with one event, and note the difference."""
        self.matcher.run(1)  # after a pause Spark has new workers, and each loads the subscriptions first
        single = cpu_of(lambda: self.matcher.run(1))
        whole = cpu_of(lambda: self.matcher.run(self.events))
        self.seconds.append(
            max(whole - single, whole / 10, 1e-6)
        )  # where a job costs more than its events, do not guess

    def rates(self) -> list[float]:
        """Give the events per CPU-second, turn by turn."""
        return [(self.events - 1) / seconds for seconds in self.seconds]


def bench_match(
    names: Sequence[str] = tuple(WORKLOADS),
    sizes: Sequence[int] = SIZES,
    *,
    turns: int = 5,
    seconds: float = 1.0,
    spark: bool = True,
    seed: int = 1,
    say: Say = lambda _: None,
) -> dict[str, Any]:
    """Run the cases and give the rows.

    Parameters
    ----------
    names, sizes
        The workloads and the numbers of subscriptions.
    turns
        How often each engine is measured, 5 or more for a result to quote.
    seconds
        About how many CPU seconds one turn of an engine takes.
    spark
        Whether to start Spark; without it the baseline is duckdb.
    say
        Told what is under way.
    """
    missing = [name for name in ("psutil", "polars", "duckdb", "numba") if find_spec(name) is None]
    if missing:
        raise BadInput(f"no {', '.join(missing)}", "the extras dev and fast", "bench match")
    began = time.perf_counter()
    side = joins.SparkSide() if spark else None
    rows: list[dict[str, Any]] = []
    index: list[dict[str, Any]] = []
    try:
        for name in names:
            for size in sizes:
                say(f"{name}, {size:,} subscriptions")
                index.append(_index(name, size, seed, say))
                rows += _case(name, size, side, turns=turns, seconds=seconds, seed=seed, say=say)
    finally:
        if side is not None:
            side.stop()
    return {"bench": "match", "rows": rows, "index": index, "seconds": round(time.perf_counter() - began, 1)}


def _index(name: str, size: int, seed: int, say: Say) -> dict[str, Any]:
    """Measure what the index itself costs."""
    more = WORKLOADS[name](1, max(1, int(size * ADDED_SHARE)), seed + 1)
    row = index_costs(WORKLOADS[name](10, size, seed), more, covering=name == "stock")
    covered = "" if row["covering_s"] is None else f", covering set {row['covering_s']:.2f} s"
    say(f"  index: {row['build_s']:.2f} s, {row['index_mb']:g} MB, {row['add_us']:.2f} µs for an addition{covered}")
    return row


def _case(
    name: str, size: int, side: joins.SparkSide | None, *, turns: int, seconds: float, seed: int, say: Say
) -> list[dict[str, Any]]:
    workload = WORKLOADS[name](_MOST_EVENTS, size, seed)
    matchers = list(_matchers(workload, side))
    checked = min(1_000, max(_FEWEST_EVENTS, _CHECKED // size))
    sums = {matcher.name: matcher.summed(checked) for matcher in matchers}
    if len(set(sums.values())) != 1:
        raise AssertionError(f"the engines differ on {name} with {size} subscriptions: {sums}")
    Comparison(max(pairs for pairs, _ in sums.values())).judged(f"bench match, {name} with {size} subscriptions")
    running = [_calibrated(matcher, seconds) for matcher in matchers]
    for _ in range(turns):
        for turn in running:
            turn.take()
    for matcher in matchers:
        matcher.close()
    baseline = next((t for t in running if t.matcher.name == EQUI_JOIN), running[0])
    rows = []
    for turn in running:
        row = {"workload": name, "subscriptions": size, "engine": turn.matcher.name, "variant": turn.matcher.name}
        pairs, checksum = sums[turn.matcher.name]
        row |= {"events_per_cpu_s": round(median(turn.rates()), 1), "events": turn.events, "turns": turns}
        row |= {"checked_events": checked, "pairs": pairs, "checksum": checksum}
        row |= {"baseline": baseline.matcher.name, "ratio": _ratio(turn, baseline)}
        nested = next((t for t in running if t.matcher.name == NESTED_LOOP), None)
        row["ratio_nested_loop"] = None if nested is None else _ratio(turn, nested)
        rows.append(row)
        say(f"  {row['engine']}: {row['events_per_cpu_s']:,.0f} events per CPU-second, {row['ratio']}×")
    return rows


def _ratio(turn: Turn, baseline: Turn) -> float:
    """Compare turn by turn, and take the median: what slowed both down falls out."""
    found = median(mine / other for mine, other in zip(turn.rates(), baseline.rates(), strict=True))
    return float(f"{found:.3g}")


def _matchers(workload: Workload, side: joins.SparkSide | None) -> Iterator[Matcher]:
    """Give the engines, the baseline of a case without an equi-join first."""
    if side is not None:
        side.forget()
        events, rules = side.held(workload.events), side.held(workload.rules)
        yield SparkJoin(NESTED_LOOP, events, rules, joins.nested_loop)
        if workload.name == "stock":
            yield SparkJoin(EQUI_JOIN, events, rules, joins.equal_then_filter)
    yield DuckDb(workload)
    yield Polars(workload)
    engines: tuple[Engine, ...] = ("numpy", "numba")
    for engine in engines:
        yield (pairs := Pairs(workload, engine))
        yield Counts(pairs)
    if side is not None:
        shipped = joins.ship(side.frame(rules_text(workload)))
        for output in ("list", "counts", "pairs"):
            yield SparkMatch(events, shipped, output)


def _calibrated(matcher: Matcher, seconds: float) -> Turn:
    """Choose as many events as fill a turn, from runs that grow until the rate does not: a JVM compiles while it runs."""
    for _ in range(3):
        matcher.run(1)
    wanted = seconds * matcher.patience
    size, best = _FEWEST_EVENTS, 0.0
    for _ in range(_WARM_RUNS):
        took = max(cpu_of(partial(matcher.run, size)) - cpu_of(partial(matcher.run, 1)), wanted / 50)
        rate = size / took
        if took > wanted / 2 and rate < 1.2 * best:
            break
        best = max(rate, best)
        size = int(min(_MOST_EVENTS, max(_FEWEST_EVENTS, best * wanted)))
    return Turn(matcher, size)
