"""Operators live: whatever was moved, results are those of plain Spark SQL over the same readings."""

from __future__ import annotations

import pyarrow.csv as pa_csv
import pytest

from evenflow.errors import BadInput
from evenflow.experiments.ami_live import LiveSettings, figures
from evenflow.operators.query import Queries
from evenflow.operators.settings import UnitSettings
from evenflow.operators.tree import Tree
from evenflow.spark.operators import Pipeline
from evenflow.spark.operators_live import HOUR, kind_of, live
from evenflow.spark.operators_plain import plain
from evenflow.spark.operators_readings import SCHEMA, Grid

TREE = Tree({"top": None, "left": "top", "right": "top"})


def small_queries() -> Queries:
    queries = Queries()
    sums = [queries.meters(leaf).aggregate("sum", 3 * HOUR, f"{leaf} sum") for leaf in ("left", "right")]
    sums[0].union(sums[1]).filter(">", 1000)
    every = queries.meters("left")
    every.aggregate("max", HOUR).join(every.aggregate("min", HOUR), HOUR)
    every.sort(HOUR, 3, "left highest")
    return queries


def test_operators_move_with_their_windows_and_results_stay_equal(spark, tmp_path):
    grid = Grid(("left", "right"), meters=10, surges=(("left", HOUR, 3 * HOUR),))
    queries = small_queries()
    pipeline = Pipeline(
        spark, queries, TREE, queries.lowest(TREE), tmp_path / "run", 30_000, "fixed", UnitSettings(accept="upper")
    )
    for hour in range(3):
        grid.write(tmp_path / "in", hour, hour * HOUR, (hour + 1) * HOUR)
        pipeline(spark.read.schema(SCHEMA).parquet(str(tmp_path / "in" / f"{hour:05}.parquet")), hour)
    moved, read = list(pipeline.moved), pipeline.readings
    pipeline(
        spark.read.schema(SCHEMA).parquet(str(tmp_path / "in" / "00002.parquet")), 2
    )  # as Spark does after a crash
    assert (pipeline.moved, pipeline.readings) == (moved, read)
    pipeline.finish(spark.createDataFrame([], SCHEMA))
    readings = spark.read.schema(SCHEMA).parquet(str(tmp_path / "in"))
    wanted = sorted((r["op"], r["ts"], r["key"], r["value"]) for r in plain(queries, readings).collect())
    assert pipeline.results() == wanted
    assert len(wanted) > 20
    carried = [m for m in moved if m.state_bytes > 0]
    assert carried, "nothing moved with a window open"
    for move in carried:
        ran = pipeline.partitions
        assert ran[move.batch][move.op] == pipeline.lane[move.giver]
        if move.batch + 1 in ran and not any(m.op == move.op and m.batch > move.batch for m in pipeline.moved):
            assert ran[move.batch + 1][move.op] == pipeline.lane[move.taker]


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
