"""The same job through Spark's own door and through ours, with moves and restarts in ours: the same rows come out."""

from __future__ import annotations

import datetime as dt
import random

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

import evenflow
from evenflow.spark.stateful.script import OUTPUT, SCHEMA, STATE_CALLS, TIMER_CALLS, Script

SLICES, LANES = 6, 2
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture
def rocksdb(spark):
    names = ("spark.sql.streaming.stateStore.providerClass", "spark.sql.shuffle.partitions")
    before = {name: spark.conf.get(name, None) for name in names}
    for name, value in zip(names, (ROCKSDB, "2"), strict=True):
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def content(seed, number, ops, late):
    chance = random.Random(1000 * seed + number)
    return [
        {
            "k": chance.choice(["a", "bb", "ccc", "d", "e", "f", "g", None]),
            "at": dt.datetime.fromtimestamp(10 * number + chance.choice((0, 3, 9, -late)), dt.UTC),
            "op": chance.choice(ops),
            "a": chance.randrange(-2, 300) * (1000 if late else 1),
            "b": chance.randrange(3),
        }
        for _ in range(20)
    ]


def write(place, number, rows):
    schema = pa.schema(
        [
            ("k", pa.string()),
            ("at", pa.timestamp("us", "UTC")),
            ("op", pa.string()),
            ("a", pa.int64()),
            ("b", pa.int64()),
        ]
    )
    hidden = place / f".{number}"
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), hidden)
    hidden.rename(place / f"{number:04}.parquet")


def run(spark, place, job, batches, *, ours):
    """Feed batches one at a time, restarting in the middle; ours also moves slices all the time."""
    here = place / ("ours" if ours else "theirs")
    (here / "in").mkdir(parents=True)
    query = None
    for number, rows in enumerate(batches):
        if number == len(batches) // 2 and query is not None:
            query.stop()
            query = None
        if query is None:
            stream = spark.readStream.schema(SCHEMA).parquet(str(here / "in")).withWatermark("at", "5 seconds")
            made = job(evenflow.balance(stream, by="k", slices=SLICES, lanes=LANES) if ours else stream.groupBy("k"))
            writer = made.writeStream.format("parquet").option("checkpointLocation", str(here / "check"))
            query = writer.start(str(here / "out"))
        if ours:
            lanes = query.routes().lane
            query.move({s: 1 - lanes[s] for s in range(number % 2, SLICES, 2)})
        write(here / "in", number, rows)
        query.processAllAvailable()
    if ours:
        assert query.routes().next_session >= len(batches)
    query.stop()
    return sorted(map(str, spark.read.parquet(str(here / "out")).collect()))


def test_scripts_without_time(rocksdb, tmp_path):
    batches = [content(1, number, STATE_CALLS, 0) for number in range(4)]
    job = lambda keyed: keyed.transformWithState(Script(), OUTPUT, "append", "None")
    theirs, ours = (run(rocksdb, tmp_path, job, batches, ours=ours) for ours in (False, True))
    assert len(ours) > 80
    assert ours == theirs


def test_scripts_by_event_time_with_late_rows_and_timers(rocksdb, tmp_path):
    batches = [content(2, number, STATE_CALLS + TIMER_CALLS, 30) for number in range(6)]
    job = lambda keyed: keyed.transformWithState(Script("event"), OUTPUT, "append", "EventTime")
    theirs, ours = (run(rocksdb, tmp_path, job, batches, ours=ours) for ours in (False, True))
    assert any("expired" in row for row in ours)
    assert ours == theirs
