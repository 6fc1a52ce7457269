from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from evenflow.bench.spark_skew import CASES, bench_spark_skew, shares, write_files
from evenflow.bench.spark_state import bench_spark_state, write_rows
from evenflow.bench.spark_state_variants import EVENFLOW, JVM, SCHEMA, VARIANTS, followed, writer_of
from evenflow.bench.spark_turns import SESSION

BENCH = {"variant", "baseline", "ratio", "case", "keys", "rows_per_cpu_s", "batch_s", "measure"}


@pytest.fixture(autouse=True)
def same_store(request):
    """Let every variant keep its state in the same store, as the benchmark's own session does."""
    if "spark" not in request.fixturenames:
        yield
        return
    conf = request.getfixturevalue("spark").conf
    wanted = {name: value for name, value in SESSION.items() if name.startswith("spark.sql.")}
    before = {name: conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        conf.set(name, value)
    yield
    for name, value in before.items():
        conf.unset(name) if value is None else conf.set(name, value)


@pytest.mark.long
def test_every_variant_computes_the_same(spark, tmp_path):
    write_rows(tmp_path / "in", rows=400, keys=20, files=2)
    known: dict[int, tuple[int, float, float]] = {}
    for file in sorted((tmp_path / "in").glob("*.parquet")):
        for row in pq.read_table(file).to_pylist():
            known[row["key"]] = followed([row["value"]], known.get(row["key"]))
    for number, name in enumerate(VARIANTS):
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
        found = {}

        def keep(batch, _, found=found):
            found |= {row["key"]: (row["n"], row["total"], row["mean"]) for row in batch.collect()}

        query = (
            writer_of(name, stream, lanes=2, slices=4)
            .foreachBatch(keep)
            .option("checkpointLocation", str(tmp_path / f"check-{number}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(300)
        assert query.exception() is None
        columns = 2 if name == JVM else 3  # the JVM's aggregate knows no weighted mean
        assert {k: pytest.approx(v[:columns]) for k, v in known.items()} == {k: v[:columns] for k, v in found.items()}


@pytest.mark.long
def test_the_state_bench_has_its_fields(spark):
    result = bench_spark_state([10], [EVENFLOW, JVM], rows=200, turns=1, batches=1, overhead=False, spark=spark)
    assert result["bench"] == "spark-state"
    assert [row["variant"] for row in result["rows"]] == [EVENFLOW, JVM]
    for row in result["rows"]:
        assert BENCH | {"state_bytes", "evenflow_over_this"} <= set(row)
        assert row["finished"]
        assert row["rows_per_cpu_s"] > 0
        assert row["ratio"] > 0


@pytest.mark.long
def test_the_skew_bench_has_its_fields(spark):
    result = bench_spark_skew(["waiting"], batches=1, rows=400, scale=0.02, spark=spark)
    ours, plain = result["rows"]
    assert (ours["variant"], plain["variant"], plain["ratio"]) == (EVENFLOW, "hash, 8 partitions", 1.0)
    for row in result["rows"]:
        assert BENCH | {"max_over_mean", "floor", "rows_held_batches", "moves"} <= set(row)
        assert row["max_over_mean"] >= row["floor"] * 0.999 or row is plain
    assert ours["floor_s"] > 0


def test_streams_are_as_skewed_as_said_and_drift(tmp_path):
    drift, steady, _ = CASES
    first, last = shares(drift, 0, 30), shares(drift, 29, 30)
    assert first.argmax() != last.argmax()
    assert first.sum() == pytest.approx(1.0)
    assert shares(steady, 0, 30).argmax() == shares(steady, 29, 30).argmax()
    files, hottest = write_files(tmp_path / "files", drift, batches=2, rows=5000)
    assert len(files) == 2
    assert hottest[0] == pytest.approx(first.max(), abs=0.03)


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        (["spark-state", "--variant", "evenflo"], "evenflow"),
        (["spark-skew", "--case", "drit"], "drift"),
    ],
)
def test_unknown_names_are_refused(evenflow, words, allowed):
    ended = evenflow("bench", *words)
    assert (ended.code, ended.out) == (2, "")
    assert allowed in ended.err
