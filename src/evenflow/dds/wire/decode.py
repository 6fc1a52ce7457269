"""From serialised samples to Arrow columns, without an object per sample.

The usual encoding (plain CDR, little-endian, final types) is read by a few precompiled ``struct`` formats per type;
everything else goes through Cyclone's own deserialiser, which is about twenty times as slow and gives the same values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
from cyclonedds.idl import IdlStruct, types

from evenflow.dds.wire.columns import WIDE, hints_of, is_octet, part_of, schema_of, stripped
from evenflow.dds.wire.fields import MalformedError
from evenflow.dds.wire.incoming import sample_of

HEADER = 4  # octets before a sample's first field; alignment counts from after them
_PLAIN_LITTLE = b"\x00\x01"
_CODES = {
    "int8": "b", "int16": "h", "int32": "i", "int64": "q", "float32": "f", "float64": "d", "wchar": "h",
    "byte": "B", "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
}  # fmt: skip
_PYTHON: dict[Any, str] = {int: "q", float: "d", bool: "?"}

Then = Callable[[bytes, int, list[Any]], int]


class _SlowError(Exception):
    """The type has a part that only Cyclone's own deserialiser reads."""


class Decoder:
    """Turns samples of one type into record batches.

    Parameters
    ----------
    kind
        The topic's type, a struct of IDL.
    """

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.schema = schema_of(kind)
        self._hints = hints_of(kind)
        try:
            self._parts: list[tuple[Any, Then | None]] | None = _parts([kind])
        except _SlowError:
            self._parts = None
        self._fixed = self._parts is not None and len(self._parts) == 1 and self._parts[0][1] is None

    def batch(self, samples: Sequence[bytes]) -> Any:
        """Return the record batch of serialised samples.

        Raises
        ------
        MalformedError
            When a sample is not of the type.
        """
        usual = self._parts is not None and all(s[:2] == _PLAIN_LITTLE for s in samples)
        if usual and self._fixed and samples and len({len(s) for s in samples}) == 1:
            columns = iter(self._at_once(samples))
        else:
            rows = [self._leaves(sample) for sample in samples]
            columns = iter(zip(*rows, strict=True) if rows else [() for _ in range(_width(self._hints.values()))])
        try:
            arrays = [_array(hint, self.schema.field(name).type, columns) for name, hint in self._hints.items()]
            return pa.record_batch(arrays, schema=self.schema)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise MalformedError(f"a sample of {self.kind.__name__} that has no columns ({error})") from error

    def _at_once(self, samples: Sequence[bytes]) -> list[Any]:
        """Read samples of one fixed layout as one structured array."""
        assert self._parts is not None
        run: _Run = self._parts[0][0]
        codes, offsets = run.codes, run.offsets[0]
        if HEADER + run.tables[0][1] > len(samples[0]):
            raise MalformedError(f"a sample of {len(samples[0])} octets, too few for {self.kind.__name__}")
        layout = {
            "names": [str(i) for i in range(len(codes))],
            "formats": [f"<{_NUMPY.get(code, code)}" for code in codes],
            "offsets": [HEADER + offset for offset in offsets],
            "itemsize": len(samples[0]),
        }
        dtype = np.dtype(layout)  # type: ignore[call-overload]  # the mapping is the documented long form
        whole = np.frombuffer(b"".join(samples), dtype=dtype)
        return [whole[str(i)] for i in range(len(codes))]

    def _leaves(self, sample: bytes) -> list[Any]:
        out: list[Any] = []
        try:
            if self._parts is not None and sample[:2] == _PLAIN_LITTLE:
                _read(self._parts, sample, 0, out)
            else:
                _flatten(sample_of(self.kind, sample), self._hints, out)
        except (struct.error, ValueError, IndexError, TypeError, AttributeError) as error:
            raise MalformedError(f"a sample that is no {self.kind.__name__} ({error})") from error
        return out


_NUMPY = {"q": "i8", "Q": "u8", "i": "i4", "I": "u4", "h": "i2", "H": "u2", "b": "i1", "B": "u1", "f": "f4", "d": "f8"}


class _Run:
    """Fields of fixed size that follow each other, for each of the eight places where they may begin."""

    def __init__(self, codes: str) -> None:
        self.codes = codes
        self.tables: list[tuple[Any, int]] = []
        self.offsets: list[list[int]] = []
        for phase in range(8):
            text, at, offsets = "<", phase, []
            for code in codes:
                width = struct.calcsize(code)
                pad = -at % width
                text += "x" * pad + code
                offsets.append(at + pad - phase)
                at += pad + width
            self.tables.append((struct.Struct(text).unpack_from, at - phase))
            self.offsets.append(offsets)


def _read(parts: list[tuple[Any, Then | None]], data: bytes, at: int, out: list[Any]) -> int:
    for run, then in parts:
        unpack, size = run.tables[at & 7]
        out += unpack(data, at + HEADER)
        at += size
        if then is not None:
            at = then(data, at, out)
    return at


