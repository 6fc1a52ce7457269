"""Processing per key: runs a function of one key's rows and state for every key of a slice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.spark.slices.cells import by_slice

Each = Callable[[Any, Any, Any], tuple[Any, Any]]
"""``(key, rows, state) -> (output, state)``; the output is a table, rows as dictionaries, or ``None``."""


@dataclass(frozen=True)
class PerKey:
    """A process function that calls another function once per key; a slice's state is a dictionary from key to state.

    Parameters
    ----------
    function
        Takes the key (a tuple if there are several key columns), the key's rows in order, and its state or ``None``.
        If it returns ``None`` as state, the key is deleted.
    by
        The key columns.
    schema
        Schema of the output.

    Examples
    --------
    >>> def count(key, rows, n):
    ...     n = (n or 0) + rows.num_rows
    ...     return [{"device": key, "n": n}], n
    >>> each = PerKey(count, ("device",), pa.schema([("device", pa.string()), ("n", pa.int64())]))
    >>> output, state = each(pa.table({"device": ["a", "b", "a"]}), None)
    >>> output.to_pylist(), state
    ([{'device': 'a', 'n': 2}, {'device': 'b', 'n': 1}], {'a': 2, 'b': 1})
    """

    function: Each
    by: tuple[str, ...]
    schema: Any

    def __call__(self, rows: Any, state: dict[Any, Any] | None) -> tuple[Any, dict[Any, Any]]:
        """Process one slice."""
        states = dict(state or {})
        outputs = []
        for key, part in self._keys(rows):
            output, new = self.function(key, part, states.get(key))
            if new is None:
                states.pop(key, None)
            else:
                states[key] = new
            if output is not None:
                outputs.append(self._table(output))
        return (pa.concat_tables(outputs) if outputs else None), states

    def keys_of(self, rows: Any) -> list[Any]:
        """Return the key of every row."""
        columns = [rows.column(name).to_pylist() for name in self.by]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def _keys(self, rows: Any) -> Iterator[tuple[Any, Any]]:
        """Yield each key with its rows, in the order in which keys first appear."""
        keys = self.keys_of(rows)
        numbers: dict[Any, int] = {}
        ids = np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.int32, len(keys))
        known = list(numbers)
        for number, part in by_slice(rows, ids):
            yield known[number], part

    def _table(self, output: Any) -> Any:
        if isinstance(output, pa.Table):
            return output.select(self.schema.names).cast(self.schema)
        found: Iterable[Mapping[str, Any]] = [output] if isinstance(output, Mapping) else output
        return pa.Table.from_pylist(list(found), self.schema)
