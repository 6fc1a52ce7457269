from __future__ import annotations

import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenflow
from evenflow.errors import BadInput
from evenflow.experiments.slices.trial import OUTPUT, SCHEMA, expected, follow, put, stream_of, written
from evenflow.slices import handoff
from evenflow.slices.handoff import Event, State
from evenflow.spark.kit.controller import Balancing
from evenflow.spark.kit.query import BalancedQuery
from evenflow.spark.kit.storage import checked_url
from evenflow.spark.testing import PlaneTester

SLICES, LANES = 10, 2


@pytest.fixture
def place(tmp_path):
    for number in range(2):
        put(tmp_path / "in", number)
    return tmp_path


def started(spark, place, update=follow, output=OUTPUT, **options):
    processed = evenflow.balance(stream_of(spark, place / "in"), by="device", slices=SLICES, lanes=LANES, **options)
    writer = processed.process(update, output).writeStream.format("parquet")
    return writer.option("checkpointLocation", str(place / "check")).start(str(place / "out"))


def test_moves_and_restarts_change_nothing_of_the_output(spark, place):
    numbers = iter(range(2, 100))
    for _ in range(2):
        query = started(spark, place)
        for _ in range(2):
            lanes = query.routes().lane
            query.move({s: 1 - lanes[s] for s in range(0, SLICES, 2)})
            for _ in range(3):  # the release, the install and the receipt each meet rows
                put(place / "in", next(numbers))
            query.processAllAvailable()
        query.stop()
    routes = query.routes()
    assert (routes.next_session, routes.sessions) == (20, {})
    assert written(spark, place / "out") == expected(place / "in")


def test_a_table_without_a_row_of_the_hand_off_fails_the_query(spark, place, monkeypatch):
    monkeypatch.delitem(handoff.TABLE, (State.AWAITING, Event.ARRIVED))
    query = started(spark, place)
    query.move({s: (s + 1) % LANES for s in range(SLICES)})
    with pytest.raises(Exception, match="a slice that is awaiting cannot be arrived"):
        query.processAllAvailable()


def test_an_unreadable_log_stops_the_query(spark, place):
    log = place / "check" / "evenflow" / "log"
    log.mkdir(parents=True)
    (log / "000000000000").write_text("{")
    query = started(spark, place)
    with pytest.raises(Exception, match="the query stops before it can do harm"):
        query.processAllAvailable()


def test_an_error_of_the_function_names_slice_and_rows(spark, place):
    def fail(rows, state):
        raise ValueError("negative mass")

    query = started(spark, place, fail)
    with pytest.raises(Exception, match=r"slice \d+, \d+ rows: the process function raised ValueError: negative mass"):
        query.processAllAvailable()


def test_a_changed_schema_lanes_or_output_is_refused(spark, place):
    def settle(schema=SCHEMA, output=OUTPUT, **options):
        stream = spark.readStream.schema(schema).parquet(str(place / "in"))
        divided = evenflow.balance(stream, by="device", **{"slices": SLICES, "lanes": LANES, **options})
        divided.process(follow, output).plane(checked_url(str(place / "check"))).settle()

    settle()
    settle()
    (place / "check" / "offsets").mkdir()
    (place / "check" / "offsets" / "0").write_text("v1")  # Spark has planned a batch
    for change in (
        {"schema": SCHEMA + ", extra int"},
        {"output": OUTPUT.replace("n long", "n int")},
        {"lanes": 3},
        {"assign": "modulo"},
    ):
        with pytest.raises(BadInput, match="with which this checkpoint began"):
            settle(**change)


def test_a_null_key_that_ended_the_query_can_be_dropped_on_the_same_checkpoint(spark, place):
    def divided(nulls):
        stream = stream_of(spark, place / "in").selectExpr("id", "nullif(device, 7) device", "value")
        return evenflow.balance(stream, by="device", slices=SLICES, lanes=LANES, nulls=nulls)

    def start(processed):
        writer = processed.writeStream.format("parquet").option("checkpointLocation", str(place / "check"))
        return writer.start(str(place / "out"))

    with pytest.raises(Exception, match="null"):
        start(divided("refuse").process(follow, OUTPUT)).processAllAvailable()
    with pytest.raises(BadInput, match="kind = 'process_each'"):
        start(divided("drop").process_each(lambda key, rows, state: (None, None), OUTPUT))
    query = start(divided("drop").process(follow, OUTPUT))
    query.processAllAvailable()
    query.stop()
    assert written(spark, place / "out") == [row for row in expected(place / "in") if row["device"] != 7]


