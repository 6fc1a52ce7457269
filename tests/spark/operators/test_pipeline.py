"""Operators live: whatever was moved, results are those of plain Spark SQL over the same readings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.csv as pa_csv
import pytest
from pyspark.errors import StreamingQueryException

from evenflow.errors import BadInput
from evenflow.experiments.operators.live import LiveSettings, figures
from evenflow.experiments.operators.live_trial import HOUR, kind_of, live
from evenflow.experiments.operators.plain_sql import plain
from evenflow.experiments.operators.readings import SCHEMA, Grid
from evenflow.operators.query import Queries
from evenflow.operators.settings import UnitSettings
from evenflow.operators.tree import Tree
from evenflow.spark.operators import batch_state as standings
from evenflow.spark.operators.batch_state import Readings, Standing
from evenflow.spark.operators.plane import Pipeline

TREE = Tree({"top": None, "left": "top", "right": "top"})


def small_queries() -> Queries:
    queries = Queries()
    sums = [queries.meters(leaf).aggregate("sum", 3 * HOUR, f"{leaf} sum") for leaf in ("left", "right")]
    sums[0].union(sums[1]).filter(">", 1000)
    every = queries.meters("left")
    every.aggregate("max", HOUR).join(every.aggregate("min", HOUR), HOUR)
    every.sort(HOUR, 3, "left highest")
    return queries


def pipeline_on(spark, place: Path, **more) -> Pipeline:
    queries = small_queries()
    options = UnitSettings(accept="upper")
    return Pipeline(spark, queries, TREE, queries.lowest(TREE), place, 30_000, "fixed", options, **more)


def write_hours(folder: Path, hours: int) -> None:
    grid = Grid(("left", "right"), meters=10, surges=(("left", HOUR, 3 * HOUR),))
    for hour in range(hours):
        grid.write(folder, hour, hour * HOUR, (hour + 1) * HOUR)


def wanted_of(spark, folder: Path) -> list[tuple[int, int, int, int]]:
    readings = spark.read.schema(SCHEMA).parquet(str(folder))
    return sorted((r["op"], r["ts"], r["key"], r["value"]) for r in plain(small_queries(), readings).collect())


def feed(spark, pipeline: Pipeline, folder: Path, hour: int) -> None:
    pipeline(spark.read.schema(SCHEMA).parquet(str(folder / f"{hour:05}.parquet")), hour)


def test_operators_move_with_their_windows_and_results_stay_equal(spark, tmp_path):
    pipeline = pipeline_on(spark, tmp_path / "run")
    write_hours(tmp_path / "in", 3)
    for hour in range(3):
        feed(spark, pipeline, tmp_path / "in", hour)
    moved, counted = list(pipeline.moved), pipeline.counted
    feed(spark, pipeline, tmp_path / "in", 2)  # as Spark does after a crash
    assert (pipeline.moved, pipeline.counted) == (moved, counted)
    pipeline.finish(spark.createDataFrame([], SCHEMA))
    wanted = wanted_of(spark, tmp_path / "in")
    assert pipeline.results() == wanted
    assert len(wanted) > 20
    carried = [m for m in moved if m.state_bytes > 0]
    assert carried, "nothing moved with a window open"
    for move in carried:
        ran = pipeline.partitions
        assert ran[move.batch][move.op] == pipeline.lane[move.giver]
        if move.batch + 1 in ran and not any(m.op == move.op and m.batch > move.batch for m in pipeline.moved):
            assert ran[move.batch + 1][move.op] == pipeline.lane[move.taker]


def start(stream, pipeline, check: Path):
    return stream.writeStream.foreachBatch(pipeline).option("checkpointLocation", str(check)).start()


def test_a_killed_driver_goes_on_with_its_windows(spark, tmp_path):
    write_hours(tmp_path / "in", 4)
    words = [sys.executable, str(Path(__file__).with_name("operators_child.py")), str(tmp_path)]
    with (tmp_path / "child.log").open("wb") as log:
        child = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
    end = time.monotonic() + 400
    while not (tmp_path / "in the middle").exists() and child.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    os.killpg(child.pid, signal.SIGKILL)  # with its JVM, as losing a machine would
    child.wait()
    assert (tmp_path / "in the middle").exists(), (tmp_path / "child.log").read_text()[-3000:]
    assert (tmp_path / "check" / "commits" / "0").exists()
    assert not (tmp_path / "check" / "commits" / "1").exists()
    pipeline = pipeline_on(spark, tmp_path / "run")
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    query = start(stream, pipeline, tmp_path / "check")
    query.processAllAvailable()
    query.stop()
    assert sorted(pipeline.partitions) == [1, 2, 3]  # and no batch was run again from the beginning
    pipeline.finish(spark.createDataFrame([], SCHEMA))
    wanted = wanted_of(spark, tmp_path / "in")
    assert pipeline.results() == wanted
    assert pipeline.counted.read == spark.read.parquet(str(tmp_path / "in")).count()
    assert pipeline.counted.late == 0

    with pytest.raises(BadInput, match="closed all its windows"):
        feed(spark, pipeline_on(spark, tmp_path / "run"), tmp_path / "in", 3)
    open_end = replace(standings.last(tmp_path / "run", pipeline._now.plan), batch=1, finished=False)
    standings.write(tmp_path / "other", open_end)
    other = start(stream, pipeline_on(spark, tmp_path / "other"), tmp_path / "another check")
    with pytest.raises(StreamingQueryException, match="given the checkpoint of another run"):
        other.processAllAvailable()


class Lost(Exception):
    """The driver ends here."""


def test_a_driver_lost_at_any_moment_between_two_batches(spark, tmp_path):
    """After the output was written, while units negotiate, and after all was written down but before Spark knows."""
    write_hours(tmp_path / "in", 3)
    records = []

    def fatal(record) -> None:
        records.append(record)
        if record["kind"] == kind:
            raise Lost

    for hour, kind in enumerate(("sample", "session", None)):
        pipeline = pipeline_on(spark, tmp_path / "run", trace=fatal)
        if kind is None:
            feed(spark, pipeline, tmp_path / "in", hour)
        else:
            with pytest.raises(Lost):
                feed(spark, pipeline, tmp_path / "in", hour)
        before = pipeline_on(spark, tmp_path / "run").counted
        after = pipeline if hour == 1 else pipeline_on(spark, tmp_path / "run")  # a query may begin again in one driver
        after.trace = None
        feed(spark, after, tmp_path / "in", hour)
        assert (after.counted == before) == (kind is None)
    assert any(record["kind"] == "session" for record in records)
    after.finish(spark.createDataFrame([], SCHEMA))
    assert after.results() == wanted_of(spark, tmp_path / "in")
    assert after.counted.read == spark.read.parquet(str(tmp_path / "in")).count()


def test_a_directory_and_a_checkpoint_that_are_no_pair_are_refused(spark, tmp_path):
    write_hours(tmp_path / "in", 3)
    with pytest.raises(BadInput, match="batch 2 where batch 0 is next"):
        feed(spark, pipeline_on(spark, tmp_path / "run"), tmp_path / "in", 2)
    for hour in range(3):
        standings.write(tmp_path / "run", Standing(hour, {}, "of other queries"))
    with pytest.raises(BadInput, match="other queries or another tree"):
        pipeline_on(spark, tmp_path / "run")
    (tmp_path / "old" / "batches").mkdir(parents=True)
    with pytest.raises(BadInput, match="batches without what stood between them"):
        pipeline_on(spark, tmp_path / "old")
    now = Standing(2, {}, "")
    for batch in (0, 3, 4):
        with pytest.raises(BadInput, match=f"batch {batch} where batch 2 is next"):
            standings.belongs(tmp_path, now, batch, None)
    for batch in (1, 2):
        standings.belongs(tmp_path, now, batch, "one")
    with pytest.raises(BadInput, match="another run"):
        standings.belongs(tmp_path, Standing(2, {}, "", query="one"), 2, "other")


def test_readings_without_a_place_are_counted_and_told(spark, tmp_path, caplog):
    records = []
    pipeline = pipeline_on(spark, tmp_path / "run", trace=records.append)
    rows = [
        (60, "left", 1, 5),
        (9_999_999, "nowhere", 1, 5),
        (70, None, 1, 5),
        (80, "right", None, 5),
        (90, "right", 2, 7),
    ]
    pipeline(spark.createDataFrame(rows, SCHEMA), 0)
    assert pipeline.counted == Readings(read=5, unknown=1, broken=2)
    told = {r["name"]: r["why"] for r in records if r["kind"] == "refusal"}
    assert set(told) == {"unknown readings", "broken readings"}
    assert told["unknown readings"].startswith("1 readings of leaves that the tree does not have")
    assert "nowhere" in told["unknown readings"]
    assert all(why in caplog.text for why in told.values())
    pipeline(spark.createDataFrame(rows[:1], SCHEMA), 1)
    assert pipeline.counted == Readings(read=6, unknown=1, broken=2)  # a foreign clock has closed no window here


def test_readings_of_ones_own(tmp_path):
    for hour in range(2):
        table = Grid(("left",), meters=3).readings(hour * HOUR, (hour + 1) * HOUR)
        pa_csv.write_csv(table, tmp_path / f"{hour}.csv")
    assert kind_of(tmp_path) == "csv"
    (tmp_path / "x.parquet").touch()
    with pytest.raises(BadInput):
        kind_of(tmp_path)
    with pytest.raises(BadInput):
        kind_of(tmp_path / "nowhere")


@pytest.mark.long
def test_the_live_trial(spark):
    row = live(400.0, 1, spark=spark)
    assert row["equal"]
    assert row["rows"] == row["plain_rows"] > 100
    assert row["transfers"] >= 10
    assert row["open_window_transfers"] >= 3
    assert row["lane_changes"] >= 10
    assert row["wrong_lanes"] == 0
    assert row["relieved_units"] >= 1
    shown = figures([{"seed": 1, "series": row["curves"]}], LiveSettings())
    assert [part.title for part in shown] == ["Memory of the units", "Transfers"]
