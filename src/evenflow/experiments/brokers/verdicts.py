"""The conclusions of Cheung 2006, section 5.3, as predicates over the points of a study."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Point = Mapping[str, Any]
Verdict = tuple[str, bool, str]  # the sentence, whether it holds, the numbers it was judged by


def _of(points: Sequence[Point], field: str) -> list[tuple[float, float]]:
    return [(p["value"], p[field]) for p in points if p.get(field) is not None]


def _at(points: Sequence[Point], value: float, field: str) -> float | None:
    return next((p.get(field) for p in points if p["value"] == value), None)


def _slope(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the slope of a fitted line."""
    if len(pairs) < 2:
        return float("nan")
    n = len(pairs)
    mx, my = sum(x for x, _ in pairs) / n, sum(y for _, y in pairs) / n
    square = sum((x - mx) ** 2 for x, _ in pairs)
    return sum((x - mx) * (y - my) for x, y in pairs) / square if square else float("nan")


def _shown(pairs: Sequence[tuple[float, float]]) -> str:
    return ", ".join(f"{x:g}: {y:.4g}" for x, y in pairs)


def subscribers(points: Sequence[Point]) -> list[Verdict]:
    """Judge section 5.3.1.1."""
    pairs = _of(points, "convergence_s")
    rise = 2000 * _slope(pairs)
    even = _of(points, "std_input")
    return [
        ("2000 more subscribers take about 1000 s longer", 500 <= rise <= 1500, f"{rise:.0f} s; {_shown(pairs)}"),
        ("input ratios period within the threshold", all(y < 0.1 for _, y in even), _shown(even)),
    ]


def zero_traffic(points: Sequence[Point]) -> list[Verdict]:
    """Judge section 5.3.1.2."""
    pairs = _of(points, "convergence_s")
    low = [y for x, y in pairs if x == 0.0]
    mid = [y for x, y in pairs if 0.2 <= x <= 0.4]
    high = [y for x, y in pairs if x >= 0.6]
    falls = bool(low and mid) and low[0] >= min(mid)
    flat = bool(mid and high) and abs(sum(high) / len(high) - sum(mid) / len(mid)) < 400
    even = _of(points, "std_input")
    return [
        ("convergence is shorter up to 20 %", falls, _shown(pairs)),
        ("and flat beyond", flat, _shown(pairs)),
        ("input ratios period within the threshold", all(y < 0.1 for _, y in even), _shown(even)),
    ]


def edge_brokers(points: Sequence[Point]) -> list[Verdict]:
    """Judge section 5.3.1.3."""
    delay, time = _of(points, "delivery_delay_s"), _of(points, "convergence_s")
    falls = all(b[1] <= a[1] * 1.02 for a, b in itertools.pairwise(delay))
    two, three = _at(points, 2, "convergence_s"), _at(points, 3, "convergence_s")
    jumps = two is not None and three is not None and three > two
    return [
        ("delivery delay falls with every edge broker", falls and len(delay) > 1, _shown(delay)),
        ("convergence takes longer with three than with two", jumps, _shown(time)),
    ]


def press_samples(points: Sequence[Point]) -> list[Verdict]:
    """Judge section 5.3.1.4."""
    error = _of(points, "error_std_input")
    peak = _of(points, "b1_max_input")
    middle = [y for x, y in error if 10 <= x <= 50]
    few = [y for x, y in error if x == 1]
    best = bool(middle and few) and min(middle) <= min(few)
    grows = len(peak) > 1 and peak[-1][1] > min(y for _, y in peak[:-1])
    return [
        ("10 to 50 samples estimate better than one", best, _shown(error)),
        ("the entry broker's peak grows with many samples", grows, _shown(peak)),
    ]


def local_threshold(points: Sequence[Point]) -> list[Verdict]:
    """Judge section 5.3.1.5."""
    sessions, last = _of(points, "sessions"), _of(points, "last_move_before_change_s")
    restless = [y for x, y in last if x <= 0.04]
    calm = [y for x, y in sessions if x >= 0.08]
    end = max((y for _, y in last), default=0.0)
    return [
        ("up to 0.04 it never settles", bool(restless) and min(restless) > 0.9 * end, _shown(last)),
        ("from 0.08 on there are fewer than 40 sessions", bool(calm) and max(calm) < 40, _shown(sessions)),
    ]


def local_pie(points: Sequence[Point]) -> list[Verdict]:
    """Judge section 5.3.1.6."""
    time, peak = _of(points, "convergence_s"), _of(points, "b1_max_input")
    rise = 100 * _slope(time)
    short = [y for x, y in peak if x <= 120]
    long = [y for x, y in peak if x > 120]
    rises = bool(short and long) and max(long) > max(short)
    return [
        ("100 s more take about 200 s longer", 50 <= rise <= 400, f"{rise:.0f} s; {_shown(time)}"),
        ("above 120 s the entry broker's peak rises", rises, _shown(peak)),
    ]


def clusters(points: Sequence[Point]) -> list[Verdict]:
    """Judge section 5.3.2.1."""
    shares = points[-1].get("cluster_shares") or {}
    far = {name: share for name, share in shares.items() if int(name[1:-1]) >= 5}
    seen = ", ".join(f"{name}: {share:.3g} %" for name, share in shares.items())
    delay = _of(points, "delivery_delay_s")
    return [
        ("clusters 5 to 8 get nobody", bool(far) and sum(far.values()) < 1.0, seen),
        ("more than four clusters do not shorten the delivery delay", len(delay) > 1 and delay[-1][1] > 0.9 * delay[-2][1], _shown(delay)),
    ]  # fmt: skip


def global_threshold(points: Sequence[Point]) -> list[Verdict]:
    """Judge section 5.3.2.2."""
    sessions = _of(points, "global_sessions")
    fewer = len(sessions) > 1 and sessions[-1][1] < sessions[0][1]
    return [("a higher threshold means fewer sessions", fewer, _shown(sessions))]


def global_pie(points: Sequence[Point]) -> list[Verdict]:
    """Judge section 5.3.2.3."""
    overhead, time = _of(points, "overhead_steady_pct"), _of(points, "convergence_global_s")
    flat = bool(overhead) and max(y for _, y in overhead) - min(y for _, y in overhead) < 0.15
    return [
        ("the overhead does not depend on the period", flat, _shown(overhead)),
        ("neither does convergence", bool(time) and abs(100 * _slope(time)) < 500, _shown(time)),
    ]


VERDICTS: Mapping[str, Callable[[Sequence[Point]], list[Verdict]]] = {
    "subscribers": subscribers,
    "zero-traffic": zero_traffic,
    "edge-brokers": edge_brokers,
    "press-samples": press_samples,
    "local-threshold": local_threshold,
    "local-pie": local_pie,
    "clusters": clusters,
    "global-threshold": global_threshold,
    "global-pie": global_pie,
}