def test_foreach_batch_several_keys_and_available_now(spark, place):
    out = str(place / "out")

    def keep(batch, number):
        batch.write.mode("overwrite").parquet(f"{out}/batch={number}")  # a batch that runs again replaces itself

    query = (
        evenflow.balance(stream_of(spark, place / "in"), by=["device", "value"], slices=SLICES, lanes=LANES)
        .process(lambda rows, state: (rows.select(["id"]), state), "id long")
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(place / "check"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert query.exception() is None
    assert sorted(row["id"] for row in spark.read.parquet(out).collect()) == list(range(200))


def test_the_slice_may_be_an_expression(spark, place):
    def slices_seen(rows, state):
        devices = {d % SLICES for d in rows["device"].to_pylist()}
        return pa.table({"slices": [len(devices)], "columns": [",".join(rows.column_names)]}), state

    query = (
        evenflow.balance(stream_of(spark, place / "in"), slices=SLICES, lanes=LANES, assign=f"device % {SLICES}")
        .process(slices_seen, "slices int, columns string")
        .transform(lambda frame: frame.where("slices > 0"))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(place / "check"))
        .start(str(place / "out"))
    )
    query.processAllAvailable()
    query.stop()
    rows = spark.read.parquet(str(place / "out")).collect()
    assert {(r["slices"], r["columns"]) for r in rows} == {(1, "id,device,value")}
    assert len(rows) >= SLICES


def test_what_cannot_be_is_refused_with_a_sentence(spark, place):
    stream = stream_of(spark, place / "in")
    with pytest.raises(BadInput, match=r"by='devise'.*'device'"):
        evenflow.balance(stream, by="devise")
    for by in ("day", ["device", "day"]):
        with pytest.raises(BadInput, match=r"balance, by .*day: .*date32"):
            evenflow.balance(stream.selectExpr("device", "current_date() day"), by=by)
    with pytest.raises(BadInput, match=r"balance, by name: .*string"):
        evenflow.balance(stream.selectExpr("'a' name"), by="name", assign="modulo")
    with pytest.raises(BadInput, match="a streaming one"):
        evenflow.balance(spark.range(3), by="id")
    with pytest.raises(BadInput, match="no key columns"):
        evenflow.balance(stream)
    with pytest.raises(BadInput, match="1 to 8 lanes"):
        evenflow.balance(stream, by="device", used=9)
    processed = evenflow.balance(stream, by="device").process(follow, OUTPUT)
    with pytest.raises(BadInput, match="no checkpoint"):
        processed.writeStream.format("parquet").start(str(place / "out"))
    with pytest.raises(BadInput, match="'append' or 'update'"):
        processed.writeStream.outputMode("complete")


def test_per_key_functions_and_dead_letters(spark, place):
    def count(device, rows, state):
        if 13 in rows["id"].to_pylist():
            raise ValueError("unlucky")
        state = (state or 0) + rows.num_rows
        return {"device": device, "n": state}, state

    divided = evenflow.balance(stream_of(spark, place / "in"), by="device", slices=SLICES, lanes=LANES)
    query = (
        divided.process_each(count, "device long, n long", dead_letters=str(place / "dead"))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(place / "check"))
        .start(str(place / "out"))
    )
    query.processAllAvailable()
    query.stop()
    rows = spark.read.parquet(str(place / "out")).groupBy("device").max("n").collect()
    got = {r["device"]: r["max(n)"] for r in rows}
    items = expected(place / "in")
    unlucky = items[13]["device"]
    want = {device: sum(i["device"] == device for i in items) - (device == unlucky) for device in got}
    assert got == want
    assert sum(got.values()) == 199
    (letter,) = spark.read.parquet(str(place / "dead")).collect()
    assert (letter["id"], letter["_error"]) == (13, "ValueError: unlucky")


