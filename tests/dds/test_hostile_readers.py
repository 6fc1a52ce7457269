"""Whatever arrives on a topic of data: the Spark source, subscribers and publishers drop what does not fit, and go on."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter

import pyarrow as pa
import pytest
from alerting import Reading
from mutations import mutated

from evenflow.dds import plain, rows
from evenflow.dds.collector import Collector, Wanted
from evenflow.dds.wire.columns import struct_of
from evenflow.dds.wire.idl import Acks, item_type
from evenflow.dds.wire.incoming import TELL_S, Incoming
from evenflow.dds.wire.rows_idl import Commit
from evenflow.dds.wire.values import to_sample
from evenflow.errors import BadInput
from evenflow.slices.assignment import parse_assignment
from evenflow.slices.ledger import item_id
from evenflow.slices.messages import Item

TEXTS = struct_of(pa.schema([("sensor", pa.int64()), ("tags", pa.list_(pa.string()))]), "Texts")
NUMBERS = struct_of(pa.schema([("sensor", pa.int64()), ("temperature", pa.float64())]), "Numbers")


class Info:
    """What Cyclone says of a sample."""

    def __init__(self, at):
        self.source_timestamp = at


def item(n, **changes):
    made = Item(item_id(3, n), 0, "readings", 0, 1.0, {"sensor": n, "temperature": n / 2})
    return to_sample(made._replace(**changes), Reading).serialize()


SOURCES = {
    "items": (item_type(Reading), item, {}),
    "texts": (TEXTS, lambda n: TEXTS(n, [f"tag {n}", "é"]).serialize(), {"durability": "transient_local"}),
    "numbers": (NUMBERS, lambda n: NUMBERS(n, n / 2).serialize(), {}),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_keeps_what_fits_among_what_does_not(tmp_path, name):
    kind, make, policies = SOURCES[name]
    chance = random.Random(name)
    end, wanted = 0, set()
    for life in range(4):
        collector = Collector(Wanted("t", kind, 0, tmp_path, policies=policies))
        assert collector.end() == end  # it starts again with exactly what it had
        for turn in range(20):
            numbers = [1_000_000 + 1000 * life + 10 * turn + i for i in range(3)]
            wanted.update(numbers)
            bad = [mutated(kind, make(1 << 42 | chance.randrange(5000)), chance) for _ in range(8)]
            mixed = [(data, Info(chance.randrange(1 << 60))) for data in [*map(make, numbers), *bad]]
            chance.shuffle(mixed)
            collector.store(mixed)
        assert collector.end() - end + collector.incoming.total + collector.repeated == 20 * 11
        assert collector.incoming.total > 0
        end = collector.end()
        found = Counter(row["sensor"] for table in collector.segments.rows() for row in table.to_pylist())
        assert {number: found[number] for number in wanted} == dict.fromkeys(wanted, 1)
        collector.stop()


@pytest.mark.parametrize(
    "changes",
    [
        {"id": -1},
        {"settled": -1},
        {"settled": 1 << 50},
        {"slice": -1},
        {"cost": float("nan")},
        {"cost": float("inf")},
        {"cost": -1.0},
        {"cost": 1e300},
    ],
)
def test_an_item_that_cannot_be_spoils_no_other(tmp_path, changes):
    collector = Collector(Wanted("t", item_type(Reading), 0, tmp_path))
    collector.store([(item(1), None), (item(2, **changes), None), (item(3), None)])
    assert (collector.end(), collector.incoming.total) == (2, 1)
    collector.stop()


def test_a_row_without_a_slice_is_dropped_and_not_acknowledged(tmp_path, monkeypatch):
    assign = parse_assignment("modulo:temperature", 4).assign_batch
    collector = Collector(Wanted("t", item_type(Reading), 0, tmp_path, slice_of=assign))
    told = []
    collector._acks = object()
    monkeypatch.setattr(collector, "_acknowledge", told.extend)
    collector.store([(item(n), None) for n in range(6)])  # 0.5, 1.5 and 2.5 have no remainder
    assert [row["sensor"] for t in collector.segments.rows() for row in t.to_pylist()] == [0, 2, 4]
    assert [row["slice"] for t in collector.segments.rows() for row in t.to_pylist()] == [0, 1, 2]
    assert told == [item_id(3, n) for n in (0, 2, 4)]
    assert collector.incoming.total == 3
    collector.stop()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("state.json", b"{"),
        ("state.json", b"[]"),
        ("state.json", b'{"rows": "many"}'),
        ("state.json", b'{"rows": 0, "ledger": {"marks": 3, "done": []}}'),
        ("rows-000000000000000-0000001.arrow", b"no arrow"),
        ("rows-x.arrow", b""),
    ],
)
def test_a_source_s_journal_that_cannot_be_read_is_one_sentence(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    for _ in range(2):
        with pytest.raises(BadInput, match="journal that evenflow wrote"):
            Collector(Wanted("t", item_type(Reading), 0, tmp_path))


def test_subscribers_and_publishers_live_through_changed_samples(domain):
    chance = random.Random(5)
    got = []
    reading = plain.Subscription(
        "readings", Reading, got.append, None, None, 1, plain.Topic("readings", plain.Count()), 0, 0.1
    )

    def schedule():
        for n in range(20):
            yield plain.Due(time.time(), 0, topic="readings", value={"sensor": n, "temperature": 0.0})

    writers = plain.WritersProcess({5: schedule()}, {"readings": Reading}, 0, None, items=None, patience_s=9.0)
    domain.begin(writers)
    domain.pass_time(1)
    ids = [item_id(5, n) for n in range(20)]
    for _ in range(300):
        domain.inject("readings", mutated(item_type(Reading), item(chance.randrange(50)), chance))
        domain.inject("evenflow_acks", mutated(Acks, Acks("node-a", [ids[0] + (1 << 45)]).serialize(), chance))
        domain.pass_time(0.02)
        reading.poll(0.0)
    assert reading.dropped > 50
    assert writers.bus.incoming.total > 20
    assert sum(i.id in ids for i in got) == 20
    domain.inject("evenflow_acks", Acks("node-a", ids).serialize())
    domain.pass_time(0.1)
    assert writers.process.stopping
    assert writers.publishers[5].unacknowledged == 0


def test_batches_live_through_changed_rows_and_commits(domain):
    chance = random.Random(6)
    got = []
    reading = rows.Batches("totals", lambda batch, found: got.append((batch, found)), item_type(Reading), 0)
    kind = rows.row_type(item_type(Reading))
    for batch in range(60):
        row = kind(item_id(4, batch), batch, 0, 1.0, batch, batch, 0.5).serialize()
        commit = Commit("q", batch, [4], [batch], [1]).serialize()
        for _ in range(5):
            domain.inject("totals", mutated(kind, row, chance))
            changed = Commit("evil", 1000 + batch, [4], [batch], [chance.choice([-1, 1 << 62, 1 << 30])])
            domain.inject("totals_commits", changed.serialize())
            domain.inject("totals_commits", Commit("evil", 7, [4, 4], [0], [1]).serialize())
            domain.inject("totals_commits", mutated(Commit, Commit("e", -batch, [9], [batch], [1]).serialize(), chance))
        domain.inject("totals", row)
        domain.inject("totals_commits", commit)
        reading.poll(0.0)
    ours = {batch: found for batch, found in got if found and found[0]["sensor"] == batch}
    assert set(ours) >= set(range(60))
    assert reading.dropped > 600


def test_what_was_dropped_is_told_at_once_and_then_now_and_then():
    now = [100.0]
    told = []
    incoming = Incoming(tell=told.append, clock=lambda: now[0])

    def refuse(data):
        raise rows.MalformedError("no good")

    for _ in range(500):
        assert not list(incoming.admit("t", [b""], refuse))
        now[0] += 0.1
    assert 4 <= len(told) <= 50 / TELL_S + 1
    assert told[0] == "dropped a sample that does not fit (in all: t 1); the last one, t: no good"
    now[0] += TELL_S
    incoming.tell()
    incoming.tell()
    assert sum(1 if line.split()[1] == "a" else int(line.split()[1]) for line in told) == 500  # every one is told of


def test_the_line_is_a_warning_of_the_log(caplog):
    with caplog.at_level(logging.WARNING, logger="evenflow.dds"):
        Incoming().drop("t", "no good")
    assert "t: no good" in caplog.text
