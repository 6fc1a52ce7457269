from __future__ import annotations

from contextlib import closing

import pytest

from evenflow.actor import Note, Save, Send, Wake
from evenflow.dds.journal import Journal, notes_of
from evenflow.dds.process import Cell
from evenflow.errors import BadInput
from evenflow.slices.messages import Ack


def test_what_was_saved_is_there_again(tmp_path):
    journal = Journal(tmp_path)
    journal.write({"a": 1, "b": (2, 3)}, [])
    journal.write({"a": None, "c": {4: 5}}, [])
    journal.close()
    with closing(Journal(tmp_path)) as again:
        assert again.started() == {"b": (2, 3), "c": {4: 5}}


def test_a_line_that_a_crash_cut_off_is_left_out(tmp_path):
    journal = Journal(tmp_path)
    journal.write({"a": 1}, [])
    journal.write({"a": 2}, [])
    journal.close()
    (segment,) = tmp_path.glob("segment-*.jsonl")
    segment.write_bytes(segment.read_bytes()[:-5])
    again = Journal(tmp_path)
    assert again.saved == {"a": 1}
    again.write({"a": 3}, [])
    again.close()
    with closing(Journal(tmp_path)) as last:
        assert last.saved == {"a": 3}


@pytest.mark.parametrize("keep", [False, True])
def test_segments_follow_each_other(tmp_path, keep):
    journal = Journal(tmp_path, keep=keep, most=200)
    for i in range(50):
        journal.write({"a": i}, [{"kind": "x", "i": i}])
    journal.close()
    segments = len(list(tmp_path.glob("segment-*.jsonl")))
    assert segments > 3 if keep else segments == 1
    assert not keep or [n["i"] for n in notes_of(tmp_path)] == list(range(50))
    with closing(Journal(tmp_path)) as again:
        assert again.saved == {"a": 49}


def test_a_balancer_gets_the_notes_it_needs_back(tmp_path):
    journal = Journal(tmp_path, notes=True, most=100)
    kept = [{"kind": "session", "session": i} for i in range(5)]
    for note in kept:
        journal.write({}, [note, {"kind": "sample"}])
    journal.close()
    with closing(Journal(tmp_path, notes=True)) as again:
        assert again.started() == {"notes": kept}


def test_one_process_at_a_time(tmp_path):
    journal = Journal(tmp_path)
    with pytest.raises(BadInput, match="no running process"):
        Journal(tmp_path)
    journal.close()


def test_nobody_hears_of_what_is_not_on_disk(tmp_path):
    """Whatever is said, the journal on disk already holds every save before it, and none behind it."""
    said = []

    def on_disk():
        lines = (tmp_path / "segment-00000001.jsonl").read_text().count('"save"')
        said.append(lines)

    journal = Journal(tmp_path)
    cell = Cell("n", None, journal, lambda to, message: on_disk(), lambda items: on_disk(), committed=on_disk)
    woken = []
    commands = [
        Save({"a": 1}),
        Note({"kind": "commit"}),
        Send("p", Ack((1,))),
        Send("p", Ack((2,))),
        Save({"a": 2}),
        Send("balancer", "x"),
        Wake(1.0, "w"),
        Save({"a": 3}),
    ]
    cell.obey(commands, lambda at, name: woken.append((at, name)))
    assert said == [1, 1, 2, 2, 3]  # committed, both acknowledgements in one, committed, the send, committed
    assert woken == [(1.0, "w")]
    journal.close()
