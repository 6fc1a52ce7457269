"""The control log as a streaming source: its offset is the log's length, its rows are orders to keys.

Spark asks for the latest offset between two batches: the previous batch is committed, and the next has not begun.
The log is written only there: first the steps that committed batches allow (install, receipt), then new moves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from evenflow.spark.kit import drivers
from evenflow.spark.kit.control_log import ControlLog
from evenflow.spark.kit.controller import Balancing
from evenflow.spark.kit.log_writer import Clerk
from evenflow.spark.kit.orders import PACKED, orders
from evenflow.spark.kit.plane import OFFSET, Plane

Packed = tuple[int, int, int, str, int, None]


class Orders(InputPartition):
    """The orders of one batch, addressed to their keys."""

    def __init__(self, rows: Sequence[Packed]) -> None:
        super().__init__(None)
        self.rows = rows


class ControlSource(DataSource):
    """The Spark data source of orders; its options ``plane``, ``balancing`` and ``driver`` are JSON."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "evenflow_control"

    def schema(self) -> str:
        """Return the schema, which is the same as that of packed rows."""
        return PACKED

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader, which exists as long as the query runs."""
        fields: dict[str, Any] = json.loads(self.options["plane"])
        plane = Plane(**{**fields, "by": tuple(fields["by"])})
        balancing = Balancing(**json.loads(self.options["balancing"]))
        return ControlReader(plane, balancing, json.loads(self.options["driver"]))


class ControlReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream reader, which Spark calls in one process on the driver's machine for the whole run of a query."""

    def __init__(self, plane: Plane, balancing: Balancing, driver: int) -> None:
        self._plane = plane
        self._driver = driver
        self._balancing = balancing
        self._clerk: Clerk | None = (
            None  # Spark copies the reader to other processes: only the one asked for offsets writes
        )
        self._log: ControlLog | None = None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Do nothing: sessions in progress finish within the run, and then the log stops growing."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the offset of an empty log."""
        return {OFFSET: 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Append the entries that are due and return the log's length; everything before ``start`` is committed."""
        if self._clerk is None:
            self._clerk = Clerk(self._plane, self._balancing, driver=self._driver)
        return {OFFSET: self._clerk.write(start[OFFSET])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the orders of a batch, whose offsets Spark has already written."""
        drivers.check(self._plane.place, self._driver)  # it may have been suspended since the batch was planned
        first, last = start[OFFSET], end[OFFSET]
        if self._log is None:
            self._log = self._plane.log()
        found = orders(self._log.between(first, last), self._log.at(first), self._plane.keys)
        rows: list[Packed] = [(key, 0, order.number, order.what, order.session, None) for key, order in found]
        return [Orders(rows)] if rows else []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Return the orders that the partition carries."""
        assert isinstance(partition, Orders)
        return iter(partition.rows)

    def stop(self) -> None:
        """Close the log's writer."""
        if self._clerk is not None:
            self._clerk.close()

    def commit(self, end: dict[str, int]) -> None:
        """Do nothing: the next call of :meth:`latestOffset` tells which offset is committed."""
