"""Packs rows into one cell per slice, addressed to the slice's key, and unpacks output cells into rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from evenflow.slices.by_field import NO_SLICE, SliceIds
from evenflow.spark.kit.control_log import ControlLog
from evenflow.spark.kit.keys import Ints, spark_hash
from evenflow.spark.kit.plane import Plane, batch_stamped, control_offset
from evenflow.spark.kit.storage import Storage
from evenflow.spark.slices.assign import SLICE, Assign
from evenflow.spark.slices.cells import batches_of, by_slice, to_cell
from evenflow.spark.slices.correlation import marked
from evenflow.spark.slices.stateful.late import Late

PUT_OUT: Final = "cell binary"
_SCHEMA = pa.schema(
    [
        ("k", pa.int32()),
        ("part", pa.int32()),
        ("number", pa.int64()),
        ("what", pa.string()),
        ("session", pa.int64()),
        ("cell", pa.binary()),
    ]
)
FLUSH_BYTES: Final = 64 << 20  # a task collects this much before it packs: many rows per cell, bounded memory

_LOGS: dict[Plane, ControlLog] = {}  # a worker runs many batches, so it reads only new log entries


STAMP: Final = "_evenflow_stamp"
"""A column with the batch's timestamp, for tasks that cannot get its number: ``foreachBatch`` on Spark Connect."""


def batch_id() -> int | None:
    """Return the number of this task's batch, or ``None`` if Spark does not provide it."""
    context = TaskContext.get()
    found = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    return None if found is None else int(found)


def pinned_keys(plane: Plane, batch: int) -> Ints:
    """Return every slice's key for a batch, from the routes at the end of the previous batch."""
    version = control_offset(Storage(plane.checkpoint), batch - 1)
    log = _LOGS.setdefault(plane, plane.log())
    return log.at(version).keys(plane.keys)


@dataclass(frozen=True)
class Pack:
    """A function for ``mapInArrow`` that packs a partition's rows by slice."""

    plane: Plane
    assign: Assign
    correlate: bool = False
    late: Late | None = None

    def _stamped(self, table: Any) -> int:
        if STAMP not in table.column_names:
            raise RuntimeError("no batch number: the plane runs in streaming queries only")
        stamp = table.column(STAMP)[0].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).as_py()
        return batch_stamped(Storage(self.plane.checkpoint), stamp)

    def _together(self, rows: Any, ids: SliceIds, keys: Ints) -> list[tuple[int, bytes]]:
        """Return a copy of all rows for every lane that owns slices, and an empty cell for every slice that has rows."""
        present = np.unique(ids[ids != NO_SLICE])
        if not len(present):
            return []
        cell = marked(rows, ids)
        lanes = np.unique(spark_hash(keys) % self.plane.lanes)
        copies = [(self.plane.keys.of_lane(lane), cell) for lane in lanes.tolist()]
        return copies + [(key, b"") for key in keys[present].tolist()]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Collect rows, assign them to slices, and pack them."""
        context = TaskContext.get()
        part = context.partitionId() if context is not None else 0
        keys: Ints | None = None
        batch = batch_id()
        for number, table in enumerate(_gathered(batches)):
            if batch is None:
                batch = self._stamped(table)
            if keys is None:
                keys = pinned_keys(self.plane, batch)
            if self.late is not None:
                table = self.late.kept(table, batch)  # noqa: PLW2901 - less of the same
            ids = self.assign.of(table)
            rows = table.drop_columns([name for name in (SLICE, STAMP) if name in table.column_names])
            if self.correlate:
                found = self._together(rows, ids, keys)
            else:
                found = [(int(keys[s]), to_cell(part_rows)) for s, part_rows in by_slice(rows, ids)]
            count = len(found)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([k for k, _ in found], pa.int32()),
                    pa.array([part] * count, pa.int32()),
                    pa.array([number] * count, pa.int64()),
                    pa.nulls(count, pa.string()),
                    pa.array([batch] * count, pa.int64()),
                    pa.array([cell for _, cell in found], pa.binary()),
                ],
                schema=_SCHEMA,
            )


def _gathered(batches: Iterator[Any]) -> Iterator[Any]:
    waiting: list[Any] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            size += batch.nbytes
        if size >= FLUSH_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def unpack(batches: Iterator[Any]) -> Iterator[Any]:
    """Return the rows of output cells; a function for ``mapInArrow``."""
    for batch in batches:
        for cell in batch.column(0):
            yield from batches_of(cell.as_buffer())
