"""The control log: append-only, written by the newest driver, read by every task; a reader that cannot read it stops.

Each append creates one new file, named after its first entry. If two drivers append after the same entry, one of them
fails, so the log stays one sequence. The last line of a file seals it with the number of the next entry.
A snapshot holds the routes at a version; files with only earlier entries are then deleted (pruned). If an old driver
writes such a file again, readers ignore it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from evenflow.spark.kit import drivers
from evenflow.spark.kit.routes import Entry, Routes
from evenflow.spark.kit.storage import Storage

FOLDER: Final = "log"
SNAPSHOT: Final = "snapshot-"
_DIGITS: Final = 12


class UnreadableLogError(Exception):
    """The control log has a gap or a broken file: routing by it could lose or duplicate rows."""

    def __init__(self, place: Storage, what: str) -> None:
        super().__init__(f"control log at {place.url}/{FOLDER}: {what}; the query stops before it can do harm")


class OvertakenError(Exception):
    """Another driver has appended after the same entry; its entries must be read first."""


class ControlLog:
    """A reader's or writer's view of the log, which reads only new entries to stay up to date.

    Parameters
    ----------
    place
        The plane's directory.
    empty
        The routes before the first entry.
    driver
        The number of the driver that writes, see :mod:`evenflow.spark.kit.drivers`; ``None`` for a reader.
    """

    def __init__(self, place: Storage, empty: Routes, driver: int | None = None) -> None:
        self._place = place
        self._empty = empty.plain()
        self._driver = driver
        self.routes = Routes.of(self._empty)
        self._files: dict[int, str] = {}  # first entry → file name
        self._snapshots: list[int] = []
        self._end: int | None = None  # the log's length, as far as the writer knows

    def at(self, version: int) -> Routes:
        """Return the routes after the first ``version`` entries."""
        if version < self.routes.version:
            self._restart(version)
        try:
            self._forward(version)
        except UnreadableLogError:  # the entries may have been pruned since the last read: then there is a snapshot
            self._restart(version)
            self._forward(version)
        return self.routes

    def _forward(self, version: int) -> None:
        entries = self.between(self.routes.version, version)
        try:
            self.routes.apply(entries)
        except ValueError as error:
            raise UnreadableLogError(self._place, str(error)) from None

    def length(self) -> int:
        """Return the number of entries."""
        try:
            return self._length()
        except UnreadableLogError:  # the last file may have been pruned before it was read
            return self._length()

    def _length(self) -> int:
        self._list()
        if not self._files:
            return self._pruned()
        last = max(self._files)
        return last + len(self._entries(last))

    def first(self) -> int:
        """Return the number of the first entry that is not pruned."""
        self._list()
        return min(self._files, default=self._pruned())

    def between(self, start: int, end: int) -> list[Entry]:
        """Return the entries from ``start`` up to ``end``."""
        if start >= end:
            return []
        if start not in self._files:
            self._list()
        at = max((first for first in self._files if first <= start), default=start)
        found: list[Entry] = []
        while at < end:
            if at not in self._files:
                self._list()
            if at not in self._files:
                raise UnreadableLogError(self._place, f"entries {max(at, start)} to {end - 1} are missing")
            entries = self._entries(at)
            found += entries[max(0, start - at) : end - at]
            at += len(entries)
        return found

    def append(self, entries: Sequence[Entry]) -> int:
        """Append entries; return the new length.

        Raises
        ------
        SupersededError
            When a newer driver has taken over; entries that were written before remain valid.
        OvertakenError
            When an older driver has appended just before it noticed this one. Nothing was written; the log is longer now.
        """
        if self._end is None:
            self._end = self.length()
        if not entries:
            return self._end
        start, end = self._end, self._end + len(entries)
        self._check()
        lines: list[dict[str, Any]] = [*map(asdict, entries), {"end": end, "driver": self._driver}]
        content = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        try:
            self._place.create(f"{FOLDER}/{start:0{_DIGITS}}", content.encode())
        except FileExistsError:
            self._end = None
            self._check()
            raise OvertakenError(f"entry {start} is there already") from None
        self._check()  # a driver that was suspended for long may have re-created a file that was pruned
        self._files[start] = f"{start:0{_DIGITS}}"
        self._end = end
        if self.routes.version == start:
            self.routes.apply(entries)
        return end

    def _check(self) -> None:
        if self._driver is not None:
            drivers.check(self._place, self._driver)

    def prune(self, version: int, every: int = 1000) -> None:
        """Replace the entries before ``version`` with a snapshot, if there are at least ``every`` of them."""
        if version - self._pruned() < every:
            return
        self._check()
        self._list()
        # Round down to the start of a file: no file may contain entries on both sides of a snapshot.
        version = max(border for border in (*self._files, self.length(), 0) if border <= version)
        if version <= self._pruned():
            return
        fold = ControlLog(self._place, Routes.of(self._empty)).at(version)  # this view may already be past that version
        body = json.dumps(fold.plain(), separators=(",", ":")).encode()
        self._place.write(f"{FOLDER}/{SNAPSHOT}{version:0{_DIGITS}}", body)
        for name in self._place.names(FOLDER):
            if self._position(name) < version:
                self._place.delete(f"{FOLDER}/{name}")
        self._list()

    def _pruned(self) -> int:
        """Return the version of the newest snapshot, or 0 if there is none."""
        return max(self._snapshots, default=0)

    def _position(self, name: str) -> int:
        """Return the number of a file's first entry, or a snapshot's version."""
        digits = name.removeprefix(SNAPSHOT).partition("-")[0]  # earlier versions wrote FIRST-END, without a seal
        if not digits.isdigit():
            raise UnreadableLogError(self._place, f"file {name} is none of its own")
        return int(digits)

    def _list(self) -> None:
        names = self._place.names(FOLDER)
        self._snapshots = [self._position(name) for name in names if name.startswith(SNAPSHOT)]
        self._files = {}
        for name in names:
            first = self._position(name)
            if name.startswith(SNAPSHOT) or first < self._pruned():
                continue
            if first in self._files:
                raise UnreadableLogError(self._place, f"two writers appended behind entry {first}")
            self._files[first] = name

    def _restart(self, version: int) -> None:
        """Reset the routes to the last snapshot that is not newer than ``version``."""
        self._list()
        usable = [s for s in self._snapshots if s <= version]
        if not usable:
            self.routes = Routes.of(self._empty)
            return
        name = f"{SNAPSHOT}{max(usable):0{_DIGITS}}"
        try:
            self.routes = Routes.of(json.loads(self._content(name)))
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise UnreadableLogError(self._place, f"file {name} is broken ({error})") from None

    def _entries(self, first: int) -> list[Entry]:
        name = self._files[first]
        old_end = name.partition("-")[2]
        try:
            lines = [json.loads(line) for line in self._content(name).splitlines()]
            end = int(old_end) if old_end else int(lines.pop()["end"])
            entries = [Entry.of(line) for line in lines]
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise UnreadableLogError(self._place, f"file {name} is broken ({error})") from None
        if not entries or len(entries) != end - first:
            raise UnreadableLogError(self._place, f"file {name} holds {len(entries)} entries, not {end - first}")
        if any(inside in self._files for inside in range(first + 1, end)):
            raise UnreadableLogError(self._place, f"two writers appended behind entry {first}")
        return entries

    def _content(self, name: str) -> bytes:
        try:
            return self._place.read(f"{FOLDER}/{name}")
        except OSError as error:
            raise UnreadableLogError(self._place, f"file {name} cannot be read ({error})") from None
