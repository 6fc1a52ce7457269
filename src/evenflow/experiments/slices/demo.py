"""The demonstration's two runs: the same files through the same plane, once with every slice left where it began."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

from evenflow.experiments.slices.demo_stream import SCHEMA, Score, Stream
from evenflow.invariants import Comparison
from evenflow.rundir import TRACE
from evenflow.spark.kit.controller import Balancing
from evenflow.spark.session import QUICK_START, SMALL, local_session, stderr_into
from evenflow.spark.slices.balance import balance
from evenflow.spark.slices.running import OUTPUT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenflow.spark.kit.query import BalancedQuery

LOOK_S: Final = 0.25  # between two looks at a run
# A run of a minute has few batches, so it learns faster than a stream of days should,
# and it moves slices also on a machine that would keep up without.
LIVELY: Final = Balancing(every=2, alpha=0.6, rest=4, keep_up=0.0)


@dataclass
class Batch:
    """What one batch with rows took; ``cpu_s`` is each lane's, in the application's function and its state."""

    number: int
    cpu_s: list[float]
    rows: int = 0
    seconds: float | None = None

    @property
    def max_over_mean(self) -> float:
        """How uneven the lanes were."""
        mean = fmean(self.cpu_s)
        return max(self.cpu_s) / mean if mean > 0 else 1.0


@dataclass
class Arm:
    """One run: what happened so far, and at the end its numbers."""

    name: str
    stream: Stream
    balanced: bool
    batches: dict[int, Batch] = field(default_factory=dict)
    moves: int = 0
    planned: int = 0
    events: list[str] = field(default_factory=list)
    finished: set[int] = field(default_factory=set)
    seconds: float = 0.0

    def take(self, record: Mapping[str, Any]) -> None:
        """Take in one record of the trace."""
        if record["kind"] == "sample" and record["rows"]:
            batch = self.batches.setdefault(record["batch"], Batch(record["batch"], [0.0] * self.stream.lanes))
            batch.cpu_s[int(record["node"].rpartition("-")[2])] = record["load"]
            batch.rows += record["rows"]
        elif record["kind"] == "move":
            self.moves += 1
        elif record["kind"] == "plan":
            self.planned += len(record["moves"]) * record["carried_out"]
            before, after = record["max_over_mean"]
            ways = Counter((move["giver"], move["taker"]) for move in record["moves"])
            moved = ", ".join(f"{count} {giver} → {taker}" for (giver, taker), count in sorted(ways.items()))
            self.events.append(f"batch {len(self.batches)}: {record['policy']}, max/mean {before:.2f} → {after:.2f}")
            self.events.append(f"  slices by lane: {moved or 'none'}")
        elif record["kind"] == "refusal":
            self.events.append(f"batch {len(self.batches)}: nothing to do, {record['why']}")

    def timed(self, progress: Any) -> None:
        """Take in what Spark says of a batch."""
        number = progress["batchId"]
        if any(source["numInputRows"] for source in progress["sources"]):
            self.finished.add(number)
        if number in self.batches:
            self.batches[number].seconds = progress["durationMs"]["triggerExecution"] / 1000

    def measured(self) -> list[Batch]:
        """Return the batches that count: the first one warms the workers up."""
        found = [self.batches[number] for number in sorted(self.batches)]
        return [batch for batch in found[1:] if batch.seconds is not None]

    def summary(self) -> dict[str, Any]:
        """Return the numbers of the run."""
        counted = self.measured()
        seconds = sum(batch.seconds or 0.0 for batch in counted)
        return {
            "run": self.name,
            "batch_s": median(batch.seconds or 0.0 for batch in counted),
            "max_over_mean": fmean(batch.max_over_mean for batch in counted),
            "last_max_over_mean": median(batch.max_over_mean for batch in counted[-3:]),
            "cpu_s": sum(sum(batch.cpu_s) for batch in counted) / len(counted),
            "rows_per_s": sum(batch.rows for batch in counted) / seconds,
            "moves": self.moves,
            "batches": len(self.batches),
        }


Watch = Callable[[Arm], None]


class Tail:
    """Reads the lines of a growing file, each once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def new(self) -> Iterator[dict[str, Any]]:
        """Yield the records of lines that were completed since the last call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._at += len(line)
                yield json.loads(line)


class Runs:
    """Runs one stream through the plane, by one session, as often as asked, and compares what the runs wrote.

    Parameters
    ----------
    spark
        The session.
    place
        A directory that the driver and all executors share; a new one for each stream.
    stream
        What is read; its files are written here.
    score
        What is done with each reading.
    """

    def __init__(self, spark: SparkSession, place: Path, stream: Stream, score: Score) -> None:
        self.spark = spark
        self.place = place
        self.stream = stream
        self.score = score
        stream.write(place / "in")

    def _start(self, name: str, *, balanced: bool) -> BalancedQuery:
        settings = replace(LIVELY, policy=LIVELY.policy if balanced else "", run=str(self._run(name)))
        stream = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(self.place / "in"))
        divided = balance(stream, by="sensor", slices=self.stream.slices, lanes=self.stream.lanes, balancing=settings)
        writer = divided.process(self.score, OUTPUT).writeStream.format("parquet")
        return writer.option("checkpointLocation", str(self.place / name / "check")).start(str(self._out(name)))

    def _run(self, name: str) -> Path:
        return self.place / name / "run"

    def _out(self, name: str) -> Path:
        return self.place / name / "out"

    def run(self, name: str, watch: Watch = lambda _: None, *, balanced: bool) -> Arm:
        """Run all files through the plane; ``watch`` looks at the run as it goes."""
        arm = Arm(name, self.stream, balanced)
        began = time.monotonic()
        query = self._start(name, balanced=balanced)
        tail = Tail(self._run(name) / TRACE)
        try:
            while not self._over(arm, query):
                time.sleep(LOOK_S)
                arm.seconds = time.monotonic() - began
                for record in tail.new():
                    arm.take(record)
                for progress in query.recentProgress:
                    arm.timed(progress)
                watch(arm)
        finally:
            query.stop()
        return arm

    def _over(self, arm: Arm, query: BalancedQuery) -> bool:
        """Say whether every file went through and every move that was decided is in the trace, which follows the log."""
        error = query.exception()
        if error is not None:
            raise error
        through = len(arm.finished) >= self.stream.batches <= len(arm.batches)
        return through and arm.moves >= arm.planned and not query.routes().sessions

    def same(self, first: str, second: str) -> tuple[bool, int]:
        """Say whether two runs wrote the same, and that every reading was counted once; return also how many rows."""
        tables = [
            self.spark.read.parquet(str(self._out(name)))
            .toArrow()
            .sort_by([("key", "ascending"), ("n", "ascending")])
            .combine_chunks()
            for name in (first, second)
        ]
        counted = tables[0].group_by("key").aggregate([("n", "max")])
        readings = sum(pq.read_metadata(path).num_rows for path in (self.place / "in").glob("*.parquet"))
        Comparison(readings, wrong=sum(table.num_rows for table in tables)).judged("demo")
        return tables[0].equals(tables[1]) and sum(counted["n_max"].to_pylist()) == readings, tables[0].num_rows


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def demo_session(master: str, log: Path) -> SparkSession:
    """Start a session whose JVM writes its log into a file: the terminal belongs to the picture."""
    with stderr_into(log):
        if master.startswith("local"):
            return local_session(cores(), name="evenflow demo", master=master, settings=QUICK_START)
        from pyspark.sql import SparkSession  # noqa: PLC0415 - a cluster decides its own settings

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master(master).appName("evenflow demo")
        for key in ("spark.ui.showConsoleProgress", "spark.sql.session.timeZone"):
            builder = builder.config(key, SMALL[key])
        return builder.getOrCreate()
