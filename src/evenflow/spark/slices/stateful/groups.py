"""Runs a function for ``applyInPandasWithState`` on one slice: a state and a timeout per key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pandas as pd
import pyarrow as pa
from pyspark.errors import PySparkRuntimeError, PySparkTypeError
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import StructType

from evenflow.spark.slices.stateful.book import Book, Key
from evenflow.spark.slices.stateful.codec import Codec
from evenflow.spark.slices.stateful.frames import Settings, parts_of
from evenflow.spark.slices.stateful.handle import Parse
from evenflow.spark.slices.stateful.order import row_bytes
from evenflow.spark.slices.stateful.rows import keys_of, plain_key
from evenflow.spark.slices.stateful.work import Times, Work, sortable

NAMES: Final = ("state",)


class Grouped(Work):
    """A function ``(key, frames, state) -> frames`` on a slice.

    Parameters
    ----------
    function
        The user's, as it is.
    keys, output, state
        The key columns, the declared output and the declared state.
    given
        The stream's columns as an Arrow schema: a key that timed out has an empty frame with them.
    timeout
        One of Spark's ``GroupStateTimeout``.
    watermarked
        Whether the stream has a watermark.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        keys: StructType,
        output: StructType,
        state: StructType,
        given: Any,
        timeout: str,
        watermarked: bool,
        settings: Settings,
    ) -> None:
        super().__init__()
        self.function = function
        self.keys = keys
        self.output = output
        self.state = state
        self.timeout = timeout
        self._given = given
        self._watermarked = watermarked
        self._settings = settings
        self._codec: Codec | None = None

    def begin(self, parse: Parse) -> None:
        """Get ready, once per task."""
        self._codec = Codec(self.state)

    def close(self) -> None:
        """Do nothing: a function has nothing to clean up."""

    @property
    def _now(self) -> int:
        return self.times.watermark if self.timeout == GroupStateTimeout.EventTimeTimeout else self.times.batch

    def __call__(self, rows: Any, packed: tuple[Any, ...] | None) -> tuple[Any, tuple[Any, ...]]:
        """Process one slice: keys with rows, then keys that timed out."""
        here = self.times
        self.times = Times.of(rows) or here
        book = Book(packed, NAMES)
        output: list[Any] = []
        if rows.num_rows:
            for kept, key, frames in self._groups(rows):
                output += self._call(book, kept, key, frames, timed_out=False)
        if self.timeout != GroupStateTimeout.NoTimeout:
            # A timeout is over when the time is past it, not when it is reached.
            over = [key for _, key in book.due(self._now - 1)]
            kept_keys = sorted(over, key=lambda key: row_bytes(sortable(key, self.keys), self.keys))
            for kept, key in zip(kept_keys, self._plain(kept_keys), strict=True):
                empty = pd.DataFrame(columns=self._given.names)
                output += self._call(book, kept, key, [empty], timed_out=True)
            self.times = here
            earliest = book.earliest()
            self.arm(book, None if earliest is None else earliest + 1)
        self.times = here
        return (self._settings.table(output, self.output) if output else None), book.packed()

    def _groups(self, table: Any) -> Iterator[tuple[Key, Key, Iterable[Any]]]:
        frame: Any = None
        # A column of whole numbers or truth values changes its type in pandas where it has nulls: key by key, as in Spark.
        gaps = any(c.null_count and (pa.types.is_integer(c.type) or pa.types.is_boolean(c.type)) for c in table.columns)
        for kept, ordered, start, end in parts_of(table, keys_of(table, self.keys.names)):
            if frame is None or gaps:
                part = ordered.slice(start, end - start) if gaps else ordered
                frame = pd.concat(self._settings.series(part), axis=1)
                columns = [frame[name].array for name in self.keys.names]
            first = 0 if gaps else start
            yield kept, tuple(column[first] for column in columns), self._chunks(frame, first, first + end - start)

    def _chunks(self, frame: Any, start: int, end: int) -> Iterator[Any]:
        for first in range(start, end, self._settings.most_rows):
            part = frame.iloc[first : min(end, first + self._settings.most_rows)]
            part.index = pd.RangeIndex(len(part))
            part._is_copy = None  # noqa: SLF001 - it is nobody else's: a job that writes into it need not be warned
            yield part

    def _plain(self, kept: list[Key]) -> Iterator[Key]:
        """Yield keys as frames have them."""
        if not kept:
            return
        columns = zip(*(plain_key(key, self.keys) for key in kept), strict=True)
        names = self.keys.names
        arrays = [pa.array(values, self._given.field(name).type) for name, values in zip(names, columns, strict=True)]
        series = self._settings.series(pa.table(arrays, names))
        yield from (tuple(each.array[place] for each in series) for place in range(len(kept)))

    def _call(self, book: Book, kept: Key, key: Key, frames: Iterable[Any], *, timed_out: bool) -> list[Any]:
        assert self._codec is not None
        (held,) = book.record(kept)
        state = GroupState(
            optionalValue=None if held is None else self._codec.thaw(held),  # type: ignore[arg-type]
            batchProcessingTimeMs=self.times.batch,
            eventTimeWatermarkMs=self.times.watermark,
            timeoutConf=self.timeout,
            hasTimedOut=timed_out,
            watermarkPresent=self._watermarked,
            defined=held is not None,
            updated=False,
            removed=False,
            timeoutTimestamp=GroupState.NO_TIMESTAMP,
            keyAsUnsafe=b"",
            valueSchema=self.state,
        )
        output = self._checked(self.function(key, iter(frames) if not timed_out else frames, state))
        if state._updated or state._removed:  # noqa: SLF001 - what Spark's own worker reads
            book.keep(kept, [self._codec.freeze(tuple(state._value)) if state._defined else None])  # noqa: SLF001
        for at in book.timers.get(kept, ()):
            book.drop_timer(kept, at)
        if state._timeout_timestamp != GroupState.NO_TIMESTAMP:  # noqa: SLF001
            book.add_timer(kept, int(state._timeout_timestamp))  # noqa: SLF001
        return output

    def _checked(self, result: Any) -> list[Any]:
        if isinstance(result, pd.DataFrame) or not isinstance(result, Iterable):
            raise PySparkTypeError(
                errorClass="UDF_RETURN_TYPE",
                messageParameters={"expected": "iterable of pandas.DataFrame", "actual": type(result).__name__},
            )
        found = []
        for frame in result:
            if not isinstance(frame, pd.DataFrame):
                raise PySparkTypeError(
                    errorClass="UDF_RETURN_TYPE",
                    messageParameters={
                        "expected": "iterator of pandas.DataFrame",
                        "actual": f"iterator of {type(frame).__name__}",
                    },
                )
            if len(frame.columns) == 0 and frame.empty:
                continue
            if len(frame.columns) != len(self.output):
                raise PySparkRuntimeError(
                    errorClass="RESULT_COLUMN_SCHEMA_MISMATCH",
                    messageParameters={"expected": str(len(self.output)), "actual": str(len(frame.columns))},
                )
            found.append(frame)
        return found
