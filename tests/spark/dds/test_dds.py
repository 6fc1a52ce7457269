"""A DDS topic as a stream of rows and back: exact rows, bounded backlog, errors in one sentence."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from dataclasses import dataclass

import pytest

pytest.importorskip("cyclonedds")

from cyclonedds.pub import DataWriter
from cyclonedds.topic import Topic

from evenflow.dds import publish, subscribe_batches
from evenflow.dds.domain import participant, quality
from evenflow.dds.wire.idl import item_type
from evenflow.dds.writers import Reading
from evenflow.errors import BadInput
from evenflow.experiments.dds.publishers import ITEMS, KEPT
from evenflow.experiments.dds.spark_drill import DdsDrill
from evenflow.spark.dds.options import read_options, write_options
from evenflow.spark.dds.source import register
from evenflow.spark.slices.writer import begun

PATIENCE_S = 240.0  # a busy machine starts Spark's processes slowly
DOMAIN = 90 + os.getpid() % 60
READING = "evenflow.dds.writers:Reading"


@pytest.fixture
def stream(spark, tmp_path):
    """Start a stream from DDS into memory or a given sink; whatever it starts is stopped."""
    register(spark)
    queries = []

    def begin(topic, type_=READING, sink=None, **options):
        reader = spark.readStream.format("dds").option("topic", topic).option("type", type_)
        for name, value in {"domain": DOMAIN, "journal": tmp_path / topic / "journal", **options}.items():
            reader = reader.option(name, str(value))
        writer = reader.load().writeStream.option("checkpointLocation", str(tmp_path / topic / "check"))
        writer = writer.format("memory").queryName(topic) if sink is None else sink(writer)
        query = begun(writer.start, 20)
        queries.append(query)
        end = time.time() + PATIENCE_S
        while query.isActive and query.status["message"] != "Waiting for data to arrive" and time.time() < end:
            time.sleep(0.1)  # publishers that write to nobody would keep the machine busy
        return query

    yield begin
    for query in queries:
        query.stop()


def publish_later(*arguments, **options):
    options = {"domain": DOMAIN, "patience_s": PATIENCE_S, **options}

    def run():
        with contextlib.suppress(TimeoutError):  # a query that ended reads nothing more
            publish(*arguments, **options)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def rows_of(spark, query, count, seconds=PATIENCE_S):
    end = time.time() + seconds
    found = []
    while len(found) < count and time.time() < end:
        if query.exception() is not None:
            raise query.exception()
        found = spark.table(query.name).collect()
        time.sleep(0.2)
    return found


def test_items_become_rows_filtered_and_with_slices(spark, stream, tmp_path):
    items = [Reading(i, i / 2) for i in range(3000)]
    query = stream(
        "filtered",
        filter="sensor >= %0 and temperature < 1400",
        parameters='["100"]',
        slices=7,
        assign="modulo:sensor",
        max_rows_per_batch=500,
    )
    entity = participant(DOMAIN)
    strange = DataWriter(entity, Topic(entity, "filtered", item_type(Reading), qos=quality()), qos=quality())
    for item in ((-1, 0, 0, 1.0), (7, 9, 0, 1.0), (7, 0, -1, 1.0), (7, 0, 0, float("nan"))):
        strange.write(item_type(Reading)(*item, 500, 1.0))  # dropped and counted; each of them once ended the query
    thread = publish_later("filtered", items, committed=True, publisher=5)
    rows = rows_of(spark, query, 2700)
    thread.join()  # it ends when every item is acknowledged, also those that the filter kept away
    want = [((5 << 40) | i, i % 7, i, i / 2) for i in range(100, 2800)]
    assert sorted(tuple(r) for r in rows) == want
    assert rows[0].asDict().keys() == {"item_id", "slice", "sensor", "temperature"}
    assert max(p["numInputRows"] for p in query.recentProgress) <= 500
    assert list(
        (tmp_path / "filtered" / "journal").glob("rows-*")
    )  # of the last batch, which Spark commits with the next


def test_rows_go_to_a_topic_and_each_batch_arrives_once(spark):
    @dataclass
    class Total:
        name: str
        total: int
        parts: list[float]

    register(spark)
    got = {}
    reading = subscribe_batches("totals", got.__setitem__, type=Total, domain=DOMAIN)
    frame = spark.createDataFrame(
        [(f"n{i}", i, [i / 2, 1.0]) for i in range(50)], "name string, total bigint, parts array<double>"
    )
    done = threading.Event()

    def read():
        while not done.is_set():
            reading.poll()

    thread = threading.Thread(target=read)
    thread.start()
    try:  # in this thread: in others Spark does not find the format
        writer = frame.repartition(2).write.format("dds").mode("append").option("topic", "totals")
        writer.option("domain", str(DOMAIN)).option("patience_s", str(PATIENCE_S)).save()
    finally:
        done.set()
        thread.join()
    reading.run(1.0)
    ((batch, rows),) = got.items()
    assert sorted((r["name"], r["total"], r["parts"], r["batch"]) for r in rows) == sorted(
        (f"n{i}", i, [i / 2, 1.0], batch) for i in range(50)
    )


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"type": "no.such.module:Type"}, "option type: given 'no.such.module:Type'"),
        ({"type": "evenflow.dds.writers:Readings"}, "'Reading'"),
        ({"type": "evenflow.dds.writers:readings"}, "no dataclass"),
        ({"filter": "temperature >"}, "column 14"),
        ({"filter": "temprature > 3"}, "'temprature'"),
        ({"filter": "sensor + 4"}, "a condition"),
        ({"assign": "modulo:sensr", "slices": "4"}, "'sensr'"),
        ({"durability": "for ever"}, "durability"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(tmp_path, options, match):
    from evenflow.spark.dds.source import DdsSource

    source = DdsSource({"topic": "t", "type": READING, "journal": str(tmp_path), **options})
    with pytest.raises(BadInput, match=match):
        source.streamReader(source.schema())


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "option topic"),
        ({"topic": "t", "type": READING}, "option journal"),
        ({"topic": "t", "type": READING, "journal": "j", "domian": "3"}, "'domain'"),
        ({"topic": "t", "type": READING, "journal": "j", "domain": "x"}, "whole number"),
        ({"topic": "t", "type": READING, "journal": "j", "slices": "3"}, "assign"),
        ({"topic": "t", "type": READING, "journal": "j", "parameters": "30"}, "JSON list"),
        ({"topic": "t", "type": READING, "journal": "j", "acknowledge": "perhaps"}, "true or false"),
    ],
)
def test_options_are_checked_by_name(options, match):
    with pytest.raises(BadInput, match=match):
        read_options(options)


def test_what_is_available_now_ends_although_the_topic_never_pauses(tmp_path, monkeypatch):
    from evenflow.spark.dds import source as dds_source

    class Endless:
        arrived_at = property(lambda self: time.monotonic())

        def end(self):
            return int(1000 * time.monotonic())

    monkeypatch.setattr(dds_source, "AVAILABLE_S", 0.3)
    source = dds_source.DdsSource({"topic": "t", "type": READING, "journal": str(tmp_path)})
    reader = source.streamReader(source.schema())
    monkeypatch.setattr(reader, "_started", Endless)
    began = time.monotonic()
    reader.prepareForTriggerAvailableNow()
    assert 0.3 <= time.monotonic() - began < 5
    last = reader.latestOffset({"rows": int(1000 * began)}, reader.getDefaultReadLimit())
    time.sleep(0.05)
    assert reader.latestOffset(last, reader.getDefaultReadLimit()) == last  # what comes later is for the next run


def test_the_sink_refuses_columns_that_its_type_has_not(spark):
    from evenflow.spark.dds.source import DdsSource

    schema = spark.createDataFrame([], "sensor bigint, temperature string").schema
    with pytest.raises(BadInput, match="'temperature' of type string"):
        DdsSource({"topic": "t", "type": READING}).writer(schema, overwrite=False)
    schema = spark.createDataFrame([], "batch bigint").schema
    with pytest.raises(BadInput, match="'batch'"):
        DdsSource({"topic": "t"}).writer(schema, overwrite=False)
    with pytest.raises(BadInput, match="patience_s"):
        write_options({"topic": "t", "patience_s": "soon"})


def test_an_incompatible_publisher_ends_the_query_with_one_sentence(spark, stream):
    query = stream("clash", "sensor bigint, temperature string")
    entity = participant(DOMAIN)
    writer = DataWriter(entity, Topic(entity, "clash", item_type(Reading), qos=quality()), qos=quality())
    end = time.time() + PATIENCE_S
    while query.isActive and time.time() < end:
        time.sleep(0.1)
    assert not query.isActive  # it does not hang
    assert re.search(
        r"topic 'clash': given a publisher of type .* whose field 'temperature' is", str(query.exception())
    )
    del writer


def exact(kills, rows):
    return {
        "kills": kills,
        **{topic: {"lost": 0, "duplicated": 0, "wrong": 0, "rows": rows} for topic in (ITEMS, KEPT)},
    }


@pytest.mark.long
def test_a_killed_driver_loses_and_repeats_nothing(tmp_path):
    assert DdsDrill(tmp_path, kills=1, items=600, domain=DOMAIN).run() == exact(1, 600)


@pytest.mark.long
def test_three_kills_lose_and_repeat_nothing(tmp_path):
    assert DdsDrill(tmp_path, kills=3, items=6000, domain=DOMAIN, seed=1).run() == exact(3, 6000)