def test_correlated_rows_do_not_depend_on_places_and_moves(spark, place):
    def beside(rows, state, others):
        state = ((state or 0) * 31 + sum((n + 1) * i for n, i in enumerate(others["id"].to_pylist()))) % 1_000_003
        seen = [[rows.num_rows, others.num_rows, state]] * rows.num_rows
        return pa.table({"id": rows["id"], "seen": pa.array(seen, pa.list_(pa.int64()))}), state

    query = (
        evenflow.balance(
            stream_of(spark, place / "in"), by="device", slices=SLICES, lanes=LANES,
            balancing=Balancing(policy="", hold=1),  # rows that wait keep what was beside them
        )
        .process(beside, "id long, seen array<long>", correlate=True)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(place / "check"))
        .start(str(place / "out"))
    )  # fmt: skip
    query.processAllAvailable()
    query.move(dict.fromkeys(range(0, SLICES, 2), 1))
    for number in range(2, 6):
        put(place / "in", number)
        query.processAllAvailable()
    held = sum(s["held_rows"] for s in query.samples().collect())
    query.stop()
    assert held > 0
    assert set(query.routes().lane) == {1}
    alone = PlaneTester(beside, "device", slices=SLICES, lanes=1, correlate=True)
    files = sorted((place / "in").glob("*.parquet"))
    want = [row for file in files for row in alone.send(pq.read_table(file)).to_pylist()]
    assert {sum(row["seen"][:2]) for row in want} == {100}
    rows = spark.read.parquet(str(place / "out")).toArrow().sort_by("id").to_pylist()
    assert rows == sorted(want, key=lambda row: row["id"])


def test_a_shipped_state_that_was_changed_stops_the_query_and_put_right_it_goes_on(spark, place):
    def trip(rows, state):  # in the second batch, which installs what the first one shipped
        if max(rows["id"].to_pylist()) >= 100:
            raise ValueError("tripped")
        return follow(rows, state)

    divided = evenflow.balance(stream_of(spark, place / "in"), by="device", slices=SLICES, lanes=LANES)
    plane = divided.process(follow, OUTPUT).plane(checked_url(str(place / "check")))
    BalancedQuery(None, plane, spark, driver=1).move({3: 0})
    with pytest.raises(Exception, match="tripped"):
        started(spark, place, trip).processAllAvailable()
    shipped = place / "check" / "evenflow" / "ship" / f"{0:012}"
    content = shipped.read_bytes()
    shipped.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(Exception, match=f"/ship/{0:012} holds a state with another checksum") as refusal:
        started(spark, place).processAllAvailable()
    assert "process function" not in str(refusal.value)
    shipped.write_bytes(content)
    query = started(spark, place)
    query.processAllAvailable()
    query.stop()
    assert query.routes().lane[3] == 0
    assert written(spark, place / "out") == expected(place / "in")


def test_rows_without_state_follow_the_routes_too(spark, place):
    def where(rows):
        from pyspark import TaskContext

        return pa.table({"id": rows["id"], "lane": [TaskContext.get().partitionId()] * rows.num_rows})

    query = (
        evenflow.balance(stream_of(spark, place / "in"), by="device", slices=SLICES, lanes=LANES)
        .map(where, "id long, lane int")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(place / "check"))
        .start(str(place / "out"))
    )
    query.processAllAvailable()
    query.drain(1)
    while 1 in query.routes().lane or query.routes().sessions:  # a request is carried out between two batches
        time.sleep(0.05)
    put(place / "in", 2)
    query.processAllAvailable()
    nodes = {n["lane"]: (n["in_use"], n["slices"]) for n in query.nodes().collect()}
    query.stop()
    rows = spark.read.parquet(str(place / "out")).collect()
    assert sorted(r["id"] for r in rows) == list(range(300))
    assert {r["lane"] for r in rows if r["id"] < 200} == {0, 1}
    assert {r["lane"] for r in rows if r["id"] >= 200} == {0}
    assert nodes == {0: (True, SLICES), 1: (False, 0)}
    with pytest.raises(BadInput, match="leaves no lane in use"):
        query.drain(0)
    assert query.add(1) == [1]
    with pytest.raises(BadInput, match="lane: given 7, allowed is 0 to 1"):
        query.pin(slice=1, lane=7)
