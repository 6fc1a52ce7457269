"""What a checkpoint holds fast, from when on, and what it says when it cannot be read."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from evenflow.errors import BadInput
from evenflow.spark.kit.plane import FILE, Plane
from evenflow.spark.kit.routes import MOVE, Entry
from evenflow.spark.kit.storage import Storage, checked_url


@pytest.fixture
def plane(tmp_path):
    return Plane(
        checked_url(str(tmp_path)), 8, 4, 0, ("device",), "hash", "refuse", "struct<device:bigint>", "n: int64", "process"
    )  # fmt: skip


def planned(plane):
    """Let Spark plan a batch."""
    Storage(plane.checkpoint).write("offsets/0", b"v1\n{}\n")
    return plane


def known(plane):
    return json.loads(plane.place.read(FILE))


CHANGES = {
    "slices": 16,
    "lanes": 8,
    "used": 2,
    "by": ("site",),
    "assign": "modulo",
    "schema": "struct<device:int>",
    "output": "n: int32",
    "kind": "process_each",
}


@pytest.mark.parametrize("name", CHANGES)
def test_nothing_is_fixed_before_a_batch_is_planned_and_everything_after(plane, name):
    plane.settle()
    other = replace(plane, **{name: CHANGES[name]})
    settled = other.settle()
    assert known(plane)[name] == (list(CHANGES[name]) if name == "by" else CHANGES[name])
    planned(plane)
    assert other.settle() == settled
    with pytest.raises(BadInput, match="with which this checkpoint began") as refusal:
        plane.settle() if name != "used" else replace(plane, used=4).settle()
    assert name in refusal.value.given
    assert settled.plain() == known(plane)


@pytest.mark.parametrize("kinds", [("process_each", "process"), ("process", "map"), ("process", "process, correlate")])
def test_another_kind_of_state_is_refused(plane, kinds):
    first, second = (replace(plane, kind=kind) for kind in kinds)
    planned(first.settle())
    for before, now in ((first, second), (second, first)):
        plane.place.write(FILE, json.dumps({**known(plane), "kind": before.kind}).encode())
        with pytest.raises(BadInput, match=f"kind = '{now.kind}'"):
            now.settle()


def test_a_checkpoint_without_a_kind_takes_the_one_it_is_started_with(plane):
    planned(plane.settle())
    plane.place.write(FILE, json.dumps({k: v for k, v in known(plane).items() if k != "kind"}).encode())
    replace(plane, kind="process_each").settle()
    with pytest.raises(BadInput, match="kind = 'process'"):
        plane.settle()


def test_null_keys_that_were_refused_may_be_dropped_or_have_a_slice_from_then_on(plane):
    planned(plane.settle())
    plane.settle()
    for allowed in ("drop", 3):
        replace(plane, nulls=allowed).agreed()  # a dry run: it is not written down
    assert known(plane)["nulls"] == "refuse"
    replace(plane, nulls=3).settle()
    for refused in ("refuse", "drop", 4):
        with pytest.raises(BadInput, match=r"nulls = .*3, with which this checkpoint began"):
            replace(plane, nulls=refused).settle()


def test_lanes_in_use_are_remembered_when_they_are_not_given(plane):
    assert plane.settle().used == 4
    assert replace(plane, used=2).settle().used == 2
    planned(plane)
    assert plane.settle().used == 2
    with pytest.raises(BadInput, match=r"used = 3.*query\.add"):
        replace(plane, used=3).settle()


def test_what_a_failed_start_entered_for_other_lanes_is_forgotten(plane):
    plane.settle().log().append([Entry(MOVE, 1.0, 0, 5, 1, 3)])
    plane.place.write("requests/1", b'{"what":"rest","value":[3]}')
    replace(plane, output="n: int32").settle()
    assert plane.settle().log().length() == 1
    fewer = replace(plane, lanes=2).settle()
    assert fewer.log().length() == 0
    assert plane.place.names("requests") == []


def test_a_zone_of_timestamps_is_no_other_output(plane):
    for zone in ("Europe/Berlin", "UTC"):
        old = replace(plane, output=f"at: timestamp[us, tz={zone}]\nn: int64")
        planned(old.settle()) if zone != "UTC" else old.settle()
    with pytest.raises(BadInput, match="output"):
        replace(plane, output="at: timestamp[us]\nn: int64").settle()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b'{"slices": 8}', b"\xff\xfe"])
def test_a_broken_file_is_one_sentence_and_nothing_starts(plane, evenflow, content):
    planned(plane.settle())
    plane.place.write(FILE, content)
    for start in (plane.settle, plane.agreed):
        with pytest.raises(BadInput, match=f"evenflow/{FILE}: .*the file that the first start wrote"):
            start()
    assert plane.place.read(FILE) == content
    ended = evenflow("grow", plane.checkpoint, "--lanes", 8)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert f"evenflow/{FILE}" in ended.err


def test_batches_without_the_file_are_refused(plane):
    planned(plane.settle())
    plane.place.delete(FILE)
    with pytest.raises(BadInput, match=f"batches without evenflow/{FILE}"):
        plane.settle()
