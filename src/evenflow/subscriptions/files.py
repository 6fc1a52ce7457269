"""Files of subscriptions and publications: one per line, plain or gzip, every malformed line reported.

A line of subscriptions is ``id<TAB>subscription``, a line of publications is a publication.
Blank lines and lines that start with ``#`` say nothing.
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
_AT_ONCE = 1 << 20  # lines that are read together; an Arrow array of strings ends at 2 GiB


class Fault(NamedTuple):
    """What is wrong with a line, and where; lines and columns count from 1, columns count characters."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


class MalformedLines(BadInput):
    """Lines that cannot be read, all of them.

    Parameters
    ----------
    faults
        One for each malformed line.
    """

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(f"{len(faults)} malformed lines", "the grammar of docs/subscriptions.md", faults[0].file)
        self.args = (list(faults),)
        self.faults = list(faults)

    def __str__(self) -> str:
        if len(self.faults) == 1:
            return str(self.faults[0])
        return "\n".join([f"{len(self.faults)} malformed lines.", *map(str, self.faults)])


@dataclass(frozen=True, slots=True)
class SubscriptionFile:
    """The subscriptions of a file in columns, ascending by id, and what was wrong with the other lines."""

    ids: list[str]
    predicates: Predicates
    faults: list[Fault]


@dataclass(frozen=True, slots=True)
class PublicationFile:
    """The publications of a file in their order, and what was wrong with the other lines."""

    publications: list[dict[str, Value]]
    faults: list[Fault]


def refuse_faults(*files: SubscriptionFile | PublicationFile) -> None:
    """Refuse files with malformed lines.

    Raises
    ------
    MalformedLines
        If there are any, with all of them.
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
                Fault(name, number, 1, "expected an id, a tab and a subscription, found no " + ("id" if tab else "tab"))
            )
        elif seen.setdefault(identifier, number) != number:
            message = (
                f"the id {_shown(identifier)} is that of line {seen[identifier]} too, expected one subscription per id"
            )
            faults.append(Fault(name, number, 1, message))
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
            faults.append(Fault(name, number, before + fault.column, fault.message))
    return SubscriptionFile(good, Predicates.joined(parts), sorted(faults))


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
            faults.append(Fault(name, number, error.column, error.message))
    return PublicationFile(publications, sorted(faults))


def _lines(path: str) -> tuple[str, list[tuple[int, str]], list[Fault]]:
    """Give the name of a file, the lines that say something, and faults of encoding.

    Only the line feed ends a line: strings may hold every other character, such as U+2028.
    """
    name = "standard input" if path == STANDARD_INPUT else path
    data = _content(path, name).removeprefix(codecs.BOM_UTF8)
    faults: list[Fault] = []
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
                    faults.append(Fault(name, number, column, f"the byte 0x{line[error.start]:02x} is not UTF-8"))
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
