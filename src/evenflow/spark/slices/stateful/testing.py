"""A plane in memory for stateful processors: batches with times, moves, late rows, timers, batches that run again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StructType

from evenflow.errors import BadInput
from evenflow.spark.kit.orders import Order, orders
from evenflow.spark.kit.routes import Entry, Routes
from evenflow.spark.slices.cells import by_slice, to_cell
from evenflow.spark.slices.stateful.book import Book
from evenflow.spark.slices.stateful.ddl import schema_of
from evenflow.spark.slices.stateful.handle import EVENT, MODES, NONE
from evenflow.spark.slices.stateful.late import in_time
from evenflow.spark.slices.stateful.rows import RowForm
from evenflow.spark.slices.stateful.work import Processing, Times
from evenflow.spark.slices.testing import KeyMemory, NotRepeatableError, PlaneTester
from evenflow.spark.slices.turn import Job, Turn

TurnOf = tuple[KeyMemory, set[int]]
"""What one of Spark's keys keeps: a slice, and the times it wants to be called."""


class ProcessorTester(PlaneTester):
    """Runs a Spark ``StatefulProcessor`` batch by batch, without Spark.

    Parameters
    ----------
    processor
        The user's, unchanged; every task works on a copy of it, as on Spark.
    by
        Key column or columns.
    schema, output
        The stream's and the output's columns, as Spark's text or as a ``StructType``.
    timeMode
        ``"None"``, ``"ProcessingTime"`` or ``"EventTime"``.
    event_time
        The column with the watermark, for time mode ``"EventTime"``: late rows are dropped by it.
    slices, lanes, again
        As for :class:`PlaneTester`.

    Examples
    --------
    >>> class Count(StatefulProcessor):
    ...     def init(self, handle):
    ...         self.n = handle.getValueState("n", "n long")
    ...
    ...     def handleInputRows(self, key, rows, timerValues):
    ...         n = (self.n.get() or (0,))[0] + len(list(rows))
    ...         self.n.update((n,))
    ...         yield Row(device=key[0], n=n)
    >>> from pyspark.sql import Row
    >>> plane = ProcessorTester(Count(), "device", "device string", "device string, n long", slices=1)
    >>> plane.send([{"device": "a"}, {"device": "a"}]).to_pylist()
    [{'device': 'a', 'n': 2}]
    >>> plane.move({0: 1})
    >>> plane.send([{"device": "a"}]).to_pylist(), plane.send([{"device": "a"}]).to_pylist()
    ([{'device': 'a', 'n': 3}], [{'device': 'a', 'n': 4}])
    """

    def __init__(
        self,
        processor: StatefulProcessor,
        by: str | Sequence[str],
        schema: str | StructType,
        output: str | StructType,
        timeMode: str = "None",  # noqa: N803 - Spark's name
        *,
        event_time: str | None = None,
        slices: int = 8,
        lanes: int = 2,
        again: bool = True,
    ) -> None:
        if timeMode.lower() not in MODES:
            raise BadInput(f"timeMode='{timeMode}'", "'None', 'ProcessingTime' or 'EventTime'", "ProcessorTester")
        self._given = to_arrow_schema(schema_of(schema), timezone="UTC")
        names = (by,) if isinstance(by, str) else tuple(by)
        keys = StructType([schema_of(schema)[name] for name in names])
        form = RowForm(keys, to_arrow_schema(schema_of(output), timezone="UTC"))
        work = Processing(processor, form, keys, timeMode.lower())
        super().__init__(work, by, slices=slices, lanes=lanes, again=again)
        self.assign = type(self.assign)(self.assign.by, slices, self.assign.how, 0)
        self._work = work
        self._event_time = event_time
        self._times = Times(-1, -1)
        self._late_at = 0
        self._set: dict[int, set[int]] = {}

    def send(self, rows: Any, *, now: int = 0, watermark: int = 0) -> Any:
        """Run one batch at a processing time and a watermark in milliseconds, and return its output.

        Rows not later than the watermark of the batch before are late.
        """
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), schema=self._given)
        event = self._work.mode == EVENT
        if event and self._event_time is not None and table.num_rows:
            table = in_time(table, self._event_time, self._late_at)
        self._late_at = watermark
        self._times = Times(-1, -1) if self._work.mode == NONE else Times(now, watermark)
        return super().send(table)

    def values(self, name: str) -> dict[tuple[Any, ...], Any]:
        """Return a variable of every key, as it is kept."""
        found = {}
        for slice_id in range(self.keys.slices):
            book = Book(self.state(slice_id), [name])
            for key in book.keys:
                if book.record(key)[0] is not None:
                    found[key] = book.record(key)[0]
        return found

    def _run(self, table: Any, entries: Iterable[Entry], before: Routes) -> list[Any]:
        told: dict[int, list[Order]] = {}
        for key, order in orders(entries, before, self.keys):
            told.setdefault(key, []).append(order)
        parts = by_slice(table, self.assign.of(table)) if table.num_rows else ()
        cells: Mapping[int, list[bytes]] = {self.keys.key(s, before.lane[s]): [to_cell(part)] for s, part in parts}
        outputs: list[Any] = []
        if self.again:
            copies = {key: (memory.copied(), set(self._set.get(key, ()))) for key, memory in self._memory.items()}
            lost = self._attempt(copies, told, cells)
        mine: dict[int, TurnOf] = {
            key: (memory, self._set.setdefault(key, set())) for key, memory in self._memory.items()
        }
        outputs = self._attempt(mine, told, cells)
        self._memory = {key: memory for key, (memory, _) in mine.items()}
        self._set = {key: times for key, (_, times) in mine.items()}
        if self.again and [t.to_pylist() for t in lost] != [t.to_pylist() for t in outputs]:
            raise NotRepeatableError(f"batch {self.batch} differs when it runs again")
        return outputs

    def _attempt(
        self, kept: dict[int, TurnOf], told: Mapping[int, list[Order]], cells: Mapping[int, list[bytes]]
    ) -> list[Any]:
        """Run a batch as Spark does: rows and orders of all keys, then the keys whose time has come."""
        work = cloudpickle.loads(cloudpickle.dumps(self._work))  # type: ignore[no-untyped-call]  # every task has a copy
        work.begin(schema_of)
        job = Job(work, stamp=work.stamp)
        now = self._times.watermark if work.mode == EVENT else self._times.batch
        outputs = []
        for key in sorted({*told, *cells}):
            outputs += self._one(job, key, kept, told.get(key, []), cells.get(key, []))
        due = [key for key, (_, times) in kept.items() if any(at <= now for at in times)]
        for key in sorted(due):
            outputs += self._one(job, key, kept, [], [])
            kept[key][1].difference_update([at for at in kept[key][1] if at <= now])
        work.close()
        return outputs

    def _one(self, job: Job, key: int, kept: dict[int, TurnOf], told: list[Order], cells: list[bytes]) -> list[Any]:
        memory, times = kept.setdefault(key, (KeyMemory(self._cargo), set()))
        work = job.process
        assert isinstance(work, Processing)
        work.at(self._times, key, last=True)
        slice_id = self.keys.slice_of(key)
        home = self.keys.lane_of(key) == self.routes.home(slice_id)
        output = Turn(job, slice_id, memory, memory, home=home).run(told, cells)
        for call, at in work.calls:
            (times.add if call == "registerTimer" else times.discard)(at)
        return output
