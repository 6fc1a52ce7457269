"""Arrow rows as Spark's Row form sees them, and its output rows as Arrow."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import FractionalType, Row, StructType

from evenflow.spark.slices.stateful.book import Key

NAN: Final = "NaN"  # in the place of a float's NaN in a key: it equals itself, so that the key is found again
_UTC: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def values_of(column: Any) -> list[Any]:
    """Return a column's values as Arrow gives them one by one, but faster."""
    kind = column.type
    if column.null_count == 0 and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return column.to_numpy().tolist()  # type: ignore[no-any-return]  # pyarrow has no types
    if pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit == "us":
        zone = pa.lib.string_to_tzinfo(kind.tz)
        count = column.cast(pa.int64()).to_pylist()
        moments = (None if each is None else _UTC + dt.timedelta(microseconds=each) for each in count)
        return [each and each.astimezone(zone) for each in moments]
    return column.to_pylist()  # type: ignore[no-any-return]


def keys_of(table: Any, by: Sequence[str]) -> list[Key]:
    """Return the key of every row.

    Examples
    --------
    >>> keys_of(pa.table({"a": [1.5, float("nan")], "b": ["x", None]}), ["a", "b"])
    [(1.5, 'x'), ('NaN', None)]
    """
    columns = []
    for name in by:
        values = values_of(table.column(name))
        if pa.types.is_floating(table.schema.field(name).type):
            values = [NAN if each is not None and each != each else each for each in values]  # noqa: PLR0124 - a NaN
        columns.append(values)
    return list(zip(*columns, strict=True))


def plain_key(key: Key, keys: StructType) -> Key:
    """Return a kept key as rows have it."""
    if NAN not in key:
        return key
    return tuple(
        math.nan if each == NAN and isinstance(field.dataType, FractionalType) else each
        for each, field in zip(key, keys.fields, strict=True)
    )


@lru_cache(maxsize=64)
def row_class(names: tuple[str, ...]) -> type[Row]:
    """Return a Row whose fields are found at once: Spark's own looks each up by name, in Python.

    A name that a tuple has itself means what it means there.
    """
    fields = {name: property(itemgetter(place)) for place, name in enumerate(names) if not hasattr(Row, name)}
    return type("Row", (Row,), {**fields, "__fields__": Row(*names), "__slots__": ()})


def rows_of(table: Any) -> Iterator[Row]:
    """Yield a table's rows.

    Examples
    --------
    >>> row = next(rows_of(pa.table({"device": ["a"], "count": [3]})))
    >>> row, row.device, row["count"], row == Row(device="a", count=3)
    (Row(device='a', count=3), 'a', 3, True)
    """
    new, kind = tuple.__new__, row_class(tuple(table.column_names))
    for values in zip(*map(values_of, table.columns), strict=True):
        yield new(kind, values)


def table_of(rows: Sequence[Any], schema: Any) -> Any:
    """Return output rows as a table: fields by name, a missing one null, a further one left out, as Spark does."""
    names = tuple(schema.names)
    if not any(pa.types.is_nested(field.type) for field in schema) and all(_has(row, names) for row in rows):
        columns: Iterable[Any] = zip(*rows, strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)
    return pa.Table.from_pylist([row.asDict(recursive=True) for row in rows], schema=schema)


def _has(row: Any, names: tuple[str, ...]) -> bool:
    return tuple(getattr(row, "__fields__", ())) == names


class RowForm:
    """What ``transformWithState`` hands to a processor and takes from it.

    Parameters
    ----------
    keys
        The key columns.
    output
        The declared output as an Arrow schema.
    """

    def __init__(self, keys: StructType, output: Any) -> None:
        self.keys = keys
        self._utc = pa.schema(
            [
                field.with_type(pa.timestamp("us", "UTC")) if _zoned(field.type) else field
                for field in output.with_metadata(None)
            ]
        )

    def groups(self, table: Any) -> list[tuple[Key, Key, Iterable[Any]]]:
        """Return every key, as it is kept and as the processor sees it, with its rows in order."""
        found: dict[Key, list[Any]] = {}
        for key, row in zip(keys_of(table, self.keys.names), rows_of(table), strict=True):
            known = found.get(key)
            if known is None:
                found[key] = [row]
            else:
                known.append(row)
        return [(key, plain_key(key, self.keys), rows) for key, rows in found.items()]

    def table(self, output: Sequence[Any]) -> Any:
        """Return the output of a slice as one table."""
        return table_of(output, self._utc)


def _zoned(kind: Any) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None
