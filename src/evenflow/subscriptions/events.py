"""Events as columns: for each attribute its numbers, its strings, and where it is missing.

Null and NaN are missing. A column that holds neither strings nor numbers is unreadable; its values count as missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from evenflow.errors import BadInput
from evenflow.subscriptions.columns import Bools, Floats, Int16s, Int32s, split_number
from evenflow.subscriptions.language import EXACT, Publication, Value


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """The numbers of an attribute; ``rest`` is None when no integer needs more than float64 (see ``columns``)."""

    values: Floats
    rest: Int16s | None
    present: Bools


@dataclass(frozen=True, slots=True)
class StringColumn:
    """The strings of an attribute: one code per event into the distinct values, -1 where there is none."""

    codes: Int32s
    values: list[str]


class EventColumns:
    """Events whose attributes are read when an index first needs them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._numbers: dict[str, NumberColumn | None] = {}
        self._strings: dict[str, StringColumn | None] = {}

    @staticmethod
    def of(events: pa.RecordBatch | pa.Table | Iterable[Publication]) -> EventColumns:
        """Return the columns of an Arrow table with one column per attribute, or of publications."""
        if isinstance(events, pa.RecordBatch | pa.Table):
            return ArrowEvents(events)
        return PublicationEvents(list(events))

    def numbers(self, attribute: str) -> NumberColumn | None:
        """Return the attribute's numbers, or None if no event has one."""
        if attribute not in self._numbers:
            self._read(attribute)
        return self._numbers[attribute]

    def strings(self, attribute: str) -> StringColumn | None:
        """Return the attribute's strings, or None if no event has one."""
        if attribute not in self._strings:
            self._read(attribute)
        return self._strings[attribute]

    def put(self, attribute: str, values: Sequence[Value | None]) -> None:
        """Set the values of an attribute, in place of those in the events."""
        known: dict[str, int] = {}
        codes = [known.setdefault(value, len(known)) if isinstance(value, str) else -1 for value in values]
        self._strings[attribute] = StringColumn(np.array(codes, dtype=np.int32), list(known)) if known else None
        split = [(np.nan, 0) if value is None or isinstance(value, str) else split_number(value) for value in values]
        near = np.array([part[0] for part in split], dtype=np.float64)
        rest = np.array([part[1] for part in split], dtype=np.int16)
        present = ~np.isnan(near)
        self._numbers[attribute] = NumberColumn(near, rest if rest.any() else None, present) if present.any() else None

    def present(self, attribute: str) -> Bools | None:
        """Return where the attribute has a value of any type, or None if nowhere."""
        numbers, strings = self.numbers(attribute), self.strings(attribute)
        if numbers is None:
            return None if strings is None else strings.codes >= 0
        return numbers.present if strings is None else numbers.present | (strings.codes >= 0)

    def _read(self, attribute: str) -> None:
        raise NotImplementedError


class ArrowEvents(EventColumns):
    """Events whose attributes are the columns of a record batch or a table."""

    def __init__(self, batch: pa.RecordBatch | pa.Table) -> None:
        super().__init__(batch.num_rows)
        names = batch.schema.names
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise BadInput(f"two columns named {twice[0]!r}", "one column per attribute", "events")
        self.batch = batch
        self._names = set(names)

    @cached_property
    def unreadable(self) -> dict[str, pa.DataType]:
        """The columns that hold neither strings nor numbers, with their types."""
        return {field.name: field.type for field in self.batch.schema if not _readable(_value_type(field.type))}

    def _read(self, attribute: str) -> None:
        self._numbers[attribute] = self._strings[attribute] = None
        if attribute not in self._names or attribute in self.unreadable:
            return
        column = self.batch.column(attribute)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if _is_text(_value_type(column.type)):
            self._strings[attribute] = _strings_of(column)
        elif not pt.is_null(column.type):
            self._numbers[attribute] = _numbers_of(column)


class PublicationEvents(EventColumns):
    """Events given as publications; an attribute may hold strings in some and numbers in others."""

    def __init__(self, publications: Sequence[Publication]) -> None:
        super().__init__(len(publications))
        self._publications = publications

    def _read(self, attribute: str) -> None:
        self.put(attribute, [publication.get(attribute) for publication in self._publications])


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pt.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def _readable(kind: pa.DataType) -> bool:
    number = pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)
    return bool(number or _is_text(kind) or pt.is_null(kind))


def _strings_of(column: pa.Array) -> StringColumn:
    if not pt.is_dictionary(column.type):
        if not pt.is_string(column.type):
            column = column.cast(pa.string())
        column = column.dictionary_encode()
    codes = column.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    values = column.dictionary.to_pylist()
    if None in values or len(set(values)) < len(values):  # Arrow allows duplicates and nulls in a dictionary
        known: dict[str, int] = {}
        again = [-1 if value is None else known.setdefault(value, len(known)) for value in values]
        codes = np.array([*again, -1], dtype=np.int32)[codes]
        values = list(known)
    return StringColumn(codes, values)


def _numbers_of(column: pa.Array) -> NumberColumn:
    if pt.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pt.is_decimal(column.type):
        column = _integers_if_whole(column)
    present = column.is_valid().to_numpy(zero_copy_only=False)
    if pt.is_floating(column.type):
        values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return NumberColumn(values, None, present & ~np.isnan(values))
    integers = column.fill_null(0).to_numpy(zero_copy_only=False)
    values = integers.astype(np.float64)
    if integers.dtype.itemsize < 8 or not len(integers) or np.abs(values).max() < EXACT:
        return NumberColumn(values, None, present)
    # The float64 nearest to the largest 64-bit integers is 2^63 or 2^64, which no 64-bit integer can hold.
    top = np.float64(2**63 if integers.dtype == np.int64 else 2**64)
    beyond = values == top
    near = np.where(beyond, 0, values).astype(integers.dtype)
    rest = (integers - near).astype(np.int64)
    rest[beyond] = (integers[beyond] - np.iinfo(integers.dtype).max).astype(np.int64) - 1
    return NumberColumn(values, rest.astype(np.int16), present)


def _integers_if_whole(column: pa.Array) -> pa.Array:
    """Read decimals as 64-bit integers where they are, otherwise as the nearest float64."""
    try:
        return pc.cast(column, pa.int64())
    except pa.ArrowInvalid:
        return pc.cast(column, pa.float64())
