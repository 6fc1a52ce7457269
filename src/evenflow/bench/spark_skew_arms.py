"""Arms of the skew benchmark: queries that are open side by side and fed the same files, batch by batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from evenflow.bench.spark_state_variants import SCHEMA
from evenflow.bench.spark_turns import cpu_seconds, feed
from evenflow.experiments.slices.demo_stream import Score
from evenflow.spark.kit.controller import Balancing
from evenflow.spark.kit.samples import Cost, Meter, Samples, stopwatch
from evenflow.spark.kit.storage import Storage, checked_url
from evenflow.spark.slices.balance import balance
from evenflow.spark.slices.pack import batch_id


@dataclass(frozen=True, slots=True)
class Work:
    """What is done with rows: points of a profile to compare each with, seconds to wait for each."""

    points: int = 0
    wait_s: float = 0.0

    def __call__(self, rows: Any) -> Any:
        """Work on some rows."""
        if self.points:
            Score(self.points).scores(rows["value"].to_numpy())
        if self.wait_s:
            time.sleep(self.wait_s * rows.num_rows)  # one remote call after the other
        return pa.table({"n": [rows.num_rows]})

    def with_state(self, rows: Any, state: Any) -> tuple[Any, Any]:
        """Work on some rows, and count them."""
        return self(rows), (state or 0) + rows.num_rows


@dataclass(frozen=True, slots=True)
class Plain:
    """For ``mapInArrow``: works on a whole partition and writes down what that took, as evenflow's lanes do."""

    work: Work
    place: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Work on one partition."""
        meter, found = Meter(), list(batches)
        context = TaskContext.get()
        if not found or context is None:
            return
        rows = pa.Table.from_batches(found)
        with stopwatch(Cost(rows=rows.num_rows)) as cost:
            output = self.work(rows)
        meter.add(context.partitionId(), cost)
        meter.write(Storage(self.place), batch_id() or 0, context.partitionId())
        yield from output.to_batches()


@dataclass(frozen=True, slots=True)
class Seen:
    """What one batch showed: each lane's and each slice's seconds, Spark's clock, and CPU of everything."""

    lanes: tuple[float, ...]
    largest: float
    batch_s: float
    cpu_s: float
    moves: int

    @property
    def max_over_mean(self) -> float:
        """How uneven the lanes were."""
        return max(self.lanes) / fmean(self.lanes)

    @property
    def floor(self) -> float:
        """How even they could have been: no placement goes below the largest slice."""
        return max(1.0, self.largest / fmean(self.lanes))


@dataclass
class Arm:
    """One open query.

    Parameters
    ----------
    lanes
        How many partitions its batches have.
    measure
        Of a lane and a slice: ``cpu_s`` or ``wall_s``.
    """

    variant: str
    lanes: int
    query: Any
    into: Path
    samples: Samples
    measure: str = "cpu_s"
    whole: bool = False
    seen: list[Seen] = field(default_factory=list)
    held: dict[int, list[int]] = field(default_factory=dict)

    def take(self, file: Path, hottest: float) -> None:
        """Run one batch; ``hottest`` is the hottest key's share of its rows."""
        before, _ = cpu_seconds()
        batch_s = feed(self.query, self.into, file, len(self.seen))
        assert batch_s is not None  # nothing gives it up
        used = cpu_seconds()[0] - before
        new = self.samples.new()
        load = np.zeros(self.lanes)
        units: dict[int, float] = {}
        for sample in new:
            for unit, cost in sample.slices.items():
                seconds = getattr(cost, self.measure)
                load[sample.lane] += seconds
                units[unit] = units.get(unit, 0.0) + seconds
                if cost.held_rows:
                    self.held.setdefault(unit, []).append(sample.batch)
        largest = hottest * float(load.sum()) if self.whole else max(units.values())
        self.seen.append(Seen(tuple(load.tolist()), largest, batch_s, used, self._moves()))

    def _moves(self) -> int:
        return 0 if self.whole else int(self.query.routes().next_session)

    def held_batches(self) -> int:
        """Return for how many batches in a row a slice's rows waited, at most."""
        longest = 0
        for batches in self.held.values():
            run = 0
            for number, last in zip(batches, [-9, *batches], strict=False):
                run = run + 1 if number == last + 1 else 1
                longest = max(longest, run)
        return longest


class Arms:
    """Opens queries in one session."""

    def __init__(self, spark: SparkSession, place: Path, files: Sequence[Path]) -> None:
        self.spark = spark
        self.place = place
        self.files = files
        self.open: list[Arm] = []

    def _folder(self, name: str) -> tuple[Path, Path]:
        place = self.place / name.replace(" ", "-").replace(",", "")
        (place / "in").mkdir(parents=True)
        return place, place / "in"

    def _stream(self, into: Path) -> Any:
        return self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(into))

    def evenflow(self, name: str, work: Work, *, lanes: int, slices: int, measure: str, balancing: Balancing) -> Arm:
        """Open a balanced query with state."""
        place, into = self._folder(name)
        divided = balance(self._stream(into), by="key", slices=slices, lanes=lanes, balancing=balancing)
        writer = divided.process(work.with_state, "n long").writeStream.format("noop")
        check = place / "check"
        query = writer.option("checkpointLocation", str(check)).start()
        arm = Arm(name, lanes, query, into, Samples(Storage(checked_url(str(check / "evenflow")))), measure)
        self.open.append(arm)
        return arm

    def plain(self, name: str, work: Work, *, partitions: int, measure: str) -> Arm:
        """Open a query that Spark partitions by the hash of the key; it keeps no state, and so has less to do."""
        place, into = self._folder(name)
        url = checked_url(str(place / "meter"))
        frame = self._stream(into).repartition(partitions, "key").mapInArrow(Plain(work, url), "n long")
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(place / "check"))
        arm = Arm(name, partitions, writer.start(), into, Samples(Storage(url)), measure, whole=True)
        self.open.append(arm)
        return arm

    def run(self, hottest: Sequence[float], say: Callable[[str], None]) -> None:
        """Give every file to every arm, one after the other."""
        for number, file in enumerate(self.files):
            for arm in self.open:
                arm.take(file, hottest[number])
            levels = ", ".join(f"{arm.variant} {arm.seen[-1].max_over_mean:.2f}" for arm in self.open)
            say(f"  batch {number + 1}: max/mean {levels}")

    def close(self) -> None:
        """Stop every query."""
        for arm in self.open:
            arm.query.stop()
