"""Rows of an experiment, one per seed, become its totals, means, medians and maxima."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Number = int | float


def plain(value: object) -> object:
    """Turn a value into what JSON can say: NumPy scalars and arrays become Python's, NaN and infinity become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy's scalars and arrays, without importing it
        return plain(value.tolist())
    raise TypeError(f"a row cannot hold {type(value).__name__}: {value!r}")


def aggregate(rows: Sequence[Mapping[str, object]]) -> dict[str, dict[str, Any]]:
    """Aggregate the numeric fields of plain rows: total over counts (whole numbers), the rest over every number.

    ``seed`` is a name, not a number; nulls are left out; flags, texts and lists are not aggregated.
    An object whose cells are all counts is summed cell by cell into the total.

    Examples
    --------
    >>> aggregate([{"seed": 1, "lost": 0, "gap": 0.5}, {"seed": 2, "lost": 2, "gap": None}])
    {'total': {'lost': 2}, 'mean': {'lost': 1.0, 'gap': 0.5}, 'median': {'lost': 1.0, 'gap': 0.5}, 'max': {'lost': 2, 'gap': 0.5}}
    """
    columns = _numeric_columns(rows)
    counts = {name: values for name, values in columns.items() if all(isinstance(v, int) for v in values)}
    return {
        "total": {**_apply(sum, counts), **_tables(rows)},
        "mean": _apply(statistics.fmean, columns),
        "median": _apply(lambda values: float(statistics.median(values)), columns),
        "max": _apply(max, columns),
    }


def _tables(rows: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    """Sum the tables of counts, such as faults by kind and step, cell by cell."""
    names = dict.fromkeys(name for row in rows for name, value in row.items() if isinstance(value, Mapping))
    found = {name: [row[name] for row in rows if row.get(name) is not None] for name in names}
    return {name: _summed(tables) for name, tables in found.items() if all(_counts(t) for t in tables)}


def _counts(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(_counts(inner) for inner in value.values())
    return isinstance(value, int) and not isinstance(value, bool)


def _summed(tables: Sequence[Any]) -> Any:
    if not isinstance(tables[0], Mapping):
        return sum(tables)
    keys = dict.fromkeys(key for table in tables for key in table)
    return {key: _summed([table[key] for table in tables if key in table]) for key in keys}


def _apply(measure: Callable[[list[Number]], Number], columns: Mapping[str, list[Number]]) -> dict[str, Number]:
    return {name: measure(values) for name, values in columns.items()}


def _numeric_columns(rows: Sequence[Mapping[str, object]]) -> dict[str, list[Number]]:
    """Collect the numbers of each field, in the order the fields first appear; a field that is ever anything else is left out."""
    columns: dict[str, list[Number]] = {}
    others: set[str] = set()
    for row in rows:
        for name, value in row.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                columns.setdefault(name, []).append(value)
            elif value is not None:
                others.add(name)
    return {name: values for name, values in columns.items() if name != "seed" and name not in others}
