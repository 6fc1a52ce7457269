"""The same stateful job through Spark's own door and through evenflow's, unchanged: rows per CPU-second and bytes of state.

The two take turns, so that whatever else the machine does meets both alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from evenflow.bench import spark_state
from evenflow.bench.spark_state import FEW_KEYS, FEW_ROWS, LANES, ROWS, SLICES, Say, write_rows
from evenflow.bench.spark_state_variants import SCHEMA, STATE, ByPandas, ByRow, by_state
from evenflow.bench.spark_turns import Line, bench_session, paired
from evenflow.spark.slices.balance import balance
from evenflow.spark.slices.running import OUTPUT

SPARK, OURS = "Spark", "evenflow"
GAP_MS: Final = 20_000
BEST: Final = 10
TTL_MS: Final = 3_600_000


class Sessions(StatefulProcessor):
    """Counts a key's rows until none comes for a while, by event time."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the session."""
        self._handle = handle
        self._session = handle.getValueState("session", "n long, total double, ends long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 - Spark's names
        """Go on with a session and put off its end."""
        n, total, ends = self._session.get() or (0, 0.0, 0)
        last = ends
        for row in rows:
            n += 1
            total += row.value
            last = max(last, int(row.at.timestamp() * 1000) + GAP_MS)
        if last != ends:
            if ends:
                self._handle.deleteTimer(ends)
            self._handle.registerTimer(last)
        self._session.update((n, total, last))
        return iter([])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """End a session."""
        n, total, _ = self._session.get() or (0, 0.0, 0)
        self._session.clear()
        yield Row(key=key[0], n=n, total=total, mean=total / max(n, 1))

    def close(self) -> None:
        """Nothing is open."""


class Best(StatefulProcessor):
    """Keeps a key's ten best values in a list and how often each rounded value came in a map; both last an hour."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare list and map."""
        self._best = handle.getListState("best", "value double", TTL_MS)
        self._seen = handle.getMapState("seen", "value long", "n long", TTL_MS)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 - Spark's names
        """Take in a key's values."""
        values = [row.value for row in rows]
        best = sorted([*(value for (value,) in self._best.get()), *values])[-BEST:]
        self._best.put([(value,) for value in best])
        for rounded in {round(value) for value in values}:
            found = self._seen.getValue((rounded,))
            self._seen.updateValue((rounded,), ((found[0] if found else 0) + 1,))
        yield Row(key=key[0], n=len(values), total=sum(best), mean=best[-1])

    def close(self) -> None:
        """Nothing is open."""


class Job(NamedTuple):
    """A job and the stream it wants."""

    run: Callable[[Any], Any]
    stream: Callable[[DataFrame], DataFrame] = lambda stream: stream


def _timed(stream: DataFrame) -> DataFrame:
    return stream.withColumn("at", sf.current_timestamp()).withWatermark("at", "1 second")


JOBS: Mapping[str, Job] = {
    "statistics, rows": Job(lambda k: k.transformWithState(ByRow(), OUTPUT, "update", "None")),
    "statistics, pandas": Job(lambda k: k.transformWithStateInPandas(ByPandas(), OUTPUT, "update", "None")),
    "statistics, groups": Job(lambda k: k.applyInPandasWithState(by_state, OUTPUT, STATE, "update", "NoTimeout")),
    "sessions, rows": Job(lambda k: k.transformWithState(Sessions(), OUTPUT, "update", "EventTime"), _timed),
    "best ten, rows": Job(lambda k: k.transformWithState(Best(), OUTPUT, "update", "ProcessingTime")),
}


def bench_spark_drop_in(
    keys: Sequence[int] = spark_state.KEYS,
    jobs: Sequence[str] = tuple(JOBS),
    *,
    rows: int = ROWS,
    turns: int = 3,
    batches: int = 2,
    small: bool = True,
    limit_s: float = 240.0,
    spark: SparkSession | None = None,
    say: Say = lambda _: None,
) -> dict[str, Any]:
    """Run every job both ways at every number of keys; arguments as for ``bench spark-state``.

    ``small`` measures the time of batches of few rows as well, with the first job.
    """
    began = time.perf_counter()
    found: list[dict[str, Any]] = []
    with bench_session(LANES, spark) as (session, place):
        if spark is None:
            say("warming up")
            for job in jobs:
                for line in _pair(session, place / "warm" / _folder(job), job, FEW_ROWS, FEW_KEYS, limit_s):
                    line.turn(1)
        cases = [(count, rows) for count in keys]
        if small:
            cases.insert(0, (FEW_KEYS, FEW_ROWS))
        for count, size in cases:
            for job in jobs if size == rows else jobs[:1]:
                say(f"{job}: {size:,} rows, {count:,} keys per batch")
                theirs, ours = _pair(session, place / str(count) / _folder(job), job, size, count, limit_s)
                for _ in range(turns):
                    for line in (theirs, ours):
                        line.turn(batches)
                        say(f"  {line.variant}: {line.rates()[-1]:,.0f} rows per CPU-second")
                found.append(_row(job, count, theirs, ours))
    return {"bench": "spark-drop-in", "rows": found, "seconds": round(time.perf_counter() - began, 1)}


def _folder(job: str) -> str:
    return job.replace(", ", "-").replace(" ", "-")


def _pair(spark: SparkSession, place: Path, job: str, rows: int, keys: int, limit_s: float) -> tuple[Line, Line]:
    files = write_rows(place / "files", rows, keys)
    run, prepared = JOBS[job]

    def line(variant: str, keyed: Callable[[DataFrame], Any]) -> Line:
        return Line(
            variant=variant,
            spark=spark,
            place=place / variant,
            schema=SCHEMA,
            start=lambda stream: run(keyed(prepared(stream))).writeStream.outputMode("update"),
            files=files,
            rows=rows,
            limit_s=limit_s,
        )

    return (
        line(SPARK, lambda stream: stream.groupBy("key")),
        line(OURS, lambda stream: balance(stream, by="key", slices=SLICES, lanes=LANES)),
    )


def _row(job: str, keys: int, theirs: Line, ours: Line) -> dict[str, Any]:
    state, own = ours.state_bytes(), theirs.state_bytes()
    return {
        "job": job,
        "keys": keys,
        "rows_per_batch": ours.rows,
        "spark_rows_per_cpu_s": round(median(theirs.rates()), 1),
        "rows_per_cpu_s": round(median(ours.rates()), 1),
        "ratio": paired(ours.rates(), theirs.rates()),
        "batch_s_ratio": paired(ours.each(lambda b: b.batch_s), theirs.each(lambda b: b.batch_s)),
        "state_ratio": round(state / own, 3) if state and own else None,
        "finished": all(batch.finished for line in (theirs, ours) for batch in line.all()),
    }
