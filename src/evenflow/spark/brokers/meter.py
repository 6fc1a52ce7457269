"""Computes the loads of brokers from what their lanes measured: message rate, matching delay, output, CPU, memory.

A lane is the Spark partition in which one broker's publications are matched. CPU time of the same work varies from batch
to batch: lanes share cores, and single batches are slow. So the work of a batch is counted exactly, as comparisons
(publications times subscriptions) and output bits. A fit over all lanes gives the CPU seconds of one comparison and one
bit, and from these the *expected* seconds of any batch. A lane's *slowdown* is measured over expected seconds, compared
with the other lanes in the same batch and taken from the fastest quarter. Work times slowdown is the matching delay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.brokers.load import Load, MemoryUse

Floats = npt.NDArray[np.float64]
WINDOW = 8  # a lane is measured over at most this many batches
SPEED_PERCENTILE = 0.25  # we trust the fastest quarter of the work: slower samples are mostly page faults or busy cores
SETTLE_BATCHES = 3  # after a move a lane is not judged before this batch
MAX_SLOWDOWN = 1.5  # until then its slowdown is at most this much above the usual one
FIT_SAMPLES = 80  # the engine's costs are fitted to this many measurements of lanes
FIT_ROUNDS = 20  # rounds of the fit


class LaneMeter:
    """Measures the load of every lane since its subscribers last changed.

    Parameters
    ----------
    edges
        The edge brokers, one lane each.
    subscribers
        Returns how many subscribers a broker has.
    output, memory
        Each broker's output bandwidth in bits per second, and its memory in bytes.
    """

    def __init__(self, edges: Sequence[str], subscribers: Callable[[str], int], output: float, memory: float) -> None:
        self.lengths = dict.fromkeys(edges, 0)  # batches since the last reset, up to WINDOW
        self._subscribers = subscribers
        self._output, self._memory = output, memory
        self._unsettled = dict.fromkeys(edges, 0)
        self._batches: deque[Mapping[str, Mapping[str, Any]]] = deque(maxlen=WINDOW)
        self._times: deque[float] = deque([0.0], maxlen=WINDOW + 1)
        self._fitted: deque[tuple[float, float, float]] = deque(maxlen=FIT_SAMPLES)
        self._slope = self._per_bit = 0.0
        self._speeds: list[float] = []  # slowdown of the fastest lanes, batch by batch

    @property
    def now(self) -> float:
        """The end of the last batch, in seconds."""
        return self._times[-1]

    def reset(self, name: str, settle: int = 0) -> None:
        """Measure a lane from the next batch on, because its load changed; it is settled after ``settle`` batches."""
        self.lengths[name] = 0
        self._unsettled[name] = max(settle, self._unsettled[name])

    def is_settled(self, name: str) -> bool:
        """Return whether a lane has measured enough batches since its last move to be judged."""
        return not self._unsettled[name]

    def read(self, seen: Mapping[str, Mapping[str, Any]], now: float) -> dict[str, Load]:
        """Add the measures of a batch and return every broker's load; lanes without publications are left out."""
        self._times.append(now)
        batch = {
            name: {**row, "comparisons": row["publications"] * self._subscribers(name), "bits": 8.0 * row["bytes"]}
            for name, row in seen.items()
            if row["publications"]
        }
        self._batches.append(batch)
        for name, length in self.lengths.items():
            self.lengths[name] = min(WINDOW, length + 1)
            self._unsettled[name] = max(0, self._unsettled[name] - 1)
        self._fitted.extend((row["cpu_us"] / 1e6, row["comparisons"], row["bits"]) for row in batch.values())
        self._slope, self._per_bit = engine_costs(self._fitted)
        self._speeds = [
            weighted_percentile((self._slowdown(row), 1.0) for row in one.values() if self._expected_s(row))
            for one in self._batches
        ]
        return {name: self.load(name) for name in self.lengths}

    def load(self, name: str) -> Load:
        """Return a broker's load, with the engine's costs from the latest fit."""
        length = self.lengths[name]
        latest = list(zip(self._batches, self._speeds, strict=True))[len(self._batches) - length :]
        rows = [(batch[name], speed) for batch, speed in latest if name in batch]
        span = max(self.now - self._times[-1 - length], 1e-9)
        publications = sum(row["publications"] for row, _ in rows)
        bits = sum(row["bits"] for row, _ in rows)
        subscribers = self._subscribers(name)
        work = sum(self._expected_s(row) for row, _ in rows)
        delay = (
            work / publications * self._lane_slowdown(name, rows) if work and subscribers else self._slope * subscribers
        )
        return Load(
            subscribers,
            delay,
            publications / span,
            bits / span,
            self._output,
            delay * publications / span,
            MemoryUse(0.0, 0.0, float(rows[-1][0]["memory"]) if rows else 0.0, self._memory),
            self._slope,
            min(self._per_bit, delay * publications / bits) if bits else self._per_bit,  # at most all of the delay
        )

    def _expected_s(self, row: Mapping[str, Any]) -> float:
        """Return the expected CPU seconds of a lane's batch."""
        return float(self._slope * row["comparisons"] + self._per_bit * row["bits"])

    def _slowdown(self, row: Mapping[str, Any]) -> float:
        """Return measured over expected CPU seconds of a lane's batch."""
        return float(row["cpu_us"] / 1e6 / self._expected_s(row))

    def _lane_slowdown(self, name: str, rows: Iterable[tuple[Mapping[str, Any], float]]) -> float:
        """Return a lane's slowdown: the usual slowdown, times how much slower this lane is than the others.

        Each batch is compared with the other lanes in the same batch, because at times the whole machine is slower.
        Single slow batches are left out. The broker causes neither.
        """
        usual = weighted_percentile((speed, 1.0) for speed in self._speeds if speed)
        slower = weighted_percentile(
            (self._slowdown(row) / speed, self._expected_s(row))
            for row, speed in rows
            if speed and self._expected_s(row)
        )
        return usual * (slower if self.is_settled(name) else min(slower, MAX_SLOWDOWN))


