from __future__ import annotations

import json
from dataclasses import asdict
from itertools import count

import pytest

from evenflow.spark.kit import storage
from evenflow.spark.kit.control_log import ControlLog, UnreadableLogError
from evenflow.spark.kit.controller import Balancing
from evenflow.spark.kit.log_writer import Clerk
from evenflow.spark.kit.plane import Plane, UnreadableOffsetError, control_offset
from evenflow.spark.kit.requests import FOLDER as REQUESTS
from evenflow.spark.kit.routes import INSTALL, MOVE, RECEIPT, SETTING, Entry, Routes
from evenflow.spark.kit.samples import Meter, Samples
from evenflow.spark.kit.storage import Storage, checked_url
from evenflow.spark.slices.pack import pinned_keys


@pytest.fixture
def place(tmp_path) -> Storage:
    return Storage(checked_url(str(tmp_path / "plane")))


def moves(count: int, first: int = 0) -> list[Entry]:
    """Sessions that begin and end, one after the other, over 8 slices and 4 lanes."""
    entries = []
    for n in range(first, first + count):
        s, giver = n % 8, (n % 8 + n // 8) % 4  # every slice goes on by one lane each time
        entries += [Entry(MOVE, n, n, s, giver, (giver + 1) % 4, "test"), Entry(INSTALL, n, n), Entry(RECEIPT, n, n)]
    return entries


def test_reader_and_writer_agree_at_every_version(place):
    empty = Routes(8, 4, 4)
    writer, reader = ControlLog(place, empty), ControlLog(place, empty)
    entries = [*moves(5), Entry(SETTING, 9.0, name="pin", value=[3, 1]), Entry(SETTING, 9.0, name="rest", value=[2])]
    for entry in entries:
        writer.append([entry])
    for version in [*range(len(entries) + 1), 4, len(entries)]:
        assert reader.at(version).plain() == Routes(8, 4, 4).apply(entries[:version]).plain()
    assert reader.between(2, 5) == entries[2:5]


def test_a_reader_reads_only_what_is_new(place, monkeypatch):
    log = ControlLog(place, Routes(8, 4, 4))
    for entry in moves(10):
        log.append([entry])
    log.at(30)
    ControlLog(place, Routes(8, 4, 4)).append(moves(1, first=10))
    read = []
    original = Storage.read
    monkeypatch.setattr(Storage, "read", lambda self, name: (read.append(name), original(self, name))[1])
    log.at(33)
    assert len(read) == 1
    log.at(33)
    assert len(read) == 1


def test_pruning_keeps_the_fold_and_what_comes_after_it(place):
    log = ControlLog(place, Routes(8, 4, 4))
    entries = moves(40)
    for start in range(0, 120, 3):
        log.append(entries[start : start + 3])
    log.prune(99, every=50)
    assert len(place.names("log")) == 8  # the snapshot and seven files behind it
    log.prune(110, every=50)
    assert len(place.names("log")) == 8  # not yet worth another snapshot
    late = ControlLog(place, Routes(8, 4, 4))
    assert late.length() == 120
    assert late.at(105).plain() == Routes(8, 4, 4).apply(entries[:105]).plain()
    assert late.between(99, 120) == entries[99:]
    assert log.append(moves(1, first=40)) == 123


def test_a_snapshot_of_everything_is_enough_to_begin_again(place):
    entries = moves(40)
    log = ControlLog(place, Routes(8, 4, 4))
    log.append(entries)
    log.prune(120, every=50)
    assert place.names("log") == ["snapshot-000000000120"]
    late = ControlLog(place, Routes(8, 4, 4))
    assert late.at(120).plain() == Routes(8, 4, 4).apply(entries).plain()
    assert late.between(late.first(), late.length()) == []
    assert late.append(moves(1, first=40)) == 123
    assert late.at(123).lane == log.at(123).lane


def test_a_reader_that_looked_before_the_pruning_finds_its_way(place):
    empty = Routes(8, 4, 4)
    writer, reader = ControlLog(place, empty), ControlLog(place, empty)
    entries = moves(40)
    for start in range(0, 120, 3):
        writer.append(entries[start : start + 3])
    reader.at(90)  # knows the files behind it as well
    writer.prune(99, every=50)
    assert reader.at(102).plain() == Routes(8, 4, 4).apply(entries[:102]).plain()


def test_a_hole_a_broken_file_and_a_second_writer_stop_everything(place):
    def begin() -> ControlLog:
        return ControlLog(place, Routes(8, 4, 4))

    for entry in moves(2):
        begin().append([entry])
    names = place.names("log")
    kept = place.read(f"log/{names[2]}")
    place.delete(f"log/{names[2]}")
    with pytest.raises(UnreadableLogError, match="entries 2 to 5 are missing"):
        begin().at(6)
    place.write(f"log/{names[2]}", b"{torn")
    with pytest.raises(UnreadableLogError, match="broken"):
        begin().at(6)
    place.write(f"log/{names[2]}", b"")
    with pytest.raises(UnreadableLogError, match="broken"):
        begin().at(6)
    entry, seal = kept.splitlines()
    for content, said in ((entry, "broken"), (seal, "holds 0 entries, not 1"), (entry + b"\n" + kept, "broken")):
        place.write(f"log/{names[2]}", content)
        with pytest.raises(UnreadableLogError, match=said):
            begin().at(6)
    place.write(f"log/{names[2]}", kept)
    assert begin().at(6).version == 6
    place.write("log/notes.txt", b"")
    with pytest.raises(UnreadableLogError, match=r"notes\.txt is none of its own"):
        begin().at(6)
    place.delete("log/notes.txt")
    place.write("log/000000000002-000000000005", b"")
    with pytest.raises(UnreadableLogError, match="two writers"):
        begin().at(6)


def test_the_offset_of_a_batch_is_read_as_spark_wrote_it(place):
    place.write("offsets/4", b'v1\n{"batchWatermarkMs":0}\n{"logOffset":3}\n{"evenflow": 17}')
    place.write("offsets/5", b'v1\n{"batchWatermarkMs":0}\n{"logOffset":3}')
    assert control_offset(place, 4) == 17
    assert control_offset(place, -1) == 0
    with pytest.raises(UnreadableOffsetError, match="holds 0 offsets"):
        control_offset(place, 5)
    with pytest.raises(UnreadableOffsetError, match="cannot be read"):
        control_offset(place, 6)


def test_the_clerk_waits_for_commits_and_moves_a_slice_once_at_a_time(tmp_path):
    plane = Plane(checked_url(str(tmp_path)), 8, 4, 4, ("device",), "hash", "refuse")
    clerk = Clerk(plane, Balancing(), clock=count(5.0).__next__)

    def ask(slice_id: int, lane: int) -> None:
        plane.place.write(f"{REQUESTS}/{slice_id}-{lane}", b'{"what":"move","moves":[[%d,%d,"w"]]}' % (slice_id, lane))

    def kinds(end: int) -> list[str]:
        return [e.kind for e in plane.log().between(0, end)]

    ask(0, 1)
    assert clerk.write(0) == 1
    ask(0, 2)  # under way: passed over
    assert clerk.write(0) == 1  # the batch with the move is not committed
    assert clerk.write(1) == 2
    assert clerk.write(1) == 2  # nor is the one with the install
    plane.place.write("ship/000000000000", b"state")
    assert clerk.write(2) == 3
    assert not plane.place.has("ship/000000000000")
    assert kinds(3) == [MOVE, INSTALL, RECEIPT]
    ask(0, 2)
    assert clerk.write(3) == 4
    assert not plane.place.names(REQUESTS)
    clerk.close()


def test_a_batch_is_routed_by_what_held_when_the_batch_before_it_ended(tmp_path):
    plane = Plane(checked_url(str(tmp_path)), 8, 4, 4, ("device",), "hash", "refuse")
    checkpoint = Storage(plane.checkpoint)
    for batch, version in enumerate((0, 1, 3)):  # slice 0 is released in batch 1 and installed in batch 2
        checkpoint.write(f"offsets/{batch}", b'v1\n{}\n{"logOffset":3}\n{"evenflow": %d}' % version)
    plane.log().append(moves(1))
    lanes = [[plane.keys.lane_of(int(key)) for key in pinned_keys(plane, batch)] for batch in range(4)]
    home = [0, 1, 2, 3, 0, 1, 2, 3]
    moved = [1, *home[1:]]
    assert lanes == [home, home, moved, moved]  # in batch 1 itself the giver has its last rows
    with pytest.raises(UnreadableOffsetError, match="offsets/3 cannot be read"):
        pinned_keys(plane, 4)


def test_a_log_of_an_earlier_version_can_be_read_and_goes_on(place):
    entries = moves(3)
    for first, last in ((0, 2), (2, 9)):
        lines = "".join(json.dumps(asdict(entry)) + "\n" for entry in entries[first:last])
        place.write(f"log/{first:012}-{last:012}", lines.encode())
    log = ControlLog(place, Routes(8, 4, 4))
    assert log.append(moves(1, first=3)) == 12
    assert place.names("log")[-1] == "000000000009"
    assert ControlLog(place, Routes(8, 4, 4)).at(12).plain() == Routes(8, 4, 4).apply(moves(4)).plain()
    log.prune(12, every=1)
    assert place.names("log") == ["snapshot-000000000012"]


def test_a_snapshot_lies_where_a_file_ends(place):
    log = ControlLog(place, Routes(8, 4, 4))
    for _ in range(2):
        log.append(moves(1) if log.append([]) == 0 else moves(1, first=1))
    log.prune(5, every=1)
    assert place.names("log") == ["000000000003", "snapshot-000000000003"]
    place.write("log/snapshot-000000000003", b"{}")
    with pytest.raises(UnreadableLogError, match="snapshot-000000000003 is broken"):
        ControlLog(place, Routes(8, 4, 4)).at(6)


def test_samples_that_are_deleted_while_they_are_read_are_passed_over(place, monkeypatch):
    for batch in range(3):
        Meter().write(place, batch, 0)
    original = Storage.read

    def read(self, name):
        if name.endswith("1-000000"):
            self.delete(name)
        return original(self, name)

    monkeypatch.setattr(Storage, "read", read)
    assert [sample.batch for sample in Samples(place).new()] == [0, 2]


def test_a_folder_that_is_made_while_it_is_listed_is_empty(monkeypatch, place):
    class Racing:
        def get_file_info(self, _):
            raise FileNotFoundError("Cannot list directory")  # what Arrow says if it is there by the time it asks

    monkeypatch.setattr(storage, "_opened", lambda url: (Racing(), url))
    assert place.names("log") == []
