"""Runs a user's stateful processor on one slice: the batch's keys, then the timers that have expired."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, TimerValues
from pyspark.sql.types import Row, StructType

from evenflow.spark.slices.stateful.book import Book, Due, Key
from evenflow.spark.slices.stateful.handle import CLOSED, EVENT, INITIALIZED, NONE, Handle, Parse
from evenflow.spark.slices.stateful.order import store_order
from evenflow.spark.slices.stateful.rows import plain_key

STAMP: Final = b"evenflow.times"
"""In the schema of rows that wait for their slice: the times of the batch they came with."""


class Times(NamedTuple):
    """A batch's processing time and watermark in milliseconds, as Spark tells them."""

    batch: int
    watermark: int

    @staticmethod
    def of(rows: Any) -> Times | None:
        """Return the times that rows carry, if they had to wait."""
        found = (rows.schema.metadata or {}).get(STAMP)
        return None if found is None else Times(*map(int, found.split(b",")))

    def on(self, rows: Any) -> Any:
        """Return rows that carry these times."""
        return rows.replace_schema_metadata({STAMP: f"{self.batch},{self.watermark}"})


class Form(Protocol):
    """How rows look to the processor."""

    def groups(self, table: Any) -> Iterable[tuple[Key, Key, Iterable[Any]]]:
        """Return every key, as it is kept and as the processor sees it, with its rows."""
        ...

    def table(self, output: Sequence[Any]) -> Any:
        """Return output as one table."""
        ...


class Work:
    """What the plane runs in the place of a process function, and when it wants to be called next.

    A slice's turn calls it with rows and state; Spark's own calls reach it through the slice processor.
    """

    def __init__(self) -> None:
        self.times = Times(-1, -1)
        self.spark_key = -1
        self.last = True
        self.initial: Any = None
        self.calls: list[tuple[str, int]] = []

    def at(self, times: Times, spark_key: int, *, last: bool, initial: Any = None) -> None:
        """Say when and for which of Spark's keys the next turn is.

        ``last`` turns fire timers: after a batch's rows, or when Spark calls for a timer.
        """
        self.times, self.spark_key, self.last, self.initial = times, spark_key, last, initial
        self.calls = []

    def begin(self, parse: Parse) -> None:
        """Get ready, once per task."""
        raise NotImplementedError

    def close(self) -> None:
        """Clean up, once per task."""
        raise NotImplementedError

    def stamp(self, rows: Any) -> Any:
        """Return rows that must wait, with the times of their batch."""
        return self.times.on(rows)

    def arm(self, book: Book, wake: int | None) -> None:
        """Have Spark wake the slice when its next timer expires.

        The book remembers for which of Spark's keys a timer is set: a slice that has moved sets its own.
        """
        key, at = book.armed or (None, 0)
        set_here = at if key == self.spark_key else None
        if set_here is not None and (set_here <= self._now or wake is None or wake < set_here):
            self.calls.append(("deleteTimer", set_here))
            book.armed = set_here = None
        if wake is not None and set_here is None:
            # A timer that is over already waits for the next batch, as it does in Spark's own.
            wake = max(wake, self._now + 1) if self.last else wake
            self.calls.append(("registerTimer", wake))
            book.armed = (self.spark_key, wake)

    @property
    def _now(self) -> int:
        raise NotImplementedError

    def __call__(self, rows: Any, packed: tuple[Any, ...] | None) -> tuple[Any, tuple[Any, ...]]:
        """Process one slice."""
        raise NotImplementedError


class Processing(Work):
    """A :class:`StatefulProcessor` on a slice.

    Parameters
    ----------
    processor
        The user's, as it is.
    form
        Rows or pandas.
    keys
        The key columns.
    mode
        The time mode, in small letters.
    """

    def __init__(self, processor: StatefulProcessor, form: Form, keys: StructType, mode: str) -> None:
        super().__init__()
        self.processor = processor
        self.form = form
        self.keys = keys
        self.mode = mode
        self._handle: Handle | None = None
        self._row = Row(*keys.names)

    def begin(self, parse: Parse) -> None:
        """Let the processor declare its state."""
        self._handle = Handle(self.mode, parse)
        self.processor.init(self._handle)
        self._handle.phase = INITIALIZED

    def close(self) -> None:
        """Let the processor clean up."""
        if self._handle is not None:
            self.processor.close()
            self._handle.phase = CLOSED

    @property
    def _now(self) -> int:
        return self.times.watermark if self.mode == EVENT else self.times.batch

    def __call__(self, rows: Any, packed: tuple[Any, ...] | None) -> tuple[Any, tuple[Any, ...]]:
        """Process one slice: initial states, rows, timers."""
        assert self._handle is not None
        handle, here = self._handle, self.times
        self.times = Times.of(rows) or here
        book = Book(packed, handle.names, handle.deleted)
        handle.open(book, self.times.batch)
        if self.initial is not None:
            self._begun(self.initial)
            self.initial = None
        output: list[Any] = []
        values = TimerValues(*self.times)
        for kept, key, items in self.form.groups(rows) if rows.num_rows else ():
            handle.enter(kept)
            output += self.processor.handleInputRows(key, iter(items), values)
            handle.leave()
        if self.mode != NONE:
            if self.last:
                output += self._expired(book, values)
            handle.sweep()
            self.times = here
            self.arm(book, _wake(book))
        self.times = here
        return (self.form.table(output) if output else None), book.packed()

    def _begun(self, initial: Any) -> None:
        assert self._handle is not None
        for kept, key, items in self.form.groups(initial):
            for item in items:
                self._handle.enter(kept)
                self.processor.handleInitialState(key, item, TimerValues(*self.times))
                self._handle.leave()

    def _expired(self, book: Book, values: TimerValues) -> list[Any]:
        assert self._handle is not None
        output: list[Any] = []
        for at, kept in sorted(book.due(self._now), key=self._order):
            self._handle.enter(kept)
            output += self.processor.handleExpiredTimer(
                key=self._row(*plain_key(kept, self.keys)), timerValues=values, expiredTimerInfo=ExpiredTimerInfo(at)
            )
            self._handle.deleteTimer(at)
            self._handle.leave()
        return output

    def _order(self, due: Due) -> tuple[int, tuple[bytes, bytes]]:
        return due.at, store_order(sortable(due.key, self.keys), self.keys)


def _wake(book: Book) -> int | None:
    """Return when a slice wants its next turn: for a timer, or when the last key has a value to drop."""
    found = [at for at in (book.earliest(), max(book.ends.values(), default=None)) if at is not None]
    return min(found, default=None)


def sortable(key: Key, keys: StructType) -> Key:
    """Return a kept key with numbers in the place of dates and times, as Spark's rows have them."""
    plain = plain_key(key, keys)
    return tuple(
        each if each is None else field.dataType.toInternal(each)
        for each, field in zip(plain, keys.fields, strict=True)
    )


EMPTY: Final = pa.table({})
"""The rows of a turn without any."""
