from __future__ import annotations

import json

import pytest

import evenflow as package
from evenflow.errors import BadInput
from evenflow.experiments.slices.trial import OUTPUT, expected, follow, put, stream_of, written
from evenflow.spark.kit.keys import Keys
from evenflow.spark.kit.plane import Plane
from evenflow.spark.kit.routes import INSTALL, MOVE, SETTING, Entry
from evenflow.spark.kit.storage import checked_url
from evenflow.spark.slices.grow import grow

SLICES = 12


def test_no_key_changes_when_lanes_double():
    before, after = Keys(64, 3), Keys(64, 6, begun=3)
    for s in range(64):
        for lane in range(3):
            key = before.key(s, lane)
            assert after.key(s, before.lane_among(6, s, lane)) == key
            assert after.slice_of(key) == s


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint as Spark leaves it: three batches, a move under way, the state spread over four lanes."""
    plane = Plane(checked_url(str(tmp_path)), SLICES, 2, 2, ("device",), "hash", "refuse").settle()
    plane.log().append([Entry(MOVE, 1.0, 0, 5, 1, 0), Entry(SETTING, 1.0, name="pin", value=[4, 0])])
    put_batch(plane, 3, 2, partitions=4)
    return plane


def put_batch(plane, batch, offset, partitions):
    about = {"conf": {"spark.sql.shuffle.partitions": str(partitions)}}
    lines = ["v1", json.dumps(about), json.dumps({"logOffset": 1}), json.dumps({"evenflow": offset})]
    plane.place.under("..").write(f"offsets/{batch}", "\n".join(lines).encode())
    plane.place.under("..").write(f"commits/{batch}", b"v1\n{}")


def test_routes_sessions_and_pins_follow_their_keys(checkpoint):
    before = checkpoint.log().at(2)
    grown = grow(checkpoint.checkpoint, 4)
    assert grow(checkpoint.checkpoint, 4) == grown  # a second time changes nothing
    assert (grown.lanes, grown.begun, grown.used) == (4, 2, 2)
    after = grown.log().at(2)
    assert after.keys(grown.keys).tolist() == before.keys(checkpoint.keys).tolist()
    session = after.sessions[0]
    for old, new in ((before.sessions[0].giver, session.giver), (before.sessions[0].taker, session.taker)):
        assert grown.keys.key(5, new) == checkpoint.keys.key(5, old)
    assert grown.keys.key(4, after.pinned[4]) == checkpoint.keys.key(4, 0)
    homes = [grown.keys.key(s, grown.empty_routes().home(s)) for s in range(SLICES)]
    assert homes == [checkpoint.keys.key(s, s % 2) for s in range(SLICES)]
    same = Plane(grown.checkpoint, SLICES, 4, 2, ("device",), "hash", "refuse")
    assert same.settle() == grown


def test_what_cannot_grow_is_refused(checkpoint, evenflow):
    for lanes in (1, 3, 6, 8):
        with pytest.raises(BadInput, match="twice the 2"):
            grow(checkpoint.checkpoint, lanes)
    put_batch(checkpoint, 4, 2, partitions=2)
    with pytest.raises(BadInput, match="a state on 2 lanes"):
        grow(checkpoint.checkpoint, 4)
    checkpoint.log().append([Entry(INSTALL, 1.0, 0)])
    with pytest.raises(BadInput, match="orders that no batch has read"):
        grow(checkpoint.checkpoint, 4)
    checkpoint.place.under("..").delete("commits/4")
    ended = evenflow("grow", checkpoint.checkpoint, "--lanes", 4)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "a batch that is not done" in ended.err


def test_a_grown_query_goes_on_with_its_state(spark, tmp_path):
    def started(lanes, **trigger):
        divided = package.balance(stream_of(spark, tmp_path / "in"), by="device", slices=SLICES, lanes=lanes, used=2)
        writer = divided.process(follow, OUTPUT).writeStream.foreachBatch(write).trigger(**trigger)
        return writer.option("checkpointLocation", str(tmp_path / "check")).start()

    def write(frame, batch):  # Spark's file sink cannot read over the batch in which the state was spread
        frame.write.mode("overwrite").parquet(str(tmp_path / "out" / f"batch={batch}"))

    def moved(lanes, moves):
        query = started(lanes, processingTime="0 seconds")
        query.move(moves)
        query.processAllAvailable()
        query.stop()
        return query

    put(tmp_path / "in", 0)
    moved(2, {0: 1, 1: 0})
    started(2, availableNow=True).awaitTermination()  # no batch and no order is left over
    spark._streamingCheckpointManager.repartition(str(tmp_path / "check"), 4)  # as docs/spark-clusters.md says
    grow(str(tmp_path / "check"), 4)
    for number in (1, 2, 3):
        put(tmp_path / "in", number)
    query = moved(4, dict.fromkeys(range(4), 3))
    assert set(query.routes().lane[:4]) == {3}
    assert written(spark, tmp_path / "out") == expected(tmp_path / "in")
