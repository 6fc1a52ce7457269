"""Statistics of section 4.2 and more, from two logs of the same scenario, without and with the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenflow.experiments.operators.workload import Scenario

Log = Sequence[Sequence[float]]
Curve = NDArray[np.float64]


def replay_off(scenario: Scenario, seconds: float, every_s: float) -> list[list[float]]:
    """Return the log of a scenario in which no operator moves.

    Changes at a time apply before the log row of that time. A decrease never takes an operator below its initial size.
    """
    units = {unit: number for number, unit in enumerate(scenario.tree.units)}
    members: list[list[int]] = [[] for _ in units]
    for op, unit in scenario.where.items():
        members[units[unit]].append(op)
    sizes, schedule, at = dict(scenario.sizes), scenario.schedule, 0
    memory = [sum((sizes[op] for op in ops), 0.0) for ops in members]
    log = []
    for row in range(int(seconds / every_s) + 1):
        touched = set()
        while at < len(schedule) and schedule[at][0] <= row * every_s:
            _, op, change = schedule[at]
            size = sizes[op] + change
            sizes[op] = max(size, scenario.sizes[op]) if change <= 0 else size
            touched.add(units[scenario.where[op]])
            at += 1
        for number in touched:
            memory[number] = sum((sizes[op] for op in members[number]), 0.0)
        log.append(list(memory))
    return log


def compared(off: Log, on: Log, upper: float, every_s: float) -> dict[str, Any]:
    """Compare the log of a run with that of the same scenario without the protocol.

    Examples
    --------
    >>> found = compared([[70.0, 50.0], [70.0, 50.0]], [[58.0, 60.0], [61.0, 50.0]], 60.0, 2.0)
    >>> found["reduction_pct"], found["fewer_pct"], found["ties_pct"], found["overload_episode_s_off"]
    (50.0, 50.0, 50.0, 4.0)
    """
    before, after = np.asarray(off, dtype=np.float64), np.asarray(on, dtype=np.float64)
    over_before, over_after = (before > upper).sum(axis=1), (after > upper).sum(axis=1)
    return {
        "reduction_pct": _less(over_before.sum(), over_after.sum()),
        "fewer_pct": 100.0 * float((over_after < over_before).mean()),
        "ties_pct": 100.0 * float((over_after == over_before).mean()),
        "more_pct": 100.0 * float((over_after > over_before).mean()),
        "above_ut_reduction_pct": _less(_above(before, upper), _above(after, upper)),
        "max_memory_off": float(before.max()),
        "max_memory_on": float(after.max()),
        "std_reduction_pct": _less(before.std(axis=1).sum(), after.std(axis=1).sum()),
        "overloaded_node_s_off": float(over_before.sum() * every_s),
        "overloaded_node_s_on": float(over_after.sum() * every_s),
        "overload_episode_s_off": episode_s(before > upper, every_s),
        "overload_episode_s_on": episode_s(after > upper, every_s),
    }


def _above(log: Curve, upper: float) -> float:
    return float(np.maximum(0.0, log - upper).sum())


def _less(before: float, after: float) -> float | None:
    """Return the reduction in per cent, or ``None`` if there was nothing to reduce."""
    return 100.0 * (1.0 - float(after) / float(before)) if before else None


def episode_s(over: NDArray[np.bool_], every_s: float) -> float | None:
    """Return the mean length of an overload in seconds: how long a unit stays above the threshold.

    Examples
    --------
    >>> episode_s(np.array([[True], [True], [False], [True]]), 2.0)
    3.0
    """
    starts = int(over[0].sum() + (over[1:] & ~over[:-1]).sum())
    return float(over.sum()) * every_s / starts if starts else None


def curves(off: Log, on: Log, upper: float, every_s: float) -> dict[str, Any]:
    """Return the curves of Figures 15 and 16 and the highest memory: mean, standard deviation, overloaded units."""
    before, after = np.asarray(off, dtype=np.float64), np.asarray(on, dtype=np.float64)
    found: dict[str, Any] = {"at": [row * every_s for row in range(len(before))]}
    for which, log in (("off", before), ("on", after)):
        found[f"mean_{which}"] = log.mean(axis=1).round(4).tolist()
        found[f"std_{which}"] = log.std(axis=1).round(4).tolist()
        found[f"overloaded_{which}"] = (log > upper).sum(axis=1).tolist()
        found[f"highest_{which}"] = log.max(axis=1).round(4).tolist()
    return found
