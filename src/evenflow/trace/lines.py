"""A trace as a file: one JSON line per record, the same bytes for the same content."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np

from evenflow.errors import BadInput
from evenflow.trace.records import fault_in

_log = logging.getLogger(__name__)


class Trace(Protocol):
    """Where a driver puts records: anything that can be called with one."""

    def __call__(self, record: Mapping[str, Any], /) -> object:
        """Take one record."""
        ...


def _plain(value: object) -> Any:
    """Return what JSON does not know as something it knows, in an order that depends on the content alone."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, set | frozenset):
        return sorted(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a trace cannot hold a {type(value).__name__}; allowed are JSON, numpy, enums, sets, dataclasses")


# One encoder for all, and below one decoder: json.dumps and json.loads with options build a new one per record.
# ASCII only, so that no line can be torn inside a character.
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain).encode


def line(record: Mapping[str, Any]) -> str:
    """Return a record as one line without its end: sorted keys, no spaces, floats by ``repr``.

    Raises
    ------
    BadInput
        For a record that `read` would refuse.
    ValueError
        For NaN and infinities, which JSON does not have.
    TypeError
        For anything that has no place in JSON.

    Examples
    --------
    >>> line({"kind": "sample", "at": 2.0, "node": "a", "load": 0.1})
    '{"at":2.0,"kind":"sample","load":0.1,"node":"a"}'
    """
    _check(record)
    try:
        return _encode(record)
    except (ValueError, TypeError) as error:
        raise type(error)(f"trace, record of kind {record.get('kind')!r} at {record.get('at')}: {error}") from None


def _check(record: Mapping[str, Any]) -> None:
    """Refuse what no reader would take, where it is written: there it can be told who wrote it."""
    wrong = fault_in(record)
    if wrong is not None:
        raise BadInput(*wrong, f"trace, record of kind {record.get('kind')!r} at {record.get('at')}")


class MemoryTrace:
    """Keeps the records of a run as they came.

    Examples
    --------
    >>> trace = MemoryTrace()
    >>> trace({"kind": "note", "at": 0.0, "why": "begins"})
    >>> trace({"kind": "sample", "at": 2.0, "node": "a"})
    >>> [record["at"] for record in trace.of("sample")]
    [2.0]
    """

    __slots__ = ("records",)

    def __init__(self) -> None:
        self.records: list[Mapping[str, Any]] = []

    def __call__(self, record: Mapping[str, Any], /) -> None:
        """Keep one record."""
        _check(record)
        self.records.append(record)

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the records of one kind, in order."""
        return [record for record in self.records if record["kind"] == kind]

    def text(self) -> str:
        """Return what a file of these records would hold."""
        return "".join(line(record) + "\n" for record in self.records)


class JsonlTrace:
    """Writes records to a file, one line each.

    Parameters
    ----------
    path
        The file.
    append
        Go on after the records that are there, instead of beginning anew.
        A last line that a crash tore is cut off first: it would spoil the line that follows it.
    flush
        Hand every line to the system at once, for somebody who reads along; otherwise `flush` and `close` do.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "trace.jsonl"
    >>> with JsonlTrace(path) as trace:
    ...     trace({"kind": "note", "at": 0.0, "why": "begins"})
    >>> list(read(path))
    [{'at': 0.0, 'kind': 'note', 'why': 'begins'}]
    """

    def __init__(self, path: str | os.PathLike[str], *, append: bool = False, flush: bool = False) -> None:
        self.path = Path(path)
        if append and self.path.exists():
            _mend_end(self.path)
        self._file = self.path.open("a" if append else "w", encoding="ascii", newline="\n")
        self._write = self._file.write
        self._flush_each = flush

    def __call__(self, record: Mapping[str, Any], /) -> None:
        """Write one record."""
        self._write(line(record) + "\n")
        if self._flush_each:
            self._file.flush()

    def flush(self) -> None:
        """Hand everything written so far to the system."""
        self._file.flush()

    def close(self) -> None:
        """Write the rest and close the file; closing twice does nothing."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None, /
    ) -> None:
        self.close()


def read(path: str | os.PathLike[str], on_torn: Callable[[str], object] = _log.warning) -> Iterator[dict[str, Any]]:
    """Yield the records of a file.

    The last line may be torn, by a crash or because the writer is still at it: it is left out, and ``on_torn`` is
    called with a sentence (by default it is logged). Anything else that is no record is refused.

    Raises
    ------
    BadInput
        With file, line, what was found and what is allowed.
    """
    name = os.fspath(path)
    try:
        lines = Path(path).open("rb")  # noqa: SIM115 - closed by the with below, once it is known to be open
    except OSError as error:
        raise BadInput(f"{error.strerror}", "a file that can be read", name) from None
    with lines:
        for number, text in enumerate(lines, 1):
            if not text.endswith(b"\n") and not _whole(text):
                on_torn(f"{name}, line {number}: left out {len(text)} bytes of a torn last line")
                return
            yield record_in(text, f"{name}, line {number}")


def record_in(text: bytes, where: str) -> dict[str, Any]:
    """Return the record of one line.

    Raises
    ------
    BadInput
        With ``where``, what was found and what is allowed.
    """
    try:
        record = _parsed(text)
    except (ValueError, RecursionError) as error:
        given = f"'{text[:40].decode('ascii', 'backslashreplace').strip()}' ({error})"
        raise BadInput(given, "one JSON object per line", where) from None
    wrong = fault_in(record)
    if wrong is not None:
        raise BadInput(*wrong, where)
    return record


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode


def _parsed(text: bytes) -> dict[str, Any]:
    record = _decode(text.decode("utf-8"))
    if not isinstance(record, dict):
        raise ValueError(f"a JSON {type(record).__name__}")  # noqa: TRY004 - to the reader, it is one more bad line
    return record


def _whole(text: bytes) -> bool:
    try:
        _parsed(text)
    except (ValueError, RecursionError):
        return False
    return True


def _mend_end(path: Path) -> None:
    """End the file with a whole line: complete the last one if only its end is missing, else cut it off."""
    with path.open("r+b") as file:
        size = start = file.seek(0, os.SEEK_END)
        tail = b""
        while start > 0 and b"\n" not in tail:
            start = max(0, start - 65_536)
            file.seek(start)
            tail = file.read(size - start)
        last = tail[tail.rfind(b"\n") + 1 :]
        if not last:
            return
        if _whole(last):
            file.seek(size)
            file.write(b"\n")
        else:
            file.truncate(size - len(last))
