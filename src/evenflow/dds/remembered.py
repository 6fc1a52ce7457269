"""Which samples a query has on disk already: publishers that keep history send it again to a restarted reader.

Items carry an id of their own; of other samples the writer's time and content are the identity,
because DDS does not tell its sequence numbers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from evenflow.dds.segments import column_of
from evenflow.dds.wire.codec import ledger_from_json, ledger_to_json
from evenflow.slices.ledger import ID_BITS, Ledger

ID = "_evenflow_id"
"""The column of a segment that holds the identities; it does not reach Spark."""
_RECENT = 1 << 16


class Memory(Protocol):
    """What was seen, found again after a crash from what is on disk."""

    def new(self, taken: Sequence[tuple[bytes, Any]], batch: Any) -> tuple[Any, Any]:
        """Return a mask of the samples that were not seen before, and the identities of all; remember them."""
        ...

    def recall(self, table: Any) -> None:
        """Learn the rows of a file that is still here."""
        ...

    def saved(self, gone: Sequence[Path]) -> dict[str, Any]:
        """Return what must outlive the rows of these files, which are deleted next."""
        ...


class Nothing:
    """For writers that send nothing twice."""

    def new(self, taken: Sequence[tuple[bytes, Any]], batch: Any) -> tuple[Any, Any]:
        """Everything is new."""
        return np.ones(len(taken), np.bool_), np.zeros(len(taken), np.int64)

    def recall(self, table: Any) -> None:
        """Nothing to learn."""

    def saved(self, gone: Sequence[Path]) -> dict[str, Any]:
        """Nothing to keep."""
        return {}


class Items:
    """By the ids of items: what a publisher calls settled is forgotten, so it stays as small as what is in doubt."""

    def __init__(self, saved: dict[str, Any]) -> None:
        self.ledger = ledger_from_json(saved["ledger"]) if "ledger" in saved else Ledger()

    def new(self, taken: Sequence[tuple[bytes, Any]], batch: Any) -> tuple[Any, Any]:
        """Tell by id; an item may come twice in one batch too."""
        ids = batch.column("item_id").to_numpy(zero_copy_only=False)
        mask = np.zeros(len(ids), np.bool_)
        for row, item in enumerate(ids.tolist()):
            if item not in self.ledger:
                self.ledger.add(item)
                mask[row] = True
        marks: dict[int, int] = {}
        for item, mark in zip(ids.tolist(), batch.column("settled").to_pylist(), strict=True):
            publisher = item >> ID_BITS
            marks[publisher] = max(mark, marks.get(publisher, 0))
        for publisher, mark in marks.items():
            self.ledger.settle(publisher, mark)
        return mask, ids

    def recall(self, table: Any) -> None:
        """Add the ids of rows that are still here."""
        for item in table.column(ID).to_pylist():
            self.ledger.add(item)

    def saved(self, gone: Sequence[Path]) -> dict[str, Any]:
        """Keep the ledger as it is: it may know more than the deleted rows, and all of that is on disk too."""
        return {"ledger": ledger_to_json(self.ledger)}


class Samples:
    """By time and content, for writers that are transient-local: eight octets per sample.

    Two samples that were written at the same nanosecond with the same content are one.
    """

    def __init__(self, directory: Path, saved: dict[str, Any]) -> None:
        self._path = directory / "seen.bin"
        self._length = int(saved.get("seen", 0))
        if self._path.exists():
            with self._path.open("r+b") as file:
                file.truncate(self._length * 8)  # what follows was written before a crash, and its rows are still here
        known = np.fromfile(self._path, np.int64) if self._path.exists() else np.zeros(0, np.int64)
        self._known = np.sort(known)
        self._recent: set[int] = set()

    def new(self, taken: Sequence[tuple[bytes, Any]], batch: Any) -> tuple[Any, Any]:
        """Tell by a hash of time and content."""
        ids = np.fromiter((_identity(data, info.source_timestamp) for data, info in taken), np.int64, len(taken))
        mask = ~_among(ids, self._known)
        for row in np.flatnonzero(mask).tolist():
            one = int(ids[row])
            mask[row] = one not in self._recent
            self._recent.add(one)
        if len(self._recent) > _RECENT:
            self._known = np.sort(np.concatenate([self._known, np.fromiter(self._recent, np.int64)]))
            self._recent.clear()
        return mask, ids

    def recall(self, table: Any) -> None:
        """Add the identities of rows that are still here."""
        self._recent.update(table.column(ID).to_pylist())

    def saved(self, gone: Sequence[Path]) -> dict[str, Any]:
        """Append the identities of the rows that are deleted."""
        ids = [column_of(path, ID).to_numpy() for path in gone]
        with self._path.open("ab") as file:
            for part in ids:
                file.write(part.tobytes())
            file.flush()
            os.fsync(file.fileno())
        self._length += sum(len(part) for part in ids)
        return {"seen": self._length}


def _identity(data: bytes, at: int) -> int:
    digest = blake2b(data, digest_size=8, salt=at.to_bytes(16, "little", signed=True)).digest()
    return int.from_bytes(digest, "little", signed=True)


def _among(ids: Any, known: Any) -> Any:
    if not len(known):
        return np.zeros(len(ids), np.bool_)
    at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return known[at] == ids
