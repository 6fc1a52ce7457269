"""Streaming queries that take turns: each is fed file by file, and what a batch took is read from clocks and Spark."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Final

import psutil
from pyspark.sql import DataFrame, SparkSession

from evenflow.spark.session import local_session, stderr_into

LOOK_S: Final = 0.1
LOOKS_PER_CHECK: Final = 20  # of the limit: looking at every process takes CPU itself
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SESSION: Final = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.log.level": "ERROR",
}
"""Every variant keeps its state in the same store."""

RUNNER: Final = "python_streaming_source_runner"
"""Spark's process for a Python streaming source; evenflow's control loop lives in one."""


@contextmanager
def bench_session(
    cores: int, given: SparkSession | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[tuple[SparkSession, Path]]:
    """Start a session, unless one is given, with a directory for its files; its log is kept out of the terminal."""
    with tempfile.TemporaryDirectory(prefix="evenflow-bench-") as folder:
        place = Path(folder)
        session = given
        if session is None:
            with stderr_into(place / "spark.log"):
                session = local_session(cores, name="evenflow bench", settings={**SESSION, **(settings or {})})
        try:
            yield session, place
        finally:
            if given is None:
                session.stop()


@dataclass(frozen=True, slots=True)
class Batch:
    """What one batch took: CPU seconds of everything, those of the control loop's process, and Spark's own clock."""

    rows: int
    cpu_s: float
    control_s: float
    batch_s: float
    finished: bool = True


@dataclass
class Line:
    """One variant of one case: its input, its checkpoint, and what its turns took.

    Parameters
    ----------
    start
        Makes a writer from the stream.
    files
        Input, taken in turn.
    limit_s
        CPU seconds after which a batch is given up.
    """

    variant: str
    spark: SparkSession
    place: Path
    schema: str
    start: Callable[[DataFrame], Any]
    files: list[Path]
    rows: int
    limit_s: float
    batches: list[list[Batch]] = field(default_factory=list)
    fed: int = 0
    gone: bool = False

    def turn(self, batches: int) -> None:
        """Start the query again, let it warm up with one batch, and measure so many more.

        A variant whose first batch takes a quarter of the limit is measured by that batch.
        """
        if self.gone:
            return
        into = self.place / "in"
        into.mkdir(parents=True, exist_ok=True)
        stream = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1).parquet(str(into))
        query = self.start(stream).format("noop").option("checkpointLocation", str(self.place / "check")).start()
        try:
            first = self._batch(query, into)
            slow = first.cpu_s > self.limit_s / 4
            self.batches.append([first] if slow else [self._batch(query, into) for _ in range(batches)])
            self.gone = not first.finished
        finally:
            query.stop()

    def _batch(self, query: Any, into: Path) -> Batch:
        began = time.monotonic()
        before, control = cpu_seconds()
        number, self.fed = self.fed, self.fed + 1
        over = lambda: cpu_seconds()[0] - before > self.limit_s  # noqa: E731 - a limit, told to the one who waits
        seconds = feed(query, into, self.files[number % len(self.files)], number, over)
        after, control_after = cpu_seconds()
        took = time.monotonic() - began if seconds is None else seconds
        return Batch(self.rows, after - before, control_after - control, took, seconds is not None)

    def rates(self) -> list[float]:
        """Return rows per CPU-second, turn by turn."""
        return [sum(b.rows for b in turn) / sum(b.cpu_s for b in turn) for turn in self.batches]

    def each(self, what: Callable[[Batch], float]) -> list[float]:
        """Return the median of something over a turn's batches, turn by turn."""
        return [median(what(b) for b in turn) for turn in self.batches]

    def all(self) -> list[Batch]:
        """Return every measured batch."""
        return [batch for turn in self.batches for batch in turn]

    def state_bytes(self) -> int | None:
        """Return what the newest version of the state takes in the checkpoint, as Spark stores it.

        Every key is in every batch, so the newest changelogs hold the whole state.
        """
        newest: dict[Path, tuple[int, int]] = {}
        for path in (self.place / "check" / "state").rglob("*.changelog"):
            version = int(path.name.partition(".")[0].partition("_")[0])
            newest[path.parent] = max(newest.get(path.parent, (-1, 0)), (version, path.stat().st_size))
        return sum(size for _, size in newest.values()) or None


def feed(query: Any, into: Path, file: Path, number: int, over: Callable[[], bool] = lambda: False) -> float | None:
    """Give one file to a query as its batch of this number; return Spark's time for it, ``None`` if it is given up."""
    hidden = into / f".{number:05}"
    shutil.copy(file, hidden)
    hidden.rename(into / f"{number:05}.parquet")
    for look in count(1):
        time.sleep(LOOK_S)
        error = query.exception()
        if error is not None:
            raise error
        seconds = _finished(query, number + 1)
        if seconds is not None or (look % LOOKS_PER_CHECK == 0 and over()):
            return seconds
    raise AssertionError("counting ends never")


def _finished(query: Any, files: int) -> float | None:
    """Return how long Spark's last batch with rows took, once so many files were read by this query's checkpoint."""
    with_rows = [p for p in query.recentProgress if any(s["numInputRows"] for s in p["sources"])]
    if not with_rows or _files_read(with_rows[-1]) < files:
        return None
    return float(with_rows[-1]["durationMs"]["triggerExecution"]) / 1000


def _files_read(progress: Any) -> int:
    """Read from the file source's offset how many batches of one file there were."""
    for source in progress["sources"]:
        offset = source["endOffset"]
        found = json.loads(offset) if isinstance(offset, str) else offset
        if isinstance(found, dict) and "logOffset" in found:
            return int(found["logOffset"]) + 1
    return 0


_SEEN: Final[dict[tuple[int, float], tuple[float, bool]]] = {}


def cpu_seconds() -> tuple[float, float]:
    """Return the CPU time of this process and all that it started, and of those in which Python streaming sources live.

    What a process took counts on when it has ended: Spark ends idle workers, and nobody inherits their time.
    """
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
            key = (process.pid, process.create_time())
            runner = _SEEN[key][1] if key in _SEEN else any(RUNNER in word for word in process.cmdline())
        except psutil.Error:
            continue
        _SEEN[key] = (times.user + times.system, runner)
    return sum(s for s, _ in _SEEN.values()), sum(s for s, runner in _SEEN.values() if runner)


def paired(mine: list[float], other: list[float]) -> float | None:
    """Return the median of the ratios turn by turn; of the medians where one has fewer turns.

    Examples
    --------
    >>> paired([2.0, 3.0, 4.0], [1.0, 1.0, 1.0])
    3.0
    """
    if not mine or not other:
        return None
    if len(mine) != len(other):
        return float(f"{median(mine) / median(other):.3g}")
    return float(f"{median(a / b for a, b in zip(mine, other, strict=True)):.3g}")
