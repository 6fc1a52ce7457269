"""Rows of batches over a topic: what was tried twice or written twice is handed over once."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import pyarrow as pa
import pytest

from evenflow.dds import subscribe_batches
from evenflow.dds.rows import Batches, RowWriter, row_type
from evenflow.dds.wire.columns import hints_of, struct_of
from evenflow.dds.wire.rows_idl import Commit
from evenflow.errors import BadInput
from evenflow.slices.ledger import item_id

DOMAIN = 192 + os.getpid() % 30
COLUMNS = pa.schema(
    [
        ("name", pa.string()),
        ("total", pa.int64()),
        ("parts", pa.list_(pa.float64())),
        ("at", pa.struct([("x", pa.int64())])),
    ]
)
ROWS = struct_of(COLUMNS, "Columns")
POINT = hints_of(ROWS)["at"]


@dataclass
class Place:
    x: int


@dataclass
class Total:
    name: str
    total: int
    parts: list[float]
    at: Place


def rows(*numbers):
    return iter([{"name": f"n{n}", "total": n, "parts": [n / 2], "at": {"x": -n}} for n in numbers])


def writer_of(topic, **options):
    options = {"readers": 1, "patience_s": 30.0, **options}
    return RowWriter(topic, struct_of(COLUMNS, "Columns"), DOMAIN, {}, **options)


def test_a_batch_is_handed_over_once_with_the_rows_that_count():
    got = []
    reading = subscribe_batches("totals", lambda batch, found: got.append((batch, found)), type=Total, domain=DOMAIN)
    writer = writer_of("totals")
    failed = writer.write("q", 1, rows(1, 2))  # its task did not report, so another one did its work
    good = writer.write("q", 1, rows(1, 2))
    other = writer.write("q", 1, rows(3))
    assert (failed.rows, good.first, other.first) == (2, 2, 4)
    reading.run(0.3)
    assert not got  # nothing is committed
    writer.commit(1, [good, other])
    again = writer.write("q", 1, rows(3, 2, 1))  # the query died after its commit and starts again
    writer.commit(1, [again])
    writer.commit(2, [writer.write("q", 2, rows(4)), writer.write("q", 2, rows())])
    end = time.monotonic() + 20
    while len(got) < 2 and time.monotonic() < end:
        reading.poll()
    reading.run(0.3)
    assert [(batch, [r["total"] for r in found]) for batch, found in got] == [(1, [1, 2, 3]), (2, [4])]
    assert got[0][1][0] == {"batch": 1, "name": "n1", "total": 1, "parts": [0.5], "at": {"x": -1}}
    assert reading.repeated == 1


def test_two_queries_that_write_to_one_topic_do_not_take_each_other_s_batches(domain):
    """Both number their batches from 0; a task of the second was tried again."""
    got = []
    reading = Batches("shared", lambda batch, found: got.append((batch, [r["total"] for r in found])), ROWS, 0)

    def write(publisher, first, batch, *totals):
        for number, total in enumerate(totals, first):
            sample = row_type(ROWS)(item_id(publisher, number), number, 0, 1.0, batch, "n", total, [], POINT(1))
            domain.inject("shared", sample.serialize())

    def commit(query, batch, *parts):
        domain.inject("shared_commits", Commit(query, batch, *map(list, zip(*parts, strict=True))).serialize())

    write(1, 0, 0, 10, 11)
    write(2, 0, 0, 20)
    write(3, 0, 0, 20, 21)
    commit("q", 0, (1, 0, 2))
    reading.poll(0.0)
    commit("r", 0, (3, 0, 2))
    reading.poll(0.0)
    write(2, 1, 1, 22)
    commit("r", 1, (2, 1, 1))
    commit("r", 0, (3, 0, 2))
    reading.poll(0.0)
    assert got == [(0, [10, 11]), (0, [20, 21]), (1, [22])]
    assert reading.repeated == 1
    assert not reading._rows  # what the first attempt wrote is forgotten too


def test_nobody_there_and_nulls_are_errors():
    with pytest.raises(TimeoutError, match="fewer than 1 readers of the rows of topic 'void'"):
        writer_of("void", patience_s=0.2).write("q", 1, rows(1))
    writer = writer_of("alone", readers=0)
    with pytest.raises(BadInput, match=r"column 'at.x'.*null"):
        writer.write("q", 1, iter([{"name": "a", "total": 1, "parts": [], "at": {"x": None}}]))


def test_the_type_of_a_batch_is_a_dataclass():
    with pytest.raises(BadInput, match="dataclass"):
        subscribe_batches("x", print, type=int, domain=DOMAIN)
