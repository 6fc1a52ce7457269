"""The code that runs in Spark's workers: `Route` sends publications to lanes, `Lane` matches them there.

`Route` does the work of the cluster heads, `Lane` that of one edge broker. A lane is one partition of the batch;
its index follows the lane's log of subscribers.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as T  # noqa: N812 - Spark's own custom

from evenflow.spark.matching.event_reading import EventReader
from evenflow.spark.matching.subscription_log import LiveIndex, Version
from evenflow.subscriptions.columns import read_lines
from evenflow.subscriptions.matching import Engine, Index, fastest_engine

DELIVERY, SAMPLE, COUNT = 0, 1, 2  # kinds of rows
ROUTED = T.StructType([T.StructField("kind", T.IntegerType()), T.StructField("lane", T.IntegerType())])
MEASURES = ("publications", "cpu_us", "deliveries", "bytes", "memory")
_indexes: dict[tuple[str, Engine], LiveIndex] = {}
_covers: dict[tuple[tuple[int, str], ...], Index] = {}


def routed_schema(events: T.StructType) -> T.StructType:
    """Return the schema between the two stages: kind and lane, the event's columns, and a count."""
    return T.StructType([*ROUTED, *_nullable(events), T.StructField(MEASURES[0], T.LongType())])


def matched_schema(events: T.StructType) -> T.StructType:
    """Return the schema of a batch's output: deliveries, and one row of measures per lane."""
    matches = T.StructField("matches", T.ArrayType(T.StringType(), containsNull=False))
    return T.StructType([*ROUTED, *_nullable(events), matches, *(T.StructField(n, T.LongType()) for n in MEASURES)])


def _nullable(events: T.StructType) -> list[T.StructField]:
    return [T.StructField(field.name, field.dataType) for field in events]


@dataclass(frozen=True)
class Route:
    """For ``mapInArrow``: sends each publication to the lanes whose covering set matches it.

    Parameters
    ----------
    covers
        The covering subscriptions, each with its lane.
    attributes
        All attributes that subscriptions use; a row with an unreadable one is dropped.
    reader
        Turns rows into publications.
    columns
        The names of the publications' columns.
    """

    covers: tuple[tuple[int, str], ...]
    attributes: tuple[str, ...]
    reader: EventReader
    columns: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield each publication once per lane, and a count of all publications."""
        index = self._index()
        lanes = np.array([lane for lane, _ in self.covers], dtype=np.int32)
        count = 0
        for batch in batches:
            named = batch.rename_columns(list(self.columns))
            good, events, _ = self.reader.read(named, self.attributes)
            count += batch.num_rows
            pairs = {
                (event, int(lanes[int(cover)]))
                for event, matching in enumerate(index.match(events).lists().to_pylist())
                for cover in matching
            }
            rows, where = np.array(sorted(pairs, key=lambda pair: pair[::-1]), dtype=np.int64).reshape(-1, 2).T
            yield self._rows(good.take(pa.array(rows)), DELIVERY, where, None)
        if count:
            nothing = pa.RecordBatch.from_pylist([{}] * 1, schema=batch.schema).rename_columns(list(self.columns))
            yield self._rows(nothing, COUNT, np.zeros(1, np.int64), count)

    def _rows(self, kept: pa.RecordBatch, kind: int, lanes: Any, count: int | None) -> pa.RecordBatch:
        size = kept.num_rows
        columns = [pa.array(np.full(size, kind, np.int32)), pa.array(lanes.astype(np.int32)), *kept.columns]
        names = ["kind", "lane", *(f"c{place}" for place in range(len(self.columns))), MEASURES[0]]
        return pa.RecordBatch.from_arrays([*columns, pa.array([count] * size, pa.int64())], names)

    def _index(self) -> Index:
        if self.covers not in _covers:
            _covers.clear()
            reading = read_lines([text for _, text in self.covers])
            ids = pa.array([str(place) for place in range(len(self.covers))], pa.string())
            _covers[self.covers] = Index.from_columns(ids, reading.predicates)
        return _covers[self.covers]


@dataclass(frozen=True)
class Lane:
    """For ``mapInArrow`` behind ``repartitionById``: matches a broker's publications with its own subscriptions.

    Parameters
    ----------
    logs
        The directory of each lane's log.
    versions
        The size of each log that this batch uses.
    reader, columns
        As for `Route`.
    engine
        The kernels of the indexes; by default the fastest, even for small indexes, because a lane runs for long.
    """

    logs: tuple[str, ...]
    versions: tuple[Mapping[str, int], ...]
    reader: EventReader
    columns: tuple[str, ...]
    engine: Engine = "auto"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the deliveries of one lane, then its measures."""
        context = TaskContext.get()
        assert context is not None
        lane = context.partitionId()
        index: Index | None = None
        total = dict.fromkeys(MEASURES, 0)
        for batch in batches:
            kind = batch.column("kind").to_numpy()
            for row in np.flatnonzero(kind == COUNT).tolist():
                yield self._sample(batch.schema, COUNT, lane, {MEASURES[0]: batch.column(MEASURES[0])[row].as_py()})
            mine = batch.filter(pa.array(kind == DELIVERY))
            if not mine.num_rows:
                continue
            if index is None:
                index = self._index(lane)
                self._match(index, mine.slice(0, 1))  # warm-up: compilation is not matching delay
            start = time.process_time_ns()
            matched = self._match(index, mine)
            total["cpu_us"] += (time.process_time_ns() - start) // 1000
            total["publications"] += mine.num_rows
            for rows in matched:
                total["deliveries"] += len(rows.column("matches").flatten())
                total["bytes"] += rows.nbytes
                yield rows
        if index is not None:
            total["memory"] = index.nbytes
            yield self._sample(batch.schema, SAMPLE, lane, total)

    def _match(self, index: Index, mine: pa.RecordBatch) -> list[pa.RecordBatch]:
        plain = pa.RecordBatch.from_arrays(mine.columns[2:-1], list(self.columns))
        _, events, _ = self.reader.read(plain, index.attributes())
        matches = index.match(events)
        parts = []
        for chunk in matches.chunks():
            ids = matches.ids.take(pa.array(chunk.numbers))
            lists = pa.ListArray.from_arrays(pa.array(chunk.offsets.astype(np.int32)), ids)
            part = mine.slice(chunk.first, len(lists))
            numbers = [pa.nulls(len(lists), pa.int64()) for _ in MEASURES]
            names = [*mine.schema.names[:-1], "matches", *MEASURES]
            parts.append(pa.RecordBatch.from_arrays([*part.columns[:-1], lists, *numbers], names))
        return parts

    def _sample(self, schema: pa.Schema, kind: int, lane: int, numbers: Mapping[str, int]) -> pa.RecordBatch:
        nothing = [pa.nulls(1, field.type) for field in list(schema)[2:-1]]
        measures = [pa.array([numbers.get(name)], pa.int64()) for name in MEASURES]
        head = [pa.array([kind], pa.int32()), pa.array([lane], pa.int32())]
        names = [*schema.names[:-1], "matches", *MEASURES]
        return pa.RecordBatch.from_arrays([*head, *nothing, pa.nulls(1, pa.list_(pa.string())), *measures], names)

    def _index(self, lane: int) -> Index:
        place = self.logs[lane]
        version: Version = self.versions[lane]
        engine = fastest_engine() if self.engine == "auto" else self.engine
        if (place, engine) not in _indexes:
            _indexes[place, engine] = LiveIndex(Path(place), engine)
        return _indexes[place, engine].at(version)
