"""Count, sum and exponentially weighted mean per key, for all keys of a slice in one call: a process function to use or copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

OUTPUT = "key long, n long, total double, mean double"


@dataclass(frozen=True, slots=True)
class Running:
    """A function for ``process`` that returns one row per key and batch, with the key's values so far.

    Parameters
    ----------
    key, value
        Names of the columns; the key is a whole number, the value a number.
    alpha
        Weight of the newest value in the mean.

    Examples
    --------
    >>> running = Running("device", "value", alpha=0.5)
    >>> rows = pa.table({"device": [7, 3, 7], "value": [1.0, 5.0, 2.0]})
    >>> output, state = running(rows, None)
    >>> output.to_pylist()
    [{'key': 3, 'n': 1, 'total': 5.0, 'mean': 5.0}, {'key': 7, 'n': 2, 'total': 3.0, 'mean': 1.5}]
    >>> running(pa.table({"device": [7], "value": [3.0]}), state)[0].to_pylist()
    [{'key': 7, 'n': 3, 'total': 6.0, 'mean': 2.25}]
    """

    key: str
    value: str
    alpha: float = 0.1

    def __call__(self, rows: Any, state: Any) -> tuple[Any, Any]:
        """Update a slice's state with its rows."""
        keys = rows[self.key].to_numpy().astype(np.int64, copy=False)
        values = rows[self.value].to_numpy().astype(np.float64, copy=False)
        order = np.argsort(keys, kind="stable")
        sorted_keys, values = keys[order], values[order]
        starts = np.flatnonzero(np.diff(sorted_keys, prepend=sorted_keys[:1] - 1))
        counts = np.diff(starts, append=len(keys))
        seen = sorted_keys[starts]
        known, n, total, mean = _columns(state)
        at = np.searchsorted(known, seen)
        new = np.append(known, seen[-1:] + 1)[at] != seen  # the appended sentinel is not a key of this batch
        if new.any():
            where = at[new]
            known, n, total = np.insert(known, where, seen[new]), np.insert(n, where, 0), np.insert(total, where, 0.0)
            mean = np.insert(mean, where, values[starts[new]])  # the first value of a key is its mean
            at = np.searchsorted(known, seen)
        n[at] += counts
        total[at] += np.add.reduceat(values, starts)
        # The number of later values of the same key in this batch: each multiplies this value's weight by 1 - alpha.
        behind = np.repeat(starts + counts, counts) - np.arange(len(keys)) - 1
        newer = np.add.reduceat(self.alpha * (1 - self.alpha) ** behind * values, starts)
        mean[at] = mean[at] * (1 - self.alpha) ** counts + newer
        return _table(seen, n[at], total[at], mean[at]), _table(known, n, total, mean)


def _columns(state: Any) -> tuple[Any, Any, Any, Any]:
    if state is None:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0)
    key, n, total, mean = (state.column(i).to_numpy() for i in range(4))
    return key, n.copy(), total.copy(), mean.copy()  # Arrow's memory is read-only


def _table(key: Any, n: Any, total: Any, mean: Any) -> Any:
    return pa.table({"key": key, "n": n, "total": total, "mean": mean})
