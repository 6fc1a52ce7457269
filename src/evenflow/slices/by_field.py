"""Assignment by one field of the item: its remainder or its hash, and what a null means.

An item without a slice goes to no node: that is ``NO_SLICE``, and it comes about only where ``nulls="drop"`` allows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenflow.errors import BadInput, nearest
from evenflow.slices.hashing import by_blocks, hash_column, hash_value, without_nulls

Item = Mapping[str, Any]
SliceIds = NDArray[np.int32]
Batch = Any  # pa.RecordBatch | pa.Table; pyarrow has no types
Nulls = Literal["refuse", "drop"] | int
"""What a null, or a field that an item does not have, means: an error, no slice, or this slice."""

NO_SLICE: Final = -1
MOST_SLICES: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class FieldAssignment:
    """What depends on one field: finding it, and what a null means."""

    field: str
    slices: int
    nulls: Nulls = "refuse"

    def __post_init__(self) -> None:
        check_slices(self.slices)
        check_nulls(self.nulls, self.slices)

    def assign(self, item: Item) -> int:
        """Return the slice of one item."""
        value = item.get(self.field)
        try:
            return null_slice(self.nulls) if value is None else self._of_value(value)
        except BadInput as error:
            raise placed(error, f"item {shown(item)}, field '{self.field}'") from None

    def assign_batch(self, batch: Batch) -> SliceIds:
        """Return the slice of every row of a record batch or a table."""
        names = batch.schema.names
        if names.count(self.field) != 1:
            found = "several columns" if self.field in names else "no column"
            raise BadInput(f"{found} '{self.field}'", f"one column: {nearest(self.field, set(names))}", "batch")
        column = batch.column(self.field)
        ids, row = np.empty(len(column), np.int32), 0
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            try:
                ids[row : row + len(chunk)] = self._of_chunk(chunk)
            except _WrongRow as error:
                raise placed(error, f"row {row + error.row}, field '{self.field}'") from None
            except BadInput as error:
                raise placed(error, f"batch, field '{self.field}'") from None
            row += len(chunk)
        return ids

    def _of_chunk(self, chunk: Any) -> SliceIds:
        without_values = pa.types.is_null(chunk.type)
        ids = np.zeros(len(chunk), np.int32) if without_values else self._of_column(chunk)
        nulls = _null_rows(chunk)
        if nulls is not None:
            try:
                ids[nulls] = null_slice(self.nulls)
            except BadInput as error:
                raise _WrongRow(error.given, error.allowed, int(nulls.argmax())) from None
        return ids

    def _of_value(self, value: Any) -> int:
        raise NotImplementedError

    def _of_column(self, column: Any) -> SliceIds:
        raise NotImplementedError


_WHOLE = "a whole number"


class Modulo(FieldAssignment):
    """The remainder of a numeric field (Figure 13): of whole numbers of any size, never negative.

    A float counts as the integer it equals; one with a fraction is refused, as are booleans and strings.

    Examples
    --------
    >>> by_sensor = Modulo("sensor_id", 10)
    >>> [by_sensor.assign({"sensor_id": i}) for i in (21, 1, 52, 19)]
    [1, 1, 2, 9]
    >>> by_sensor.assign_batch(pa.record_batch({"sensor_id": [21, 1, 52, -1]})).tolist()
    [1, 1, 2, 9]
    """

    __slots__ = ()

    def _of_value(self, value: Any) -> int:
        if isinstance(value, float | np.floating) and float(value).is_integer():
            return int(value) % self.slices
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            return int(value) % self.slices
        raise BadInput(f"{value!r}"[:80], _WHOLE, "")

    def _of_column(self, column: Any) -> SliceIds:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_unsigned_integer(column.type):
            return by_blocks(self._remainders, without_nulls(column).astype(np.uint64, copy=False), np.int32)
        if pa.types.is_integer(column.type):
            return by_blocks(self._remainders, without_nulls(column).astype(np.int64, copy=False), np.int32)
        if not pa.types.is_floating(column.type):
            raise BadInput(f"a column of type {column.type}", "integers or floats", "")
        values = without_nulls(column).astype(np.float64, copy=False)
        wrong = ~np.isfinite(values) | (values != np.floor(values))
        if wrong.any():
            row = int(wrong.argmax())
            raise _WrongRow(f"{values[row].item()!r}", _WHOLE, row)
        return by_blocks(lambda block: np.remainder(block, float(self.slices)), values, np.int32)  # exact, as fmod is

    def _remainders(self, values: NDArray[Any]) -> NDArray[Any]:
        # Numpy divides by one number with vector instructions, but takes remainders one by one: three times slower.
        floors = values // values.dtype.type(self.slices)
        floors *= values.dtype.type(self.slices)
        remainders: NDArray[Any] = values - floors
        return remainders


class Hash(FieldAssignment):
    """The hash of any field, or of the producer's id with the field ``@producer``: even whatever the values are.

    The hash is the same on every machine and in every process, see :mod:`evenflow.slices.hashing`.

    Examples
    --------
    >>> by_device = Hash("device", 10)
    >>> [by_device.assign({"device": d}) for d in ("a", "b", "c")]
    [3, 0, 2]
    >>> by_device.assign_batch(pa.record_batch({"device": ["a", "b", "c"]})).tolist()
    [3, 0, 2]
    """

    __slots__ = ()

    def _of_value(self, value: Any) -> int:
        # The upper half of the hash times the slices: as even as the remainder, without a division.
        return (hash_value(value) >> 32) * self.slices >> 32

    def _of_column(self, column: Any) -> SliceIds:
        return by_blocks(self._slices_of, hash_column(column), np.int32)

    def _slices_of(self, hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        upper = hashes >> np.uint64(32)
        upper *= np.uint64(self.slices)
        upper >>= np.uint64(32)
        return upper


# -- checks -------------------------------------------------------------------------------------


def check_slices(slices: object) -> None:
    """Refuse a number of slices that cannot be."""
    if not isinstance(slices, int) or isinstance(slices, bool) or not 1 <= slices <= MOST_SLICES:
        raise BadInput(f"{slices!r} slices", f"an integer from 1 to {MOST_SLICES}", "assignment")


def check_nulls(nulls: Nulls, slices: int) -> None:
    """Refuse a meaning of null that is none."""
    whole = isinstance(nulls, int) and not isinstance(nulls, bool) and 0 <= nulls < slices
    if nulls not in ("refuse", "drop") and not whole:
        raise BadInput(f"nulls={nulls!r}", f"'refuse', 'drop' or a slice from 0 to {slices - 1}", "assignment")


def null_slice(nulls: Nulls) -> int:
    """Return the slice of a null, or refuse it."""
    if nulls == "refuse":
        raise BadInput("null", "a value; nulls='drop' or a slice for nulls would accept it", "")
    return NO_SLICE if nulls == "drop" else int(nulls)


def _null_rows(column: Any) -> NDArray[np.bool_] | None:
    """Return which rows are null, also through a dictionary, or ``None`` when no row is."""
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
        column = column.dictionary_decode()
    if not column.null_count:
        return None
    rows: NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return rows


def shown(item: Item) -> str:
    """Return an item for a message, cut to a length that can be read."""
    text = str(dict(item))
    return text if len(text) <= 60 else text[:59] + "…"


class _WrongRow(BadInput):
    """Something is wrong with one row of a chunk."""

    def __init__(self, given: str, allowed: str, row: int) -> None:
        super().__init__(given, allowed, f"row {row}")
        self.row = row


def placed(error: BadInput, where: str) -> BadInput:
    """Return the error with its place, which only the caller knows."""
    return BadInput(error.given, error.allowed, where)
