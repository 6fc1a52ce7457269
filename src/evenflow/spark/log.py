"""The control log: append-only, one writer, read by everyone; whoever cannot read it must not go on.

Each append is one file, named for the entries it holds, so that a listing tells the length and nothing is read twice.
A snapshot is the fold up to a version; files that only hold entries before it are pruned.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from evenflow.spark.routes import Entry, Routes
from evenflow.spark.storage import Storage

FOLDER: Final = "log"
SNAPSHOT: Final = "snapshot-"
_DIGITS: Final = 12


class UnreadableLogError(Exception):
    """The control log has a hole or a broken file: routing by it could lose or double rows."""

    def __init__(self, place: Storage, what: str) -> None:
        super().__init__(f"control log at {place.url}/{FOLDER}: {what}; the query stops before it can do harm")


class ControlLog:
    """A reader's or the writer's view of the log, kept up to date by reading only what is new.

    Parameters
    ----------
    place
        The plane's directory.
    empty
        The routes before the first entry.
    """

    def __init__(self, place: Storage, empty: Routes) -> None:
        self._place = place
        self._empty = empty.plain()
        self.routes = Routes.of(self._empty)
        self._files: dict[int, tuple[int, str]] = {}  # first entry → one behind the last, name
        self._snapshots: list[int] = []
        self._end: int | None = None  # known to the writer alone

    def at(self, version: int) -> Routes:
        """Return the fold of the first ``version`` entries."""
        if version < self.routes.version:
            self._restart(version)
        try:
            self._forward(version)
        except UnreadableLogError:  # perhaps only pruned, since this view last looked: then there is a snapshot
            self._restart(version)
            self._forward(version)
        return self.routes

    def _forward(self, version: int) -> None:
        if version > self.routes.version:
            if all(last < version for last, _ in self._files.values()):
                self._list()
            self.routes.apply(self.between(self.routes.version, version))

    def length(self) -> int:
        """Return how many entries there are."""
        self._list()
        ends = [last for last, _ in self._files.values()]
        return max([0, *ends, *self._snapshots])

    def first(self) -> int:
        """Return the first entry that was not pruned."""
        self._list()
        return self._begin()

    def between(self, start: int, end: int) -> list[Entry]:
        """Return the entries from ``start`` up to ``end``."""
        if start >= end:
            return []
        if start not in self._files:
            self._list()
        found = []
        for first, _, entries in self._read(start, end):
            found += entries[max(0, start - first) : end - first]
        return found

    def append(self, entries: Sequence[Entry]) -> int:
        """Add entries behind the last one; return the new length.

        There must be one writer only: it looks for what others wrote once, and then knows the length by itself.
        """
        if self._end is None:
            self._end = self.length()
        if not entries:
            return self._end
        start, end = self._end, self._end + len(entries)
        name = f"{start:0{_DIGITS}}-{end:0{_DIGITS}}"
        lines = "".join(json.dumps(asdict(e), separators=(",", ":")) + "\n" for e in entries)
        self._place.write(f"{FOLDER}/{name}", lines.encode())
        self._files[start] = (end, name)
        self._end = end
        if self.routes.version == start:
            self.routes.apply(entries)
        return end

    def prune(self, version: int, every: int = 1000) -> None:
        """Replace the entries before ``version`` by a snapshot, once there are ``every`` of them."""
        if version - max([0, *self._snapshots]) < every:
            return
        self._list()
        fold = ControlLog(self._place, Routes.of(self._empty)).at(version)  # this view may be further on
        body = json.dumps(fold.plain(), separators=(",", ":")).encode()
        self._place.write(f"{FOLDER}/{SNAPSHOT}{version:0{_DIGITS}}", body)
        for last, name in list(self._files.values()):
            if last <= version:
                self._place.delete(f"{FOLDER}/{name}")
        for old in self._snapshots:
            self._place.delete(f"{FOLDER}/{SNAPSHOT}{old:0{_DIGITS}}")
        self._list()

    def _begin(self) -> int:
        return min(self._files, default=max([0, *self._snapshots]))  # a snapshot may have replaced every file

    def _list(self) -> None:
        self._files, self._snapshots = {}, []
        for name in self._place.names(FOLDER):
            if name.startswith(SNAPSHOT):
                self._snapshots.append(int(name.removeprefix(SNAPSHOT)))
            else:
                first, last = map(int, name.split("-"))
                if first in self._files:
                    raise UnreadableLogError(self._place, f"two writers appended behind entry {first}")
                self._files[first] = (last, name)

    def _restart(self, version: int) -> None:
        """Begin again at the last snapshot that is not newer than ``version``."""
        self._list()
        usable = [s for s in self._snapshots if s <= version]
        if usable:
            self.routes = Routes.of(json.loads(self._content(f"{SNAPSHOT}{max(usable):0{_DIGITS}}")))
        else:
            self.routes = Routes.of(self._empty)

    def _read(self, start: int, end: int) -> list[tuple[int, int, list[Entry]]]:
        """Return the files that hold ``start`` to ``end``, without a hole between them."""
        found = []
        firsts = sorted(self._files)
        at = start
        for first in firsts:
            last, name = self._files[first]
            if last <= at or first >= end:
                continue
            if first > at:
                break
            found.append((first, last, self._entries(first, last, name)))
            at = last
        if at < end:
            raise UnreadableLogError(self._place, f"entries {at} to {end - 1} are missing")
        return found

    def _entries(self, first: int, last: int, name: str) -> list[Entry]:
        try:
            entries = [Entry.of(json.loads(line)) for line in self._content(name).splitlines()]
        except (ValueError, TypeError) as error:
            raise UnreadableLogError(self._place, f"file {name} is broken ({error})") from None
        if len(entries) != last - first:
            raise UnreadableLogError(self._place, f"file {name} holds {len(entries)} entries, not {last - first}")
        return entries

    def _content(self, name: str) -> bytes:
        try:
            return self._place.read(f"{FOLDER}/{name}")
        except OSError as error:
            raise UnreadableLogError(self._place, f"file {name} cannot be read ({error})") from None
