"""The figures of Cheung 2006, chapter 5, by their numbers, from the curves of a run."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evenflow.brokers.load import Load
from evenflow.experiments.brokers.data_path import Broker
from evenflow.experiments.brokers.summary import overhead
from evenflow.experiments.brokers.world import LOOK_S, BrokerWorld
from evenflow.experiments.figures import SERIES, Figure, Mark, Series, Table
from evenflow.experiments.published import PADRES, PADRES_GLOBAL, SUBSCRIBERS, beside, marks
from evenflow.experiments.registry import Row

POINTS = 250  # of a curve
SCALE: Mapping[str, Callable[[Load], float]] = {
    "input": lambda load: load.input_ratio,
    "output": lambda load: load.output_ratio,
    "delay": lambda load: load.matching_delay,
}


def series_of(world: BrokerWorld, *, clusters: bool = False) -> dict[str, Any]:
    """Return the curves of one run, thinned out; with ``clusters`` their averages."""
    history, sim = world.history, world.sim
    stride = 1 + len(history.at) // POINTS
    places = range(0, len(history.at), stride)
    groups = (
        {c: [s.name for s in world.specs if s.head == c] for c in dict.fromkeys(s.cluster for s in world.specs)}
        if clusters
        else {name: [name] for name in world.edges}
    )
    curves: dict[str, Any] = {"at": [history.at[i] for i in places]}
    for index, value in SCALE.items():
        curves[index] = {
            name: [_short(statistics.fmean(value(history.loads[e][i]) for e in edges)) for i in places]
            for name, edges in groups.items()
        }
        curves[f"std_{index}"] = [
            _short(statistics.pstdev(value(history.loads[name][i]) for name in world.edges)) for i in places
        ]
    curves["clients"] = {n: [sum(history.clients[e][i] for e in edges) for i in places] for n, edges in groups.items()}
    curves["input_wait_s"] = {
        n: _means(sim.brokers, e, "wait_s", "handled", history.at, places) for n, e in groups.items()
    }
    curves["output_wait_s"] = {
        n: _means(sim.brokers, e, "out_wait_s", "handled", history.at, places) for n, e in groups.items()
    }
    curves["delivery_s"] = _means(sim.brokers, world.edges, "delivery_s", "delivered", history.at, places)
    curves["overhead"] = [_overhead(world, history.at[i], stride * LOOK_S) for i in places]  # shares, not per cent
    curves["estimates"] = [
        [e.side, _short(e.input), _short(e.measured[0]), _short(e.output), _short(e.measured[1]), _short(e.delay), _short(e.measured[2])]
        for e in world.estimates.done
        if e.measured is not None
    ]  # fmt: skip
    curves["sessions"] = [[s["at"], s["giver"], s["taker"], s["algorithm"], s["moved"]] for s in history.sessions]
    return curves


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _means(
    brokers: Mapping[str, Broker], names: Sequence[str], what: str, per: str, at: Sequence[float], places: Sequence[int]
) -> list[float | None]:
    """Return the mean of ``what`` per ``per`` over the ten seconds before each time."""
    found: list[float | None] = []
    for i in places:
        window = slice(max(0, int(at[i]) - LOOK_S), int(at[i]))
        count = sum(sum(getattr(brokers[name], per)[window]) for name in names)
        total = sum(sum(getattr(brokers[name], what)[window]) for name in names)
        found.append(_short(total / count) if count else None)
    return found


def _overhead(world: BrokerWorld, at: float, width: int) -> float:
    return _short(overhead(world, max(0.0, at - width), at) / 100.0)


def _lines(curves: Any, field: str) -> list[Series]:
    return [Series(name, curves["at"], values) for name, values in curves[field].items()]


def _figure(
    number: str,
    title: str,
    y_label: str,
    series: Sequence[Series],
    published: Sequence[Mark] = (),
    *,
    log: bool = False,
) -> Figure:
    caption = "Dashed: what the thesis states." if published else ""
    if log:
        caption += " The height is logarithmic: what the start costs would hide the rest."
    return Figure(f"Figure {number}: {title}", "seconds", y_label, series, caption.strip(), published, log)


def _above_zero(name: str, at: Sequence[float], values: Sequence[float | None], scale: float = 1.0) -> list[Series]:
    return [Series(name, at, [value * scale if value else None for value in values])]


def _sessions(number: str, title: str, counts: Mapping[str, int], caption: str) -> Figure:
    bars = Series("input", list(counts), list(counts.values()), "bars")
    return Figure(f"Figure {number}: {title}", "pair", "sessions", [bars], caption)


def local_figures(rows: Sequence[Row], _: Any) -> list[Figure | Table]:
    """Return Figures 5.3 to 5.15 of the first seed, and its numbers beside the published ones."""
    first: Any = rows[0]
    curves = first[SERIES]
    joined = [s for s in curves["sessions"] if s[3] == "input" and s[0] <= 1065]
    pairs = {f"{s[1]}-{s[2]}": 0 for s in joined}
    for s in joined:
        pairs[f"{s[1]}-{s[2]}"] += 1
    with_b1 = {name: count for name, count in pairs.items() if "B1" in name}
    when = marks(PADRES, "convergence_s", "last_move_after_change_s", along="x")
    band = [Mark("published: 0.02", 0.02), Mark("published: 0.04", 0.04)]
    shares = marks(PADRES, "overhead_steady_pct", "overhead_peak_pct", "overhead_end_pct")
    subscribers = [Mark(f"published: {name} {count}", float(count)) for name, count in SUBSCRIBERS.items()]
    at, in_all = curves["at"], sum(pairs.values())
    return [
        *beside(PADRES, rows),
        _figure("5.3", "input utilisation ratio", "ratio", _lines(curves, "input"), when),
        _sessions("5.4", "input sessions up to 1065 s", pairs, f"The thesis has 19 in all; here {in_all}."),
        _sessions("5.5", "input sessions that involve B1", with_b1, f"All but 3 in the thesis; here all but {in_all - sum(with_b1.values())}."),
        _figure("5.6", "input queuing delay", "seconds", _lines(curves, "input_wait_s"), [_upright("B1 empty at 1400", 1400.0)]),
        _figure("5.7", "output utilisation ratio", "ratio", _lines(curves, "output")),
        _figure("5.8", "output queuing delay", "seconds", _lines(curves, "output_wait_s"), [_upright("B1 empty at about 1500", 1500.0)]),
        _figure("5.9", "matching delay", "seconds", _lines(curves, "delay"), [Mark("published: 0.018", 0.018), Mark("published: 0.022", 0.022)]),
        _figure("5.10", "delivery delay", "seconds", _above_zero("all subscribers", at, curves["delivery_s"]), [_upright("high until 1500", 1500.0)], log=True),
        _figure("5.11", "subscribers at each broker", "subscribers", _lines(curves, "clients"), subscribers),
        _figure("5.12", "standard deviation of the utilisation ratios", "ratio", [Series(n, curves["at"], curves[f"std_{n}"]) for n in ("input", "output")], band),
        _figure("5.13", "standard deviation of the matching delay", "seconds", [Series("matching delay", curves["at"], curves["std_delay"])]),
        *(_accuracy(curves, *one) for one in (("5.14a", "input ratio", 1), ("5.14b", "output ratio", 3), ("5.14c", "matching delay", 5))),
        _figure("5.15", "message overhead", "% of messages", _above_zero("overhead", at, curves["overhead"], 100.0), shares, log=True),
    ]  # fmt: skip


def _upright(what: str, at: float) -> Mark:
    return Mark(f"published: {what}", at, "x")


def _accuracy(curves: Any, number: str, title: str, place: int) -> Figure:
    """Return a plot of measured against estimated values; points on the line are exact estimates."""
    series = []
    for side in ("offloader", "acceptor"):
        mine = [e for e in curves["estimates"] if e[0] == side]
        series.append(Series(side, [e[place] for e in mine], [e[place + 1] for e in mine], "points"))
    top = max([e[place] for e in curves["estimates"]] or [1.0])
    series.append(Series("exact", [0.0, top], [0.0, top]))
    return Figure(f"Figure {number}: estimates of the {title}", "estimated", "measured", series)


def global_figures(rows: Sequence[Row], _: Any) -> list[Figure | Table]:
    """Return Figures 5.17 to 5.22 of the first seed."""
    first: Any = rows[0]
    curves = first[SERIES]
    when = marks(PADRES_GLOBAL, "last_move_before_change_s", "last_move_after_change_s", along="x")
    delays = marks(PADRES_GLOBAL, "delivery_delay_s", "delivery_delay_end_s")
    peak = marks(PADRES_GLOBAL, "overhead_peak_pct")
    at = curves["at"]
    return [
        *beside(PADRES_GLOBAL, rows),
        _figure("5.17", "average input utilisation ratio of each cluster", "ratio", _lines(curves, "input"), when),
        _figure("5.18", "average output utilisation ratio of each cluster", "ratio", _lines(curves, "output"), when),
        _figure("5.19", "average matching delay of each cluster", "seconds", _lines(curves, "delay")),
        _figure("5.20", "delivery delay", "seconds", _above_zero("all subscribers", at, curves["delivery_s"]), delays, log=True),
        _figure("5.21", "subscribers in each cluster", "subscribers", _lines(curves, "clients")),
        _figure("5.22", "message overhead", "% of messages", _above_zero("overhead", at, curves["overhead"], 100.0), peak, log=True),
    ]  # fmt: skip
