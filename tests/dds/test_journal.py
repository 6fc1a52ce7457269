from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

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


class CrashError(Exception):
    """The process ends here."""


def steps(monkeypatch, crash_at):
    """Count everything that changes the disk, and end the process before step ``crash_at``."""
    count = 0

    def counted(function):
        def step(*arguments, **options):
            nonlocal count
            count += 1
            if count == crash_at:
                raise CrashError
            return function(*arguments, **options)

        return step

    for holder, name in ((os, "fsync"), (os, "fdatasync"), (Path, "rename"), (Path, "unlink")):
        monkeypatch.setattr(holder, name, counted(getattr(holder, name)))


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("crash_at", range(1, 40))
def test_a_crash_at_any_step_leaves_a_whole_journal(tmp_path, monkeypatch, crash_at, keep):
    """Segments follow each other quickly here: there is always one that holds everything that was saved."""
    said = []
    journal = Journal(tmp_path, keep=keep, most=150)

    def write():
        for i in range(100):
            journal.write({"a": i, "first": i // 50}, [])
            said.append(i)

    with monkeypatch.context() as patch:
        steps(patch, crash_at)
        with pytest.raises(CrashError):
            write()
    journal.close()
    with closing(Journal(tmp_path)) as again:
        assert again.saved.get("a") in ((said[-1], said[-1] + 1) if said else (None, 0))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "without a line"),
        (b"not json\n", "segment-00000001"),
        (b'{"saved": {}, "remembered": []}\nnot json\n', "segment-00000001"),
        (b'{"save": {"a": 1}}\n', "line 1"),
        (b'{"saved": {"a": {"odd": 1}}, "remembered": []}\n', "odd"),
        (b'{"saved": 3, "remembered": []}\n', "segment-00000001"),
        (b"[]\n", "segment-00000001"),
        (b'{"saved": {"a": NaN}, "remembered": []}\n', "NaN"),
        (b'{"saved": {}, "remembered": []}\n{"notes": [{}]}\n', "kind"),
    ],
)
def test_a_journal_that_cannot_be_read_is_one_sentence_and_is_left_alone(tmp_path, content, says):
    segment = tmp_path / "segment-00000001.jsonl"
    segment.write_bytes(content)
    for _ in range(2):
        with pytest.raises(BadInput, match=says):
            Journal(tmp_path, notes=True)
        assert segment.read_bytes() == content
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["lock", segment.name]


def test_numbers_that_json_has_no_word_for_are_there_again(tmp_path):
    journal = Journal(tmp_path)
    journal.write({"a": {"mean": float("nan"), "most": [float("inf"), float("-inf")]}}, [])
    journal.close()
    with closing(Journal(tmp_path)) as again:
        assert str(again.saved["a"]) == "{'mean': nan, 'most': [inf, -inf]}"


def test_a_value_of_too_many_levels_is_refused_before_it_is_written(tmp_path):
    deep = []
    for _ in range(150):
        deep = [deep]
    with closing(Journal(tmp_path)) as journal, pytest.raises(TypeError, match="levels"):
        journal.write({"a": deep}, [])
