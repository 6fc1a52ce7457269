"""From what lanes measured to the loads of their brokers: rate and matching delay, output, processor, memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.brokers.load import Load, MemoryUse

Floats = npt.NDArray[np.float64]
WINDOW = 8  # batches over which a lane is measured, at most
SPEED_PERCENTILE = 0.25  # of the work went at least as fast as it is taken to go
SETTLE_BATCHES = 3  # batches after a move before a lane is judged
MAX_SLOWDOWN = 1.5  # times the usual: until then it is taken to be no slower
FIT_SAMPLES = 80  # measurements of lanes from which the costs of the engine are found
FIT_ROUNDS = 20  # rounds of weighting in which they are


class LaneMeter:
    """Measures every lane since it began anew: processor time varies from batch to batch, and a move makes it another.

    Parameters
    ----------
    edges
        The brokers, each a lane.
    subscribers
        Gives how many a broker has.
    output, memory
        Every broker's bandwidth in bits per second, and its memory in bytes.
    """

    def __init__(self, edges: Sequence[str], subscribers: Callable[[str], int], output: float, memory: float) -> None:
        self.lengths = dict.fromkeys(edges, 0)  # batches since a lane began anew
        self._subscribers = subscribers
        self._output, self._memory = output, memory
        self._unsettled = dict.fromkeys(edges, 0)
        self._batches: deque[Mapping[str, Mapping[str, Any]]] = deque(maxlen=WINDOW)
        self._times: deque[float] = deque([0.0], maxlen=WINDOW + 1)
        self._fitted: deque[tuple[float, float, float]] = deque(maxlen=FIT_SAMPLES)
        self._slope = self._per_bit = 0.0
        self._speeds: list[float] = []  # of each batch, that of its fastest lanes

    @property
    def now(self) -> float:
        """When the last batch ended."""
        return self._times[-1]

    def reset(self, name: str, unsure: int = 0) -> None:
        """Measure a lane from the next batch on, for it is another load; so many batches do not say for sure which."""
        self.lengths[name] = 0
        self._unsettled[name] = max(unsure, self._unsettled[name])

    def is_settled(self, name: str) -> bool:
        """Tell whether a lane can be judged by what it measured."""
        return not self._unsettled[name]

    def read(self, seen: Mapping[str, Mapping[str, Any]], now: float) -> dict[str, Load]:
        """Take the measures of a batch, and return every broker's load; a lane without publications has measured nothing."""
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
        """Return a broker's load with the costs of the engine as they were found."""
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
            min(self._per_bit, delay * publications / bits) if bits else self._per_bit,  # it has not cost more than all
        )

    def _expected_s(self, row: Mapping[str, Any]) -> float:
        """Give the seconds that the costs say it takes."""
        return float(self._slope * row["comparisons"] + self._per_bit * row["bits"])

    def _slowdown(self, row: Mapping[str, Any]) -> float:
        """Give the seconds that it took for each of those."""
        return float(row["cpu_us"] / 1e6 / self._expected_s(row))

    def _lane_slowdown(self, name: str, rows: Iterable[tuple[Mapping[str, Any], float]]) -> float:
        """Find a lane's pace.

        Each batch is compared with the other lanes in the same batch, for the whole machine is slower at times,
        and what is slow now and then is left out: neither is its broker's doing.
        """
        usual = weighted_percentile((speed, 1.0) for speed in self._speeds if speed)
        slower = weighted_percentile(
            (self._slowdown(row) / speed, self._expected_s(row))
            for row, speed in rows
            if speed and self._expected_s(row)
        )
        return usual * (slower if self.is_settled(name) else min(slower, MAX_SLOWDOWN))


def weighted_percentile(values: Iterable[tuple[float, float]]) -> float:
    """Find the value that `SPEED_PERCENTILE` of the weight does not exceed; 0 if there is none.

    Examples
    --------
    >>> weighted_percentile([(2.0, 1.0), (6.0, 1.0), (2.2, 1.0)]), weighted_percentile([(2.0, 0.1), (2.5, 3.0), (3.0, 6.0)])
    (2.0, 2.5)
    """
    value, weight = np.array(sorted(values) or [(0.0, 1.0)]).T
    reached = np.cumsum(weight)
    return float(value[np.searchsorted(reached, SPEED_PERCENTILE * reached[-1])])


def engine_costs(seen: Iterable[tuple[float, float, float]]) -> tuple[float, float]:
    """Find what a comparison and a delivered bit cost, from CPU-seconds, comparisons and bits: neither below 0.

    Comparisons are publications times subscriptions, as in Eq. 4.7. Our engine does not compare one by one:
    most of its time goes into naming those that match. The sum of the absolute differences is made small,
    not of their squares, so that single slow batches do not count.

    Examples
    --------
    >>> comparison, bit = engine_costs([(4.0, 1.0, 1.0), (7.0, 1.0, 2.0), (5.0, 2.0, 1.0), (8.0, 2.0, 2.0), (60.0, 2.0, 2.0)])
    >>> round(comparison, 3), round(bit, 3)
    (1.0, 3.0)
    """
    table = np.array(list(seen), dtype=np.float64).reshape(-1, 3)
    scale: Floats = np.maximum(table.max(axis=0, initial=0.0), 1e-300)
    spent, works = table[:, 0] / scale[0], table[:, 1:] / scale[1:]
    weight, found = np.ones(len(table)), np.zeros(2)
    for _ in range(FIT_ROUNDS if len(table) else 0):
        found = _fit_nonnegative(works * weight[:, None], spent * weight)
        weight = 1.0 / np.sqrt(np.maximum(np.abs(spent - works @ found), 1e-6))
    return float(found[0] * scale[0] / scale[1]), float(found[1] * scale[0] / scale[2])


def _fit_nonnegative(works: Floats, spent: Floats) -> Floats:
    """Fit two costs by least squares, neither below 0."""
    both = np.asarray(np.linalg.lstsq(works, spent, rcond=None)[0], dtype=np.float64)
    if both.min() >= 0.0:
        return both
    single = [float(works[:, n] @ spent) / max(float(works[:, n] @ works[:, n]), 1e-300) for n in (0, 1)]
    left = [float(((spent - works[:, n] * single[n]) ** 2).sum()) for n in (0, 1)]  # one explains it all
    return np.array([single[0], 0.0] if left[0] <= left[1] else [0.0, single[1]])
