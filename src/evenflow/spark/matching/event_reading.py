"""Reads the rows of a batch as events; rows that cannot be read are set aside with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from evenflow.errors import BadInput
from evenflow.subscriptions.events import ArrowEvents, EventColumns, PublicationEvents
from evenflow.subscriptions.language import LanguageError, Value, parse_publication

Reasons = npt.NDArray[np.object_]
TYPES = ("number", "string")


@dataclass(frozen=True)
class EventReader:
    """The rule that turns rows into events.

    Parameters
    ----------
    publication
        The column with the event as a publication in the subscription language; without it, each column is an attribute.
    types
        Required types of attributes, ``"number"`` or ``"string"``; text in an attribute of numbers is parsed as a number.
    """

    publication: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for attribute, kind in self.types.items():
            if kind not in TYPES:
                raise BadInput(repr(kind), "'number' or 'string'", f"types[{attribute!r}]")

    def read(self, batch: pa.RecordBatch, attributes: Iterable[str]) -> tuple[pa.RecordBatch, EventColumns, pa.Table]:
        """Return the readable rows, the same rows as events, and the other rows with an ``error`` column."""
        if self.publication is not None:
            publications, reasons = self._parse(batch.column(self.publication))
            good, dead = _parted(batch, reasons)
            return good, PublicationEvents([p for p in publications if p is not None]), dead
        wanted = [name for name in dict.fromkeys((*attributes, *self.types)) if name in batch.schema.names]
        reasons = np.full(batch.num_rows, None, dtype=object)
        events = ArrowEvents(batch)
        for name in wanted:
            if name in events.unreadable:
                _refuse(
                    reasons, batch.column(name), f"{name}: a {events.unreadable[name]} is neither a string nor a number"
                )
            elif self.types.get(name) == "string" and not _is_text(batch.column(name)):
                _refuse(reasons, batch.column(name), f"{name}: a {batch.column(name).type} is not a string")
        read = {
            name: self._numbers(batch.column(name), name, reasons) for name in wanted if self._is_written(batch, name)
        }
        good, dead = _parted(batch, reasons)
        events = ArrowEvents(good)
        fine = np.flatnonzero(reasons == None)  # noqa: E711 - element by element
        for name, values in read.items():
            events.put(name, [values[row] for row in fine])
        return good, events, dead

    def _is_written(self, batch: pa.RecordBatch, name: str) -> bool:
        return self.types.get(name) == "number" and _is_text(batch.column(name))

    def _numbers(self, column: pa.Array, name: str, reasons: Reasons) -> list[Value | None]:
        """Parse numbers that are given as text; parse each distinct text once."""
        encoded = column.cast(pa.string()).dictionary_encode()
        values: list[Value | None] = [
            None if text is None else _number(text) for text in encoded.dictionary.to_pylist()
        ]
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(codes >= 0).tolist():
            if values[codes[row]] is None:
                reasons[row] = (
                    reasons[row] or f"{name}: {encoded.dictionary[int(codes[row])].as_py()!r} is not a number"
                )
        return [None if code < 0 else values[code] for code in codes.tolist()]

    def _parse(self, column: pa.Array) -> tuple[list[dict[str, Value] | None], Reasons]:
        publications: list[dict[str, Value] | None] = []
        reasons = np.full(len(column), None, dtype=object)
        for row, text in enumerate(column.to_pylist()):
            try:
                publications.append(parse_publication(text if text is not None else ""))
            except LanguageError as fault:
                publications.append(None)
                reasons[row] = f"{self.publication}: {fault}"
        return publications, reasons


def _is_text(column: pa.Array) -> bool:
    return bool(pt.is_string(column.type) or pt.is_large_string(column.type))


def _number(text: str) -> Value | None:
    try:
        value = parse_publication(f"[x,{text.strip()}]")["x"]
    except (LanguageError, KeyError):
        return None
    return None if isinstance(value, str) else value


def _refuse(reasons: Reasons, column: pa.Array, reason: str) -> None:
    rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    for row in rows.tolist():
        reasons[row] = reasons[row] or reason


def _parted(batch: pa.RecordBatch, reasons: Reasons) -> tuple[pa.RecordBatch, pa.Table]:
    bad = reasons != None  # noqa: E711 - element by element
    if not bad.any():
        return batch, pa.table({"error": pa.array([], pa.string())})
    rows = pa.array(np.flatnonzero(bad))
    dead = pa.Table.from_batches([batch.take(rows)]).append_column(
        "error", pa.array(reasons[bad].tolist(), pa.string())
    )
    return batch.filter(pa.array(~bad)), dead
