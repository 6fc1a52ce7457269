"""The same job through Spark's own door and through ours, with moves and restarts in ours: the same rows come out."""

# ruff: noqa: N802, N803 - Spark calls its processors by these names

from __future__ import annotations

import datetime as dt
import random
import time

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

import evenflow
from evenflow.spark.slices.stateful.script import OUTPUT, SCHEMA, STATE_CALLS, TIMER_CALLS, Script
from evenflow.spark.slices.writer import NOT_UP

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


def processed(query, start, attempts=5):
    """Wait for what there is to process; Spark waits ten seconds for a Python process, too little on a busy machine."""
    for attempt in range(attempts):
        try:
            query.processAllAvailable()
        except Exception as error:
            if NOT_UP not in str(error) or attempt == attempts - 1:
                raise
            query = start()
        else:
            break
    return query


def run(spark, place, job, batches, *, ours):
    """Feed batches one at a time, restarting in the middle; ours also moves slices all the time."""
    here = place / ("ours" if ours else "theirs")
    (here / "in").mkdir(parents=True)

    def start():
        stream = spark.readStream.schema(SCHEMA).parquet(str(here / "in")).withWatermark("at", "5 seconds")
        made = job(evenflow.balance(stream, by="k", slices=SLICES, lanes=LANES) if ours else stream.groupBy("k"))
        writer = made.writeStream.format("parquet").option("checkpointLocation", str(here / "check"))
        return writer.start(str(here / "out"))

    query = start()
    for number, rows in enumerate(batches):
        if number == len(batches) // 2:
            query.stop()
            query = start()
        if ours:
            lanes = query.routes().lane
            query.move({s: 1 - lanes[s] for s in range(number % 2, SLICES, 2)})
        write(here / "in", number, rows)
        query = processed(query, start)
    if ours:
        assert query.routes().next_session >= len(batches)
    query.stop()
    return sorted(map(str, spark.read.parquet(str(here / "out")).collect()))


def test_scripts_without_time(rocksdb, tmp_path):
    batches = [content(1, number, STATE_CALLS, 0) for number in range(4)]

    def job(keyed):
        return keyed.transformWithState(Script(), OUTPUT, "append", "None")

    theirs, ours = (run(rocksdb, tmp_path, job, batches, ours=ours) for ours in (False, True))
    assert len(ours) > 80
    assert ours == theirs


def test_scripts_by_event_time_with_late_rows_and_timers(rocksdb, tmp_path):
    batches = [content(2, number, STATE_CALLS + TIMER_CALLS, 30) for number in range(6)]

    def job(keyed):
        return keyed.transformWithState(Script("event"), OUTPUT, "append", "EventTime")

    theirs, ours = (run(rocksdb, tmp_path, job, batches, ours=ours) for ours in (False, True))
    assert any("expired" in row for row in ours)
    assert ours == theirs


class Frames(StatefulProcessor):
    """Counts rows in frames, and says so when the key was silent."""

    def init(self, handle):
        self.handle = handle
        self.n = handle.getValueState("slice", "n long, at long")  # a name that the plane uses itself

    def handleInputRows(self, key, rows, timerValues):
        n, old = self.n.get() or (0, 0)
        for frame in rows:
            assert list(frame.index) == list(range(len(frame)))
            n += len(frame)
            at = int(frame["at"].max().timestamp() * 1000) + 15000
            said = f"{n} {frame['b'].sum()} {frame['a'].dtype} {type(key[0]).__name__}"
            yield pd.DataFrame({"said": [said], "k": [key[0]]})
        if old:
            self.handle.deleteTimer(old)
        self.handle.registerTimer(at)
        self.n.update((n, at))

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        at = expiredTimerInfo.getExpiryTimeInMs()
        yield pd.DataFrame(
            {"k": [key[0]], "said": [f"silent {at} {timerValues.getCurrentWatermarkInMs()} {self.n.get()}"]}
        )
        self.n.clear()

    def handleInitialState(self, key, initialState, timerValues):
        self.n.update((int(initialState["n"].sum()), 12000))
        self.handle.registerTimer(12000)

    def close(self):
        pass


