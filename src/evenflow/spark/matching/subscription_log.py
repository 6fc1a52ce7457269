"""Subscriptions that change while a stream runs: a directory of files that only grow, and a version for each batch.

A line is ``+id<TAB>subscription`` (add or replace) or ``-id`` (remove); blank lines and lines that start with ``#`` are ignored.
``["id","subscription"]`` and ``["id",null]`` mean the same in JSON, for ids and strings that contain tabs or line ends.
Files are read in the order of their names, and a line counts once its line end is written.
A version is the number of bytes to read from each file. The first task of a micro-batch stores it as the batch's *pin*.
Every other task, and every replay of the batch, reads the pin, so a replay sees the same lines as the first attempt.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from evenflow.errors import BadInput
from evenflow.subscriptions.columns import Predicates, read_lines
from evenflow.subscriptions.matching import Engine, Index

Version = Mapping[str, int]
PINS = "_pins"
PINS_KEPT = 200  # twice the number of batches that Spark keeps in a checkpoint

_TAIL = 1 << 16
_log = logging.getLogger(__name__)


_FORMS = "expected +id, a tab and a subscription, or -id, or id and subscription as a JSON array"


@dataclass(frozen=True, slots=True)
class Fault:
    """A line that has no effect because it cannot be read."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.message}"


@dataclass(slots=True)
class Changes:
    """The net effect of some lines: the ids they change or remove, and the resulting subscriptions in line order."""

    touched: set[str]
    ids: list[str]
    predicates: Predicates
    faults: list[Fault]


def current_version(directory: Path) -> dict[str, int]:
    """Return the version that includes every complete line."""
    if not directory.is_dir():
        raise BadInput(f"'{directory}'", "a directory of subscription files", "subscriptions")
    files = sorted(file for file in directory.iterdir() if file.is_file() and file.name[0] not in "._")
    return {file.name: size for file in files if (size := _complete(file))}


def _complete(file: Path) -> int:
    """Return the number of bytes up to and including the last line end."""
    with file.open("rb") as opened:
        end = opened.seek(0, os.SEEK_END)
        while end > 0:
            begin = max(0, end - _TAIL)
            opened.seek(begin)
            found = opened.read(end - begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            end = begin
    return 0


def pinned_version(directory: Path, query: str, batch: int) -> Version:
    """Return the version of a micro-batch: the first caller stores it, later callers read it."""
    pins = directory / PINS / query
    pin = pins / str(batch)
    if not pin.exists():
        pins.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=pins, prefix=".pin")
        with os.fdopen(handle, "w") as opened:
            json.dump(current_version(directory), opened)
            opened.flush()
            os.fsync(opened.fileno())
        try:
            os.link(name, pin)  # fails if another task was first: then its version is used
        except FileExistsError:
            pass
        else:
            (pins / str(batch - PINS_KEPT)).unlink(missing_ok=True)
        finally:
            Path(name).unlink()
    version: Version = json.loads(pin.read_bytes())
    return version


def read_changes(parts: Iterable[tuple[str, int, bytes]]) -> Changes:
    """Read lines from parts of files; each part is the file's name, the number of lines before it, and its bytes."""
    faults: list[Fault] = []
    ids: list[str] = []
    texts: list[str | None] = []
    places: list[tuple[str, int, int]] = []  # file, line, and offset of the subscription within the line
    for file, before, content in parts:
        for number, line in enumerate(content.split(b"\n")[:-1], before + 1):
            try:
                found = read_line(line)
            except ValueError as fault:
                faults.append(Fault(file, number, str(fault)))
                continue
            if found is not None:
                ids.append(found[0])
                texts.append(found[1])
                places.append((file, number, 0 if line.startswith(b"[") else len(found[0]) + 2))
    added = [number for number, text in enumerate(texts) if text is not None]
    reading = read_lines(pa.array([texts[number] for number in added], pa.string()))
    for row, language_error in reading.faults.items():
        file, number, before = places[added[row]]
        place = f"column {language_error.column + before}: {language_error.message}"
        faults.append(Fault(file, number, place if before else f"subscription, {language_error}"))
    bad = {added[row] for row in reading.faults}
    last: dict[str, int] = {}
    for number, name in enumerate(ids):
        if number not in bad:
            last.pop(name, None)
            last[name] = number
    row_of = {added[line]: row for row, line in enumerate(reading.good.tolist())}
    kept = sorted(number for number in last.values() if texts[number] is not None)
    chosen = [row_of[number] for number in kept]
    predicates = reading.predicates.only(pa.array(chosen, pa.int64()).to_numpy())
    return Changes(set(last), [ids[number] for number in kept], predicates, sorted(faults, key=str))


