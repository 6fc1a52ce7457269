"""The rows that a query has not committed yet, on disk before an offset covers them: Arrow files beside the checkpoint.

A file is written under another name, synced and renamed, so that a crash leaves whole files or nothing.
Rows are numbered from 0 without gaps; ``state.json`` says how many were ever forgotten, and what must outlive them.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from evenflow.errors import BadInput

LOCK_S = 30.0  # a killed query's reader ends when its socket does: the next one waits for that
STATE = "state.json"


class Piece(NamedTuple):
    """Rows of one file."""

    path: str
    offset: int
    rows: int


class Segments:
    """The files of one query's source; one process at a time writes them.

    Parameters
    ----------
    directory
        Where they lie.
    patience_s
        How long to wait for another process to let go of them.
    """

    def __init__(self, directory: Path, patience_s: float = LOCK_S) -> None:
        self._directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = (directory / "lock").open("w")
        except OSError as error:
            raise BadInput(f"'{directory}' ({error.strerror})", "a directory that can be written", "journal") from error
        self._wait(patience_s)
        self.saved: dict[str, Any] = {"rows": 0}
        self._files: list[tuple[int, int, Path]] = []  # first row, rows, file
        try:
            self._recall()
            self._check()
        except BadInput:
            self._lock.close()
            raise

    @property
    def first(self) -> int:
        """The lowest row that is still here, or the next one."""
        return self._files[0][0] if self._files else int(self.saved["rows"])

    @property
    def end(self) -> int:
        """The number that the next row gets."""
        return self._files[-1][0] + self._files[-1][1] if self._files else int(self.saved["rows"])

    def append(self, batch: Any) -> None:
        """Add rows; when this returns they are on disk."""
        first = self.end
        path = self._directory / f"rows-{first:015}-{batch.num_rows:07}.arrow"
        write_whole(path, lambda file: _write(file, batch))
        self._files.append((first, batch.num_rows, path))

    def pieces(self, start: int, end: int) -> list[Piece]:
        """Return where the rows from ``start`` up to ``end`` are.

        Raises
        ------
        BadInput
            When they are not all here: the directory is not the one that the checkpoint was written with.
        """
        found = []
        for first, count, path in self._files:
            low, high = max(start, first), min(end, first + count)
            if low < high:
                found.append(Piece(str(path), low - first, high - low))
        if sum(piece.rows for piece in found) != max(0, end - start):
            given = f"the rows {self.first} to {self.end} while the checkpoint asks for {start} to {end}"
            raise BadInput(
                given, "the journal that was written together with the checkpoint", f"journal '{self._directory}'"
            )
        return found

    def forgettable(self, end: int) -> list[Path]:
        """Return the files that hold nothing from row ``end`` on."""
        return [path for first, count, path in self._files if first + count <= end]

    def forget(self, end: int, saved: dict[str, Any]) -> None:
        """Delete the files that hold nothing from row ``end`` on; what must outlive them is saved first."""
        gone = set(self.forgettable(end))
        if not gone:
            return
        rows = max(first + count for first, count, path in self._files if path in gone)
        self.saved = {**saved, "rows": rows}
        write_whole(self._directory / STATE, lambda file: file.write(json.dumps(self.saved).encode()))
        self._files = [entry for entry in self._files if entry[2] not in gone]
        for path in gone:
            path.unlink()

    def rows(self) -> list[Any]:
        """Read everything that is here, a table per file."""
        return [read_piece(Piece(str(path), 0, count)) for _, count, path in self._files]

    def close(self) -> None:
        """Let go of the directory."""
        self._lock.close()

    def _wait(self, patience_s: float) -> None:
        end = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() > end:
                    self._lock.close()
                    raise BadInput(f"'{self._directory}'", "a journal that no running query uses", "journal") from None
                time.sleep(0.1)
            else:
                return

    def _recall(self) -> None:
        state = self._directory / STATE
        try:
            if state.exists():
                self.saved = dict(json.loads(state.read_text()))
                int(self.saved["rows"])
            for path in sorted(self._directory.glob("rows-*.arrow")):
                first, count = (int(word) for word in path.stem.split("-")[1:])
                self._files.append((first, count, path))
        except (ValueError, KeyError, TypeError) as error:
            given = f"files that cannot be read ({error})"
            raise BadInput(given, "a journal that evenflow wrote", f"journal '{self._directory}'") from error
        for unready in self._directory.glob("*.part"):
            unready.unlink()

    def _check(self) -> None:
        """Drop what was saved before a crash could delete it, and refuse gaps."""
        for first, count, path in list(self._files):
            if first + count <= int(self.saved["rows"]):
                path.unlink()
                self._files.remove((first, count, path))
        at = int(self.saved["rows"])
        for first, count, path in self._files:
            if first != at:
                raise BadInput(
                    f"no row {at} before {path.name}", "a journal without gaps", f"journal '{self._directory}'"
                )
            at = first + count


def read_piece(piece: Piece) -> Any:
    """Read rows of a file."""
    with pa.OSFile(piece.path) as file, pa.ipc.open_file(file) as reader:
        return reader.read_all().slice(piece.offset, piece.rows)


def column_of(path: Path, name: str) -> Any:
    """Read one column of a file."""
    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        return reader.read_all().column(name)


def write_whole(path: Path, write: Callable[[Any], object]) -> None:
    """Write a file so that it is there whole or not at all."""
    unready = path.with_suffix(".part")
    with unready.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    unready.rename(path)
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(file: Any, batch: Any) -> None:
    with pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
