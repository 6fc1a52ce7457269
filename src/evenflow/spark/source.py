"""The control log as a streaming source: its offset is the log's length, its rows are orders to keys.

Spark asks for the latest offset between two batches, when the batch before is committed and the next one not yet begun.
Here the log is written, by nobody else: first what committed batches allow (install, receipt), then new moves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from evenflow.spark.clerk import Clerk
from evenflow.spark.control import Balancing
from evenflow.spark.machine import EXPECT, RELEASE
from evenflow.spark.pack import PACKED
from evenflow.spark.routes import INSTALL, MOVE, RECEIPT, Entry
from evenflow.spark.settings import OFFSET, Plane

Packed = tuple[int, int, int, str, int, None]


class Orders(InputPartition):
    """The orders of one batch, as they go to the keys."""

    def __init__(self, rows: Sequence[Packed]) -> None:
        super().__init__(None)
        self.rows = rows


class ControlSource(DataSource):
    """Registered with Spark under its name; the options ``plane`` and ``balancing`` are JSON."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "evenflow_control"

    def schema(self) -> str:
        """Return the shape that cells of rows have as well."""
        return PACKED

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader, which lives as long as the query runs."""
        fields: dict[str, Any] = json.loads(self.options["plane"])
        plane = Plane(**{**fields, "by": tuple(fields["by"])})
        return ControlReader(plane, Balancing(**json.loads(self.options["balancing"])))


class ControlReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in one process on the driver's machine for the whole run of a query."""

    def __init__(self, plane: Plane, balancing: Balancing) -> None:
        self._plane = plane
        self._clerk = Clerk(plane, balancing)
        self._log = plane.log()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Nothing is fixed in advance: sessions under way end within the run, and then the log is quiet."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Begin with an empty log."""
        return {OFFSET: 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Write what is due; everything before ``start`` is committed."""
        return {OFFSET: self._clerk.write(start[OFFSET])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the orders of a batch."""
        first, last = start[OFFSET], end[OFFSET]
        sessions = {number: (s.slice, s.giver, s.taker) for number, s in self._log.at(first).sessions.items()}
        rows: list[Packed] = []
        for number, entry in enumerate(self._log.between(first, last), first):
            if entry.kind == MOVE:
                sessions[entry.session] = (entry.slice, entry.giver, entry.taker)
            rows += self._orders(number, entry, sessions)
        return [Orders(rows)] if rows else []

    def _orders(self, number: int, entry: Entry, sessions: dict[int, tuple[int, int, int]]) -> list[Packed]:
        if entry.kind not in (MOVE, INSTALL, RECEIPT):
            return []
        slice_id, giver, taker = sessions[entry.session]
        addressed = {
            MOVE: [(giver, RELEASE), (taker, EXPECT)],
            INSTALL: [(taker, INSTALL)],
            RECEIPT: [(giver, RECEIPT)],
        }
        keys = self._plane.keys
        return [
            (keys.key(slice_id, lane), 0, number, what, entry.session, None) for lane, what in addressed[entry.kind]
        ]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Return the orders: they came with the partition."""
        assert isinstance(partition, Orders)
        return iter(partition.rows)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing to do: the next call of :meth:`latestOffset` says what is committed."""