def read_line(line: bytes) -> tuple[str, str | None] | None:
    """Return a line's id and subscription (None for a removal), or None for a line that is ignored."""
    text = line.decode("utf-8").rstrip("\r")
    if not text.strip() or text[0] == "#":
        return None
    if text[0] == "[":
        return _read_array(text)
    name, tab, subscription = text[1:].partition("\t")
    if text[0] == "+" and tab and name:
        return name, subscription
    if text[0] == "-" and not tab and name:
        return name, None
    raise ValueError(_FORMS)


def _read_array(text: str) -> tuple[str, str | None]:
    try:
        name, subscription = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        raise ValueError(_FORMS) from None
    if not isinstance(name, str) or not isinstance(subscription, str | None):
        raise ValueError(_FORMS)  # noqa: TRY004 - the caller treats it like any other bad line
    (name + (subscription or "")).encode()  # raises for half a surrogate pair, which is not valid text
    return name, subscription


def line_of(name: str, subscription: str | None) -> str:
    r"""Return a change as one line with its line end, for any characters in id and subscription; None removes the id.

    Examples
    --------
    >>> line_of("S\t1", "[class,eq,'x\n-S2']")
    '["S\\t1", "[class,eq,\'x\\n-S2\']"]\n'
    """
    return json.dumps([name, subscription]) + "\n"  # JSON escapes line ends and all non-ASCII characters


@dataclass(slots=True)
class LiveIndex:
    """The index of a directory, updated from one version to the next by reading only the new lines."""

    directory: Path
    engine: Engine = "auto"
    index: Index = field(default_factory=Index)
    version: Version = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def at(self, version: Version) -> Index:
        """Update the index to a version and return it."""
        if version == self.version:
            return self.index
        known = self.version if self._follows(version) else {}
        if not known:
            self.index, self.lines = Index(engine=self.engine), {}
        self.version = {}  # if anything fails below, the next call rebuilds the index
        changes = read_changes(self._new_parts(known, version))
        for fault in changes.faults:
            _log.warning("%s: a subscription line is left out: %s", self.directory, fault)
        for name in changes.touched:
            if name in self.index:
                self.index.remove(name)
        if not len(self.index):
            self.index = Index.from_columns(pa.array(changes.ids, pa.string()), changes.predicates, engine=self.engine)
        else:
            self.index.add_many(changes.ids, changes.predicates)
        self.version = version
        return self.index

    def _follows(self, version: Version) -> bool:
        """Return whether the new lines come after all known ones, in the order of file names."""
        if any(version.get(file, 0) < size for file, size in self.version.items()):
            return False
        last = max(self.version, default="")
        return all(file >= last for file, size in version.items() if size > self.version.get(file, 0))

    def _new_parts(self, known: Version, version: Version) -> Iterator[tuple[str, int, bytes]]:
        for file in sorted(version):
            begin = known.get(file, 0)
            if version[file] > begin:
                with (self.directory / file).open("rb") as opened:
                    opened.seek(begin)
                    content = opened.read(version[file] - begin)
                before = self.lines.get(file, 0)
                self.lines[file] = before + content.count(b"\n")
                yield file, before, content


def subscription_faults(directory: str | Path) -> list[Fault]:
    r"""Return the lines of a subscription directory that cannot be read and therefore have no effect.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> _ = (place / "1").write_text("+a\t[price,>,10]\n+b\t[price,over,10]\n")
    >>> len(subscription_faults(place))
    1
    """
    place = Path(directory)
    live = LiveIndex(place)
    return read_changes(live._new_parts({}, current_version(place))).faults  # noqa: SLF001 - the same reading, without an index
