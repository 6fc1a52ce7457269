"""What the reports of the slices experiments show, and the series that their rows keep for it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evenflow.experiments.figures import SERIES, Figure, Series, Table
from evenflow.experiments.published import NONE_FOR_SLICES
from evenflow.experiments.registry import Row
from evenflow.experiments.slices.summary import Summary
from evenflow.slices.session import ACTIONS, Phase

POINTS = 100  # of a curve, at most: a row is a summary, the trace has everything
CURVES = 12  # nodes that a picture shows one by one
TOP = 4.0  # of max/mean: while one of thousands of nodes has everything it is in the thousands, and hides the rest
OURS = "No published figures exist for data processing slices; these are our own measurements."


def series_of(summary: Summary, end: float) -> dict[str, Any]:
    """Return the curves of one run: how even it was, each node's load, what moved when, how long sessions took."""
    stride = 1 + int(end / summary.window_s) // POINTS
    windows = range(0, int(end / summary.window_s), stride)
    shown = sorted(summary.stays)[:CURVES]
    evenness = [summary.evenness(window) for window in windows]
    width = summary.window_s * stride
    moved = Counter(int(at // width) * width for at, *_ in summary.moved)
    return {
        "at": [(window + 1) * summary.window_s for window in windows],
        "max_over_mean": [ratio for ratio, _ in evenness],
        "floor": [floor for _, floor in evenness],
        "load_pct": {node: [summary.load_pct(node, window) for window in windows] for node in shown},
        "moves": [[at + width, count] for at, count in sorted(moved.items())],
        "changes": [at for at in summary.phases if at < end],
        "session_s": quantiles([s for how, s, _ in summary.check.ended.values() if how == "done"]),
    }


def quantiles(values: Sequence[float], points: int = POINTS) -> list[float]:
    """Return the values in order, thinned out to so many; the smallest and the largest are kept.

    Examples
    --------
    >>> quantiles([3.0, 1.0, 2.0])
    [1.0, 2.0, 3.0]
    >>> quantiles(list(range(1001)), 3)
    [0, 500, 1000]
    """
    ordered = sorted(values)
    if len(ordered) <= points:
        return ordered
    last = len(ordered) - 1
    return [ordered[round(i * last / (points - 1))] for i in range(points)]


def stream_figures(rows: Sequence[Row], _: Any) -> list[Figure | Table]:
    """Show one run over time, and all seeds beside each other."""
    first: Any = rows[0]
    curves = first[SERIES]
    return [
        NONE_FOR_SLICES,
        _evenness(curves, first["seed"]),
        *([_loads(curves, first["seed"])] if curves["load_pct"] else []),
        _sessions(curves, first["seed"]),
        *_seeds(rows),
    ]


def scale_figures(rows: Sequence[Row], _: Any) -> list[Figure | Table]:
    """Show one run over time; thousands of nodes are not shown one by one."""
    first: Any = rows[0]
    return [
        NONE_FOR_SLICES,
        _evenness(first[SERIES], first["seed"]),
        _sessions(first[SERIES], first["seed"]),
        *_seeds(rows),
    ]


def rounds_figures(rows: Sequence[Row], _: Any) -> list[Figure | Table]:
    """Show how far above the floor each round ended, of every seed."""
    curves = [_distribution(f"seed {row['seed']}", row[SERIES]["above_pct"]) for row in _few(rows)]  # type: ignore[index]
    caption = f"Of so many per cent of the rounds the peak was at most so far above what the floor allows. {OURS}"
    return [NONE_FOR_SLICES, Figure("How even each plan was", "% of rounds", "% above the floor", curves, caption)]


def chaos_figures(rows: Sequence[Row], _: Any) -> list[Figure | Table]:
    """Show which faults met which step, and what became of the sessions."""
    steps = [phase.value for phase in ACTIONS if phase is not Phase.GRANTING]
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        for kind, by_step in _mapping(row["faults"]).items():
            counts.setdefault(kind, Counter()).update(by_step)
    table = [[kind.replace("_", " "), *(c[step] for step in steps), c.total()] for kind, c in sorted(counts.items())]
    caption = "Stop to open are the five actions in the default order; readmit, resume and clean roll a session back."
    seeds = [_number(row, "seed") for row in rows]
    fields = {"sessions": "all", "faulted_sessions": "met a fault", "rolled_back_sessions": "rolled back"}
    sessions = [
        Series(name, seeds, [_number(row, field) for row in rows], "points" if len(rows) < POINTS else "line")
        for field, name in fields.items()
    ]
    lost = sum(_number(row, "lost") + _number(row, "duplicated") + _number(row, "owner_violations") for row in rows)
    verdict = f"Items lost or doubled and slices with two owners, in all: {lost:g}. {OURS}"
    return [
        NONE_FOR_SLICES,
        Table("Faults by kind and step", ["fault", *steps, "all"], table, caption),
        Figure("Sessions", "seed", "sessions", sessions, verdict),
    ]


def _evenness(curves: Mapping[str, Any], seed: object) -> Figure:
    at, ratio = curves["at"], [y if y <= TOP else None for y in curves["max_over_mean"]]
    top = max((y for y in ratio if y is not None), default=1.0)
    moved = [x for x, _ in curves["moves"] if at and at[0] <= x <= at[-1]]
    series = [Series("max/mean", at, ratio), Series("floor", at, curves["floor"])]
    if moved:
        series.append(Series("slices moved", moved, [ratio[bisect_right(at, x) - 1] for x in moved], "points"))
    if curves["changes"]:  # one curve with gaps, so that all have one colour and one name
        lines: list[float | None] = [1.0, top, None] * len(curves["changes"])
        series.append(Series("change", [x for x in curves["changes"] for _ in range(3)], lines))
    caption = (
        f"Seed {seed}. Highest load over mean load, both over capacity; the floor is what the hottest slice allows. "
        "A point marks a window in which slices moved, a vertical line a change of the world. "
        f"{f'Values above {TOP:g} are left out. ' if None in ratio else ''}{OURS}"
    )
    return Figure("How even the nodes were", "virtual seconds", "max/mean", series, caption)


def _loads(curves: Mapping[str, Any], seed: object) -> Figure:
    series = [Series(node, curves["at"], load) for node, load in curves["load_pct"].items()]
    caption = f"Seed {seed}. Work done over capacity. At the start the first node has every slice. {OURS}"
    return Figure("Load of each node", "virtual seconds", "% of capacity", series, caption)


def _sessions(curves: Mapping[str, Any], seed: object) -> Figure:
    seconds = curves["session_s"]
    caption = (
        f"Seed {seed}. So many per cent of the sessions took at most so long, from the first action to the last. {OURS}"
    )
    return Figure(
        "How long sessions took", "% of sessions", "virtual seconds", [_distribution("sessions", seconds)], caption
    )


def _seeds(rows: Sequence[Row]) -> list[Figure]:
    """Show all seeds beside each other, if there are several."""
    if len(rows) < 2:
        return []
    seeds = [_number(row, "seed") for row in rows]
    series = [
        Series(name, seeds, [_number(row, field) for row in rows], "points")
        for field, name in (("max_over_mean", "max/mean"), ("floor", "floor"))
    ]
    return [Figure("Every seed", "seed", "max/mean, last fifth of the run", series, OURS)]


def _distribution(name: str, ordered: Sequence[float]) -> Series:
    return Series(name, [100.0 * (i + 1) / len(ordered) for i in range(len(ordered))], list(ordered))


def _few(rows: Sequence[Row]) -> Sequence[Row]:
    return rows[:CURVES]


def _mapping(value: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = value
    return found


def _number(row: Row, name: str) -> float:
    value: Any = row.get(name)
    return float(value) if value is not None else float("nan")