def _parts(hints: Any) -> list[tuple[Any, Then | None]]:
    """Return runs of fixed fields, each followed by what has no fixed size."""
    found: list[tuple[str, Then | None]] = []
    codes = ""
    for hint in _flat(hints):
        code = _code(hint)
        if code:
            codes += code
            continue
        length, then = _then(hint)
        found.append((codes + length, then))
        codes = ""
    if codes or not found:
        found.append((codes, None))
    return [(_Run(text), then) for text, then in found]


def _flat(hints: Any) -> Iterator[Any]:
    for given in hints:
        hint, optional = stripped(given)
        if optional:
            raise _SlowError
        if isinstance(hint, type) and issubclass(hint, IdlStruct):
            if getattr(hint, "__idl_annotations__", {}).get("extensibility", "final") != "final":
                raise _SlowError
            yield from _flat(hints_of(hint).values())
        else:
            yield hint


def _code(hint: Any) -> str:
    part = part_of(hint)
    return _PYTHON.get(hint, "") or (_CODES.get(part, "") if isinstance(part, str) else "")


def _then(hint: Any) -> tuple[str, Then]:
    """Return the code of the length, if one is written, and what reads the content."""
    part = part_of(hint)
    if hint is str or isinstance(part, types.bounded_str):
        return "I", _text
    if isinstance(part, types.sequence):
        return "I", _elements(part.subtype, None)
    if isinstance(part, types.array):
        return "", _elements(part.subtype, part.length)
    raise _SlowError


def _text(data: bytes, at: int, out: list[Any]) -> int:
    length = out.pop()
    end = at + HEADER + length
    if not length or end > len(data):
        raise ValueError("a text without an end")
    out.append(data[at + HEADER : end - 1].decode())
    return at + length  # type: ignore[no-any-return]


def _elements(subtype: Any, fixed: int | None) -> Then:
    hint, optional = stripped(subtype)
    if optional or (isinstance(hint, type) and issubclass(hint, Enum)):
        raise _SlowError
    code = _code(hint)
    if code:
        width = struct.calcsize(code)

        def numbers(data: bytes, at: int, out: list[Any]) -> int:
            count = out.pop() if fixed is None else fixed
            at += -at % width if count else 0
            begin, end = at + HEADER, at + HEADER + count * width
            if end > len(data):
                raise ValueError("a sequence without an end")
            out.append(
                data[begin:end]
                if code == "B" and is_octet(hint)
                else struct.unpack_from(f"<{count}{code}", data, begin)
            )
            return at + count * width

        return numbers
    parts = _parts([hint])

    def many(data: bytes, at: int, out: list[Any]) -> int:
        count = out.pop() if fixed is None else fixed
        if count > len(data):
            raise ValueError("a sequence without an end")
        values = []
        for _ in range(count):
            leaves: list[Any] = []
            at = _read(parts, data, at, leaves)
            values.append(_shaped(hint, iter(leaves)))
        out.append(values)
        return at

    return many


def _shaped(given: Any, leaves: Iterator[Any]) -> Any:
    """Put the leaves of one element together again."""
    hint, _ = stripped(given)
    if isinstance(hint, type) and issubclass(hint, IdlStruct):
        return {name: _shaped(part, leaves) for name, part in hints_of(hint).items()}
    return next(leaves)


def _width(hints: Any) -> int:
    """Count the leaves of a type."""
    width = 0
    for given in hints:
        hint, optional = stripped(given)
        nested = not optional and isinstance(hint, type) and issubclass(hint, IdlStruct)
        width += _width(hints_of(hint).values()) if nested else 1
    return width


def _array(given: Any, kind: Any, columns: Iterator[Any]) -> Any:
    hint, optional = stripped(given)
    if not optional and isinstance(hint, type) and issubclass(hint, IdlStruct):
        arrays = [_array(part, kind.field(name).type, columns) for name, part in hints_of(hint).items()]
        return pa.StructArray.from_arrays(arrays, fields=list(kind))
    column = next(columns)
    if isinstance(column, np.ndarray) and kind != WIDE:
        return pa.array(np.ascontiguousarray(column)).cast(kind)
    if kind == WIDE:
        return pa.array(column, pa.uint64()).cast(WIDE)
    return pa.array(column, kind)


def _flatten(value: Any, hints: dict[str, Any], out: list[Any]) -> None:
    """Take the leaves out of an object, as :func:`_read` gives them."""
    for name, given in hints.items():
        hint, optional = stripped(given)
        part = getattr(value, name)
        if not optional and isinstance(hint, type) and issubclass(hint, IdlStruct):
            _flatten(part, hints_of(hint), out)
        else:
            out.append(_plain(part, hint))


def _plain(value: Any, given: Any) -> Any:
    hint, _ = stripped(given)
    if value is None:
        return None
    if isinstance(value, Enum):
        return value.name
    if isinstance(hint, type) and issubclass(hint, IdlStruct):
        return {name: _plain(getattr(value, name), part) for name, part in hints_of(hint).items()}
    part = part_of(hint)
    if isinstance(part, (types.sequence, types.array)):
        return bytes(value) if is_octet(part.subtype) else [_plain(each, part.subtype) for each in value]
    return value
