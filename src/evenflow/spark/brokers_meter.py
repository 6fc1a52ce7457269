"""From what lanes measured to the loads of their brokers: rate and matching delay, output, processor, memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from evenflow.federation.load import Load, Memory

WINDOW = 8  # batches over which a lane is measured, at most
UNSURE = 3  # batches after a move before a lane is judged
FITTED = 80  # measurements of lanes from which the costs of the engine are found


class Meter:
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
        self.windows: dict[str, deque[Mapping[str, Any]]] = {name: deque(maxlen=WINDOW) for name in edges}
        self._subscribers = subscribers
        self._output, self._memory = output, memory
        self._unsure = dict.fromkeys(edges, 0)
        self._times: deque[float] = deque([0.0], maxlen=WINDOW + 1)
        self._fitted: deque[tuple[float, float, float]] = deque(maxlen=FITTED)

    @property
    def now(self) -> float:
        """When the last batch ended."""
        return self._times[-1]

    def begin_anew(self, name: str, unsure: int = 0) -> None:
        """Measure a lane from the next batch on, for it is another load; so many batches do not say for sure which."""
        self.windows[name].clear()
        self._unsure[name] = max(unsure, self._unsure[name])

    def sure(self, name: str) -> bool:
        """Tell whether a lane can be judged by what it measured."""
        return not self._unsure[name]

    def read(self, seen: Mapping[str, Mapping[str, Any]], now: float) -> dict[str, Load]:
        """Take the measures of a batch, and return every broker's load; a lane without publications has measured nothing."""
        self._times.append(now)
        for name, window in self.windows.items():
            window.append(seen.get(name, {}))
            self._unsure[name] = max(0, self._unsure[name] - 1)
        self._fitted.extend(
            (row["cpu_us"] / 1e6, row["publications"] * self._subscribers(name), 8.0 * row["bytes"])
            for name, row in seen.items()
        )
        costs = engine_costs(self._fitted)
        return {name: self.load(name, *costs) for name in self.windows}

    def load(self, name: str, slope: float, per_bit: float) -> Load:
        """Return a broker's load with the costs of the engine as they were found.

        Its matching delay is that of its middle publication: now and then a batch takes twice as long as any other.
        """
        rows = self.windows[name]
        span = max(self.now - self._times[-1 - len(rows)], 1e-9)
        publications = sum(row.get("publications", 0) for row in rows)
        subscribers = self._subscribers(name)
        delays = [
            (row["cpu_us"] / row["publications"] / 1e6, row["publications"]) for row in rows if row.get("publications")
        ]
        delay = _middle(delays) if delays and subscribers else slope * subscribers
        memory = next((row["memory"] for row in reversed(rows) if row), 0)
        return Load(
            subscribers,
            delay,
            publications / span,
            8.0 * sum(row.get("bytes", 0) for row in rows) / span,
            self._output,
            delay * publications / span,
            Memory(0.0, 0.0, float(memory), self._memory),
            slope,
            per_bit,
        )


def _middle(values: Iterable[tuple[float, float]]) -> float:
    """Find the median of values that have weights, the lower one of two.

    Examples
    --------
    >>> _middle([(3.0, 1), (9.0, 1), (2.0, 1)]), _middle([(2.0, 1), (5.0, 10), (1.0, 1)])
    (3.0, 5.0)
    """
    value, weight = np.array(sorted(values)).T
    reached = np.cumsum(weight)
    return float(value[np.searchsorted(reached, reached[-1] / 2)])


def engine_costs(seen: Iterable[tuple[float, float, float]]) -> tuple[float, float]:
    """Find what a comparison and a delivered bit cost, from CPU-seconds, comparisons and bits: least squares, none below 0.

    Comparisons are publications times subscriptions, as in Eq. 4.7. Our engine does not compare one by one:
    most of its time goes into naming those that match.

    Examples
    --------
    >>> comparison, bit = engine_costs([(4.0, 1.0, 1.0), (7.0, 1.0, 2.0), (5.0, 2.0, 1.0)])
    >>> round(comparison, 6), round(bit, 6)
    (1.0, 3.0)
    """
    table = np.array(list(seen), dtype=np.float64).reshape(-1, 3)
    scale = np.maximum(table.max(axis=0, initial=0.0), 1e-300)
    spent, works = table[:, 0] / scale[0], table[:, 1:] / scale[1:]
    both = np.linalg.lstsq(works, spent, rcond=None)[0] if len(table) else np.zeros(2)
    if both.min() < 0.0:  # then one of them explains it all, the one that leaves less
        single = [float(works[:, n] @ spent / max(works[:, n] @ works[:, n], 1e-300)) for n in (0, 1)]
        left = [float(((spent - works[:, n] * single[n]) ** 2).sum()) for n in (0, 1)]
        both = np.array([single[0], 0.0] if left[0] <= left[1] else [0.0, single[1]])
    found = both * scale[0] / scale[1:]
    return float(found[0]), float(found[1])
