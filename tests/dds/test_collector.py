"""Samples on disk before anybody hears of them: restarts, repeats, a full backlog, and publishers that do not fit."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import dataclass

import pyarrow as pa
import pytest
from cyclonedds.pub import DataWriter
from cyclonedds.topic import Topic

from evenflow.dds import publish
from evenflow.dds.collector import Collector, Wanted
from evenflow.dds.domain import participant, quality
from evenflow.dds.remembered import ID
from evenflow.dds.segments import Segments, read_piece
from evenflow.dds.wire.columns import struct_of
from evenflow.dds.wire.idl import item_type
from evenflow.errors import BadInput

DOMAIN = 150 + os.getpid() % 40
NUMBER = struct_of(pa.schema([("number", pa.int64()), ("name", pa.string())]), "Number")
KEPT = {"durability": "transient_local"}


@dataclass
class Reading:
    sensor: int
    temperature: float


@pytest.fixture
def collect(tmp_path):
    """Start collectors; whatever is started is stopped."""
    started = []

    def begin(topic, kind=NUMBER, **options):
        collector = Collector(Wanted(topic, kind, DOMAIN, tmp_path / topic, **options))
        started.append(collector)
        collector.start()
        return collector

    yield begin
    for collector in started:
        collector.stop()


def writer_of(topic, policies=None):
    entity = participant(DOMAIN)
    return DataWriter(entity, Topic(entity, topic, NUMBER, qos=quality(policies)), qos=quality(policies))


def until(holds, seconds=60.0):
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    assert holds()


def rows_of(collector, start=0):
    return [row for piece in collector.pieces(start, collector.end()) for row in read_piece(piece).to_pylist()]


def test_a_history_that_is_sent_again_adds_nothing(collect):
    """The publisher keeps everything; three readers in turn on one journal see every sample once."""
    writer = writer_of("history", KEPT)
    total = 0
    for turn in range(3):
        for _ in range(40):
            writer.write(NUMBER(total, f"n{total}"))
            total += 1
        collector = collect("history", policies=KEPT)
        until(lambda want=total, found=collector: found.end() >= want)
        until(lambda want=turn * 40, found=collector: found.repeated >= want)
        assert [row["number"] for row in rows_of(collector, collector.segments.first)][-40:] == list(
            range(total - 40, total)
        )
        assert collector.end() == total
        if turn == 0:
            collector.forget(total)  # what is remembered outlives the rows
            assert not collector.segments.rows()
        collector.stop()


def test_items_are_acknowledged_when_on_disk_and_known_after_a_restart(collect):
    kind = item_type(Reading)
    thread = threading.Thread(
        target=publish,
        args=("items", [Reading(i, i / 2) for i in range(300)]),
        kwargs={"domain": DOMAIN, "publisher": 3, "committed": True, "patience_s": 60.0},
    )
    collector = collect("items", kind, keep=lambda batch: [n % 2 == 0 for n in batch.column("sensor").to_pylist()])
    thread.start()
    thread.join()  # it ends when all are acknowledged
    assert [(row["item_id"] & 0xFFFF, row["sensor"]) for row in rows_of(collector)] == [
        (i, i) for i in range(0, 300, 2)
    ]
    collector.forget(100)
    collector.stop()
    again = collect("items", kind)
    publish(
        "items", [Reading(i, i / 2) for i in range(300)], domain=DOMAIN, publisher=3, committed=True, patience_s=60.0
    )
    until(lambda: again.repeated + again.end() - 150 >= 300)
    assert again.end() - 150 <= 150  # those alone that the first filter kept away; the rest is known by its id


FLOOD = textwrap.dedent(
    """
    import sys
    import pyarrow as pa
    from cyclonedds.core import DDSException
    from cyclonedds.pub import DataWriter
    from cyclonedds.topic import Topic
    from cyclonedds.util import duration
    from evenflow.dds.wire.columns import struct_of
    from evenflow.dds.domain import participant, quality

    kind = struct_of(pa.schema([("number", pa.int64()), ("name", pa.string())]), "Number")
    entity = participant(int(sys.argv[1]))
    writer = DataWriter(entity, Topic(entity, "full", kind, qos=quality()), qos=quality())
    while not writer.get_matched_subscriptions():
        pass
    blocked = 0
    for number in range(int(sys.argv[2])):
        while True:
            try:
                writer.write(kind(number, "x" * 200))
                break
            except DDSException:
                if not blocked:
                    print("blocked", flush=True)
                blocked += 1
    writer.wait_for_acks(duration(seconds=120))
    print("done", flush=True)
    """
)


@pytest.mark.long
def test_a_full_backlog_stops_the_writer_and_loses_nothing(collect):
    count = 30_000
    collector = collect("full", most=3000)
    flood = subprocess.Popen([sys.executable, "-c", FLOOD, str(DOMAIN), str(count)], stdout=subprocess.PIPE, text=True)
    try:
        assert flood.stdout.readline() == "blocked\n"
        assert collector.end() == 3000  # Cyclone's reader holds the next ones, the writer waits
        time.sleep(12)  # longer than the lease of a participant: nobody may be taken for dead
        seen, at = [], 0
        end = time.monotonic() + 200
        while at < count and time.monotonic() < end:
            now = collector.end()
            seen += [row["number"] for row in rows_of(collector, at)] if now > at else []
            collector.forget(at := now)
            time.sleep(0.01)
        assert seen == list(range(count))
        assert flood.stdout.readline() == "done\n"
    finally:
        flood.kill()
        flood.wait()
        flood.stdout.close()


def test_a_publisher_that_offers_less_is_an_error(collect):
    collector = collect("less", policies=KEPT)
    writer = writer_of("less")
    with pytest.raises(BadInput, match=r"topic 'less'.*durability"):
        until(lambda: collector.end() < 0, 20)
    del writer


OTHER = textwrap.dedent(
    """
    import sys, time
    import pyarrow as pa
    from cyclonedds.pub import DataWriter
    from cyclonedds.topic import Topic
    from evenflow.dds.wire.columns import struct_of
    from evenflow.dds.domain import participant, quality

    kind = struct_of(pa.schema([("number", pa.float64()), ("name", pa.string())]), "Number")
    entity = participant(int(sys.argv[1]))
    writer = DataWriter(entity, Topic(entity, "other", kind, qos=quality()), qos=quality())
    print("ready", flush=True)
    time.sleep(120)
    """
)


def test_a_publisher_of_another_type_is_an_error_that_names_the_field(collect):
    other = subprocess.Popen([sys.executable, "-c", OTHER, str(DOMAIN)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "ready\n"
        collector = collect("other")
        with pytest.raises(BadInput, match=r"topic 'other'.*'number'.*float64"):
            until(lambda: collector.end() < 0, 30)
    finally:
        other.kill()
        other.wait()
        other.stdout.close()


def batch(*numbers):
    return pa.record_batch({"number": list(numbers), ID: list(numbers)})


def test_rows_stay_until_they_are_forgotten_and_their_numbers_go_on(tmp_path):
    segments = Segments(tmp_path)
    for first in range(0, 30, 10):
        segments.append(batch(*range(first, first + 10)))
    assert [r["number"] for p in segments.pieces(5, 25) for r in read_piece(p).to_pylist()] == list(range(5, 25))
    segments.forget(15, {"more": 1})
    segments.close()
    (tmp_path / "rows-000000000000030-0000010.part").write_bytes(b"cut off")
    segments = Segments(tmp_path)
    assert (segments.first, segments.end, segments.saved["more"]) == (10, 30, 1)
    assert len(segments.rows()) == 2
    segments.forget(30, {})
    assert (segments.first, segments.end) == (30, 30)
    with pytest.raises(BadInput, match="0 to 10"):
        segments.pieces(0, 10)
    segments.close()


def test_a_crash_between_saving_and_deleting_leaves_nothing_twice(tmp_path):
    segments = Segments(tmp_path)
    segments.append(batch(1, 2))
    segments.append(batch(3))
    (path,) = segments.forgettable(2)
    content = path.read_bytes()
    segments.forget(2, {})
    segments.close()
    path.write_bytes(content)  # as if the process had died before it deleted the file
    segments = Segments(tmp_path)
    assert (segments.first, segments.end) == (2, 3)
    segments.close()


def test_one_process_writes_a_journal_and_gaps_are_refused(tmp_path):
    segments = Segments(tmp_path)
    with pytest.raises(BadInput, match="no running query"):
        Segments(tmp_path, patience_s=0.0)
    for number in range(3):
        segments.append(batch(number))
    segments.close()
    sorted(tmp_path.glob("rows-*"))[1].unlink()
    with pytest.raises(BadInput, match="no row 1"):
        Segments(tmp_path)
