"""Read files of subscriptions and publications, plain or gzip, and report every malformed line.

A line is ``id<TAB>subscription`` or a publication; blank lines and lines that start with ``#`` are skipped.
"""

from __future__ import annotations

import codecs
import gzip
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from evenflow.errors import BadInput
from evenflow.subscriptions.columns import Predicates, read_lines
from evenflow.subscriptions.ids import ascending_order
from evenflow.subscriptions.language import LanguageError, Value, parse_publication

STANDARD_INPUT = "-"
_GZIP = b"\x1f\x8b"
_AT_ONCE = 1 << 20  # lines that are parsed together; an Arrow array of strings holds at most 2 GiB


class LineFault(NamedTuple):
    """What is wrong with a line, and where; lines and columns (in characters) count from 1."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


class MalformedLines(BadInput):
    """All lines of some files that cannot be read.

    Parameters
    ----------
    faults
        One for each malformed line.
    """

    def __init__(self, faults: Sequence[LineFault]) -> None:
        super().__init__(f"{len(faults)} malformed lines", "the grammar of docs/subscriptions.md", faults[0].file)
        self.args = (list(faults),)
        self.faults = list(faults)

    def __str__(self) -> str:
        if len(self.faults) == 1:
            return str(self.faults[0])
        return "\n".join([f"{len(self.faults)} malformed lines.", *map(str, self.faults)])


@dataclass(frozen=True, slots=True)
class SubscriptionFile:
    """The subscriptions of a file in columns, ascending by id, and the faults of the other lines."""

    ids: list[str]
    predicates: Predicates
    faults: list[LineFault]


@dataclass(frozen=True, slots=True)
class PublicationFile:
    """The publications of a file in their order, and the faults of the other lines."""

    publications: list[dict[str, Value]]
    faults: list[LineFault]


def refuse_faults(*files: SubscriptionFile | PublicationFile) -> None:
    """Raise an error if files have malformed lines.

    Raises
    ------
    MalformedLines
        With all malformed lines.
    """
    faults = [fault for file in files for fault in file.faults]
    if faults:
        raise MalformedLines(faults)


def read_subscriptions(path: str) -> SubscriptionFile:
    """Read a file of subscriptions, plain or gzip; ``-`` is standard input.

    Raises
    ------
    BadInput
        If the file cannot be read at all.
    """
    name, lines, faults = _lines(path)
    ids, texts, places = [], [], []
    seen: dict[str, int] = {}
    for number, line in lines:
        identifier, tab, text = line.partition("\t")
        if not tab or not identifier:
            faults.append(
                LineFault(
                    name, number, 1, "expected an id, a tab and a subscription, found no " + ("id" if tab else "tab")
                )
            )
        elif seen.setdefault(identifier, number) != number:
            message = (
                f"the id {_shown(identifier)} is that of line {seen[identifier]} too, expected one subscription per id"
            )
            faults.append(LineFault(name, number, 1, message))
        else:
            ids.append(identifier)
            texts.append(text.rstrip(" \t\r"))
            places.append((number, len(identifier) + 1))
    order = ascending_order(pa.array(ids, pa.string())).tolist()
    parts, good = [Predicates.of([])], []
    for start in range(0, len(order), _AT_ONCE):
        chosen = order[start : start + _AT_ONCE]
        reading = read_lines([texts[number] for number in chosen])
        parts.append(reading.predicates)
        good += [ids[chosen[row]] for row in reading.good.tolist()]
        for row, fault in reading.faults.items():
            number, before = places[chosen[row]]
            faults.append(LineFault(name, number, before + fault.column, fault.message))
    return SubscriptionFile(good, Predicates.concat(parts), sorted(faults))


def read_publications(path: str) -> PublicationFile:
    """Read a file of publications, plain or gzip; ``-`` is standard input.

    Raises
    ------
    BadInput
        If the file cannot be read at all.
    """
    name, lines, faults = _lines(path)
    publications = []
    for number, line in lines:
        try:
            publications.append(parse_publication(line))
        except LanguageError as error:
            faults.append(LineFault(name, number, error.column, error.message))
    return PublicationFile(publications, sorted(faults))


def _lines(path: str) -> tuple[str, list[tuple[int, str]], list[LineFault]]:
    """Return the name of a file, its lines without blanks and comments, and its encoding faults.

    Only the line feed ends a line: strings may hold every other character, such as U+2028.
    """
    name = "standard input" if path == STANDARD_INPUT else path
    data = _content(path, name).removeprefix(codecs.BOM_UTF8)
    faults: list[LineFault] = []
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        lines = []
        for number, line in enumerate(data.split(b"\n"), start=1):
            try:
                lines.append(line.decode())
            except UnicodeDecodeError as error:
                column = len(line[: error.start].decode()) + 1
                if not line.startswith(b"#"):
                    faults.append(LineFault(name, number, column, f"the byte 0x{line[error.start]:02x} is not UTF-8"))
                lines.append("")
    return name, [(n, line) for n, line in enumerate(lines, start=1) if line.strip() and line[0] != "#"], faults


def _content(path: str, name: str) -> bytes:
    try:
        data = sys.stdin.buffer.read() if path == STANDARD_INPUT else Path(path).read_bytes()
    except OSError as error:
        raise BadInput(f"what cannot be read ({error.strerror})", "a file that can, or -", name) from None
    except ValueError:  # a path with a null character
        raise BadInput("what cannot be the name of a file", "a file that can be read, or -", repr(path)) from None
    if data[:2] != _GZIP:
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"a damaged gzip file ({error})", "a whole one", name) from None


def _shown(word: str) -> str:
    return repr(word if len(word) <= 40 else f"{word[:37]}...")