def test_frames_by_event_time_with_initial_states(rocksdb, tmp_path):
    batches = [content(3, number, STATE_CALLS, 30) for number in range(4)]
    initial = rocksdb.createDataFrame([("a", 100), ("zz", 7)], "k string, n int")

    def job(keyed):
        return keyed.transformWithStateInPandas(Frames(), OUTPUT, "append", "EventTime", initial.groupBy("k"))

    theirs, ours = (run(rocksdb, tmp_path, job, batches, ours=ours) for ours in (False, True))
    assert any("zz" in row and "silent" in row for row in ours)
    assert ours == theirs


def grouped(key, frames, state):
    if state.hasTimedOut:
        said = f"silent {state.get} {len(next(iter(frames)).columns)} {state.getCurrentWatermarkMs()}"
        state.remove()
    else:
        frames = list(frames)
        n, names = state.getOption or (0, "")
        n += sum(len(frame) for frame in frames)
        state.update((n, f"{names}, {frames[0]['b'].sum()}"))
        state.setTimeoutTimestamp(max(state.getCurrentWatermarkMs() + 1, 1000 * n))
        said = f"{n} {names} {frames[0]['b'].dtype} {type(key[0]).__name__}"
    yield pd.DataFrame({"k": [key[0]], "said": [said]})


def test_groups_with_states_and_timeouts(rocksdb, tmp_path):
    batches = [content(4, number, STATE_CALLS, 30) for number in range(4)]
    state = "n long, names string"

    def job(keyed):
        return keyed.applyInPandasWithState(grouped, OUTPUT, state, "append", "EventTimeTimeout")

    theirs, ours = (run(rocksdb, tmp_path, job, batches, ours=ours) for ours in (False, True))
    assert any("silent" in row for row in ours)
    assert ours == theirs


class Alarm(StatefulProcessor):
    """Sets one timer per row, a moment away, and a value that does not last."""

    def init(self, handle):
        self.handle = handle
        self.short = handle.getValueState("short", "n long", 1)
        self.long = handle.getValueState("long", "n long", 3_600_000)

    def handleInputRows(self, key, rows, timerValues):
        said = f"{self.short.get()} {self.long.get()}"
        for row in rows:
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1 + row.a)
        self.short.update((1,))
        self.long.update(((self.long.get() or (0,))[0] + 1,))
        yield Row(k=key[0], said=said)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        yield Row(k=key[0], said=f"expired {self.short.get()} {self.long.exists()}")

    def close(self):
        pass


def test_alarms_by_processing_time(rocksdb, tmp_path):
    here = tmp_path / "in"
    here.mkdir()
    stream = rocksdb.readStream.schema(SCHEMA).parquet(str(here))
    made = evenflow.balance(stream, by="k", slices=SLICES, lanes=LANES)

    def start():
        writer = made.transformWithState(Alarm(), OUTPUT, "append", "ProcessingTime").writeStream.format("parquet")
        return writer.option("checkpointLocation", str(tmp_path / "check")).start(str(tmp_path / "out"))

    query = start()
    rows = content(5, 0, ["-"], 0)[:9]
    for number, expired in enumerate((9, 18)):
        write(here, number, [{**row, "k": "abc"[at % 3], "a": at} for at, row in enumerate(rows)])
        query.move(dict.fromkeys(range(SLICES), number))
        query, found = wait_for(query, start, rocksdb, tmp_path / "out", expired)
    query.stop()
    assert [sum(row == Row(k=k, said="expired None True") for row in found) for k in "abc"] == [6, 6, 6]
    assert [sum(row == Row(k=k, said="None (1,)") for row in found) for k in "abc"] == [1, 1, 1]


def wait_for(query, start, spark, out, expired, most_s=300):
    """Return the output when so many timers have expired: by processing time a query always has one more batch to run."""
    end = time.monotonic() + most_s
    found = []
    while time.monotonic() < end:
        if query.exception() is not None:
            assert NOT_UP in str(query.exception())
            query = start()
        found = spark.read.schema(OUTPUT).parquet(str(out)).collect() if (out / "_spark_metadata").exists() else []
        if sum("expired" in row.said for row in found) >= expired:
            return query, found
        time.sleep(0.5)
    raise AssertionError(f"{len(found)} rows: {found}")
