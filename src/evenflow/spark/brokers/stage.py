"""What runs in Spark's workers: publications go to the brokers whose covering set matches them, and are matched there.

The first stage is the heads' work, the second the edge brokers': every edge broker is a lane, one partition of the batch,
with an index of its own that follows the lane's log of subscribers.
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

DELIVERY, SAMPLE, COUNT = 0, 1, 2  # kinds of a row
ROUTED = T.StructType([T.StructField("kind", T.IntegerType()), T.StructField("lane", T.IntegerType())])
MEASURES = ("publications", "cpu_us", "deliveries", "bytes", "memory")
_indexes: dict[tuple[str, Engine], LiveIndex] = {}
_covers: dict[tuple[tuple[int, str], ...], Index] = {}


def routed_schema(events: T.StructType) -> T.StructType:
    """Give the columns between the two stages: the event's, behind what a row is and where it goes."""
    return T.StructType([*ROUTED, *_nullable(events), T.StructField(MEASURES[0], T.LongType())])


def matched_schema(events: T.StructType) -> T.StructType:
    """Give the columns of what a batch leaves: deliveries, and one sample for each lane."""
    matches = T.StructField("matches", T.ArrayType(T.StringType(), containsNull=False))
    return T.StructType([*ROUTED, *_nullable(events), matches, *(T.StructField(n, T.LongType()) for n in MEASURES)])


def _nullable(events: T.StructType) -> list[T.StructField]:
    return [T.StructField(field.name, field.dataType) for field in events]


@dataclass(frozen=True)
class Route:
    """For ``mapInArrow``: sends each publication to every lane whose covering set matches it, and nowhere else.

    Parameters
    ----------
    covers
        The covering subscriptions, each with its lane.
    attributes
        Those that any subscription names; a row in which one cannot be read goes nowhere.
    reader
        How rows become publications.
    columns
        The names of the publications' columns.
    """

    covers: tuple[tuple[int, str], ...]
    attributes: tuple[str, ...]
    reader: EventReader
    columns: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fan out."""
        index = self._index()
        lanes = np.array([lane for lane, _ in self.covers], dtype=np.int32)
        count = 0
        for batch in batches:
            named = batch.rename_columns(list(self.columns))
            good, events, _ = self.reader.read(named, self.attributes)
            count += batch.num_rows
            pairs = {
                (event, int(lanes[int(cover)]))
                for event, found in enumerate(index.match(events).lists().to_pylist())
                for cover in found
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
        How much of each log counts in this batch.
    reader, columns
        As for `Route`.
    engine
        Of the indexes; a lane lives for long, so by default the fastest, however small the index is.
    """

    logs: tuple[str, ...]
    versions: tuple[Mapping[str, int], ...]
    reader: EventReader
    columns: tuple[str, ...]
    engine: Engine = "auto"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run one lane."""
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
                self._match(index, mine.slice(0, 1))  # what is compiled or laid out once is no matching delay
            begun = time.process_time_ns()
            found = self._match(index, mine)
            total["cpu_us"] += (time.process_time_ns() - begun) // 1000
            total["publications"] += mine.num_rows
            for rows in found:
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
