"""What a process must not forget: one line per commit, on disk before anybody hears of it.

A journal is a directory of segments. A segment begins with everything that is known and goes on with changes;
a new one begins when the last grew large. A line that a crash cut off was never told to anybody, and is left out.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evenflow.dds.wire.codec import decode, encode, loads
from evenflow.dds.wire.fields import MalformedError
from evenflow.errors import BadInput

REMEMBERED = frozenset({"session", "node", "request"})  # notes from which a balancer starts again


class Journal:
    """The durable memory of one actor.

    Parameters
    ----------
    directory
        Where it lies; one process at a time.
    notes
        Whether the notes are given back at a restart, as a balancer needs.
    keep
        Whether old segments stay, for who wants to read everything that was ever noted.
    most
        A segment of more octets is followed by a new one.
    check
        Refuses what a journal gave back, by raising ``BadInput``; the journal is then left as it was.

    Raises
    ------
    BadInput
        When the directory cannot be written or is in use, or a line of the journal cannot be read.
    """

    def __init__(
        self,
        directory: Path,
        *,
        notes: bool = False,
        keep: bool = False,
        most: int = 16 << 20,
        check: Callable[[Journal], object] | None = None,
    ) -> None:
        self._directory = directory
        self._with_notes = notes
        self._keep = keep
        self._most = most
        self.saved: dict[str, Any] = {}
        self.notes: list[Mapping[str, Any]] = []
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = (directory / "lock").open("w")
        except OSError as error:
            raise BadInput(f"'{directory}' ({error.strerror})", "a directory that can be written", "--state") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise BadInput(f"'{directory}'", "a state that no running process uses", "--state") from None
        segments = sorted(directory.glob("segment-*.jsonl"))
        self._number = 0
        try:
            if segments:
                self._take_up(segments[-1])
            if check is not None:
                check(self)
        except BadInput:
            self._lock.close()
            raise
        self._begin()

    def started(self) -> dict[str, Any]:
        """Return what the actor starts with."""
        return {**self.saved, "notes": list(self.notes)} if self._with_notes else dict(self.saved)

    def write(self, values: Mapping[str, Any], notes: list[Mapping[str, Any]], *, sync: bool = True) -> None:
        """Append changes and notes, all or none."""
        line: dict[str, Any] = {}
        if values:
            line["save"] = {key: encode(value) for key, value in values.items()}
            self._apply(values)
        if notes:
            line["notes"] = notes
            if self._with_notes:
                self.notes += [note for note in notes if note["kind"] in REMEMBERED]
        self._append(line, sync=sync)
        if self._file.tell() > self._most:
            self._begin()

    def close(self) -> None:
        """Let go of the files."""
        self._file.close()
        self._lock.close()

    def _apply(self, values: Mapping[str, Any]) -> None:
        for key, value in values.items():
            if value is None:
                self.saved.pop(key, None)
            else:
                self.saved[key] = value

    def _append(self, line: Mapping[str, Any], *, sync: bool) -> None:
        self._file.write(json.dumps(line, allow_nan=False).encode() + b"\n")
        self._file.flush()
        if sync:
            os.fdatasync(self._file.fileno())

    def _begin(self) -> None:
        """Begin a segment: whole under another name first, so that there is always a complete one."""
        before = self._directory / f"segment-{self._number:08}.jsonl"
        if self._number:
            old = getattr(self, "_file", None)
            if old is not None:
                old.close()
        self._number += 1
        final = self._directory / f"segment-{self._number:08}.jsonl"
        unready = final.with_suffix(".new")
        self._file = unready.open("wb")
        whole = {"saved": {key: encode(value) for key, value in self.saved.items()}, "remembered": self.notes}
        self._append(whole, sync=True)
        unready.rename(final)
        self._sync_directory()
        if not self._keep:
            before.unlink(missing_ok=True)

    def _sync_directory(self) -> None:
        handle = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _take_up(self, segment: Path) -> None:
        try:
            self._number = int(segment.stem.rpartition("-")[2])
            self._recall(segment)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            allowed = "a journal that evenflow wrote; start with another directory, or mend this one"
            raise BadInput(f"{segment.name} ({error})", allowed, f"state '{self._directory}'") from error

    def _recall(self, segment: Path) -> None:
        for number, line in enumerate(lines_of(segment)):
            if (number == 0) != ("saved" in line):
                raise MalformedError(f"line {number + 1} is not where it belongs")
            if number == 0:
                self.saved = {key: decode(value) for key, value in line["saved"].items()}
                self.notes = list(line["remembered"])
            self._apply({key: decode(value) for key, value in line.get("save", {}).items()})
            if self._with_notes:
                self.notes += [note for note in line.get("notes", ()) if note["kind"] in REMEMBERED]


def lines_of(segment: Path) -> list[dict[str, Any]]:
    """Read the complete lines of a segment; only the last may be cut off."""
    *whole, rest = segment.read_bytes().split(b"\n")
    del rest  # empty, or what a crash cut off
    if not whole:
        raise MalformedError("a segment without a line")
    return [loads(line) for line in whole]


def notes_of(directory: Path) -> list[dict[str, Any]]:
    """Read everything that was noted, in order; the journal must have been kept."""
    return [
        note
        for s in sorted(directory.glob("segment-*.jsonl"))
        for line in lines_of(s)
        for note in line.get("notes", ())
    ]