def weighted_percentile(values: Iterable[tuple[float, float]]) -> float:
    """Return the `SPEED_PERCENTILE` of (value, weight) pairs; 0 if there are none.

    Examples
    --------
    >>> weighted_percentile([(2.0, 1.0), (6.0, 1.0), (2.2, 1.0)]), weighted_percentile([(2.0, 0.1), (2.5, 3.0), (3.0, 6.0)])
    (2.0, 2.5)
    """
    value, weight = np.array(sorted(values) or [(0.0, 1.0)]).T
    reached = np.cumsum(weight)
    return float(value[np.searchsorted(reached, SPEED_PERCENTILE * reached[-1])])


def engine_costs(seen: Iterable[tuple[float, float, float]]) -> tuple[float, float]:
    """Return the CPU seconds of a comparison and of an output bit, fitted to (CPU seconds, comparisons, bits).

    Comparisons are publications times subscriptions, as in Eq. 4.7. Our engine does not compare one by one:
    most of its time goes into writing the lists of matches. The fit minimises the sum of the absolute differences,
    not of their squares, so that single slow batches have little influence.

    Examples
    --------
    >>> comparison, bit = engine_costs([(4.0, 1.0, 1.0), (7.0, 1.0, 2.0), (5.0, 2.0, 1.0), (8.0, 2.0, 2.0), (60.0, 2.0, 2.0)])
    >>> round(comparison, 3), round(bit, 3)
    (1.0, 3.0)
    """
    table = np.array(list(seen), dtype=np.float64).reshape(-1, 3)
    scale: Floats = np.maximum(table.max(axis=0, initial=0.0), 1e-300)
    spent, works = table[:, 0] / scale[0], table[:, 1:] / scale[1:]
    weight, costs = np.ones(len(table)), np.zeros(2)
    for _ in range(FIT_ROUNDS if len(table) else 0):
        costs = _fit_nonnegative(works * weight[:, None], spent * weight)
        weight = 1.0 / np.sqrt(np.maximum(np.abs(spent - works @ costs), 1e-6))
    return float(costs[0] * scale[0] / scale[1]), float(costs[1] * scale[0] / scale[2])


def _fit_nonnegative(works: Floats, spent: Floats) -> Floats:
    """Return the least-squares fit of two costs, neither below 0."""
    both = np.asarray(np.linalg.lstsq(works, spent, rcond=None)[0], dtype=np.float64)
    if both.min() >= 0.0:
        return both
    single = [float(works[:, n] @ spent) / max(float(works[:, n] @ works[:, n]), 1e-300) for n in (0, 1)]
    left = [float(((spent - works[:, n] * single[n]) ** 2).sum()) for n in (0, 1)]  # one cost alone
    return np.array([single[0], 0.0] if left[0] <= left[1] else [0.0, single[1]])
