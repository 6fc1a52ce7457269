from __future__ import annotations

import io

import pytest
from rich.console import Console

from evenflow.cli.demo_spark import comparison, drawing, verdict
from evenflow.experiments.slices.demo import Arm
from evenflow.experiments.slices.demo_stream import Stream


def told(name="balanced", moves=3):
    """A run of four batches, as its trace tells it."""
    arm = Arm(name, Stream(2, 8, 100), balanced=True)
    for batch in range(4):
        for lane, load in enumerate((0.5, 1.5) if batch < 3 else (1.0, 1.0)):
            arm.take({"kind": "sample", "rows": 50, "batch": batch, "node": f"lane-{lane}", "load": load})
        arm.timed({"batchId": batch, "durationMs": {"triggerExecution": 1000}, "sources": [{"numInputRows": 100}]})
    move = {"giver": "1", "taker": "0"}
    plan = {"kind": "plan", "max_over_mean": [1.5, 1.0], "policy": "least_moves", "moves": [move] * moves}
    arm.take({**plan, "carried_out": True})
    for _ in range(moves):
        arm.take({"kind": "move"})
    return arm


def text_of(*parts):
    console = Console(width=100, record=True, file=io.StringIO())
    for part in parts:
        console.print(part)
    return console.export_text()


def test_the_picture_has_lanes_moves_and_reasons():
    shown = text_of(drawing(told()))
    for part in ("lane 0", "lane 1", "slowest", "slices moved 3", "max/mean 1.50 → 1.00", "3 1 → 0", "100 rows/s"):
        assert part in shown


def test_before_the_first_batch_there_is_a_picture_too():
    assert "every slice stays" in text_of(drawing(Arm("unbalanced", Stream(2, 8, 100), balanced=False)))


def test_the_table_leaves_the_first_batch_out():
    summary = told().summary()
    assert summary["max_over_mean"] == pytest.approx((1.5 + 1.5 + 1.0) / 3)
    assert "1.33" in text_of(comparison(summary, summary))


def test_the_verdict_claims_no_more_than_was_seen():
    slow = told().summary()
    assert "times as fast" in verdict(slow, {**slow, "rows_per_s": 2 * slow["rows_per_s"]})
    assert "changed little" in verdict(slow, slow)
    assert "by chance" in verdict(slow, {**slow, "rows_per_s": 2 * slow["rows_per_s"], "moves": 0})


def test_a_directory_with_files_is_refused(evenflow, tmp_path):
    (tmp_path / "mine").write_text("kept")
    ended = evenflow("demo", "--place", tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert "a new or empty directory" in ended.err


def test_without_java_one_sentence_says_what_to_do(evenflow, monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    ended = evenflow("demo")
    assert (ended.code, ended.out) == (2, "")
    assert "--virtual" in ended.err


def test_virtual_time_needs_no_spark(evenflow):
    ended = evenflow("demo", "--virtual", "--plain", "--seconds", 1)
    assert ended.code == 0
    assert "0 lost, 0 twice" in ended.out
