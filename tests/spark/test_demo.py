from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from evenflow.experiments.slices.demo import Runs
from evenflow.experiments.slices.demo_stream import Score, Stream, points_for

LANES, BATCHES, ROWS = 2, 6, 800


@pytest.fixture(scope="module")
def runs(spark, tmp_path_factory):
    found = Runs(spark, tmp_path_factory.mktemp("demo"), Stream(LANES, BATCHES, ROWS), Score(2000))
    return found, found.run("unbalanced", balanced=False), found.run("balanced", balanced=True)


def test_only_the_balanced_run_moves_slices_and_both_give_the_same(runs):
    both, unbalanced, balanced = runs
    assert unbalanced.moves == 0
    assert balanced.moves > 0, balanced.events
    assert any("least_moves" in event for event in balanced.events)
    same, rows = both.same("unbalanced", "balanced")
    assert same
    assert rows > 0


def test_the_summary_counts_what_ran(runs):
    for arm in runs[1:]:
        summary = arm.summary()
        assert summary["batches"] == BATCHES
        assert sum(batch.rows for batch in arm.batches.values()) == BATCHES * ROWS
        assert 1 <= summary["max_over_mean"] <= LANES
        assert summary["batch_s"] > 0


def test_a_missing_row_is_a_difference(runs):
    both = runs[0]
    path = max((both.place / "balanced" / "out").glob("*.parquet"), key=lambda file: pq.read_metadata(file).num_rows)
    kept = path.read_bytes()
    pq.write_table(pq.read_table(path).slice(1), path)
    checksum = path.with_name(f".{path.name}.crc")
    checksum.unlink(missing_ok=True)
    same, _ = both.same("unbalanced", "balanced")
    path.write_bytes(kept)
    assert not same


def test_the_stream_is_hot_on_one_lane_and_then_on_another():
    stream = Stream(4, 10, 5000, seed=3)
    assert stream.table(2).equals(stream.table(2))
    shares = [_lane_shares(stream, batch) for batch in (0, 9)]
    hot = [max(range(4), key=lane.__getitem__) for lane in shares]
    assert hot == [stream.hot_lane(0), stream.hot_lane(9)]
    assert hot[0] != hot[1]
    assert all(max(lane) > 0.6 for lane in shares)


def _lane_shares(stream, batch):
    from evenflow.spark.slices.assign import Assign

    slices = Assign(("sensor",), stream.slices).of(stream.table(batch))
    return [float((slices % stream.lanes == lane).mean()) for lane in range(stream.lanes)]


def test_more_cpu_means_more_points():
    assert points_for(10.0, 1000) > points_for(0.1, 1000)
