"""Drivers and readers agree: what a run of any system writes is what the reader and the page know."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenflow.errors import BadInput
from evenflow.experiments.slices import chaos as slices_chaos
from evenflow.invariants import SliceCheck
from evenflow.trace import RECORDS, JsonlTrace, MemoryTrace, Run, read
from evenflow.trace.records import fault_in
from evenflow.web import board
from evenflow.web.follow import Followed
from evenflow.web.metrics import metrics_text

BROKERS = {"broker_status", "broker_session", "global_session", "offload"}  # kinds that brokers have beside all others
RUNS = {
    "slices-join": ("rate=50",),
    "slices-drain": ("rate=50", "seconds=40"),
    "slices-chaos": (),
    "dlber": ("pages=200",),
    "dlber-chaos": (),
    "ami": ("seconds=200",),
    "ami-chaos": (),
    "padres-local": ("subscribers=300", "seconds=1500"),
    "padres-chaos": (),
}
FAULTY = ("slices-chaos", "dlber-chaos", "padres-chaos")  # their faults are on the trace


@pytest.mark.parametrize("name", RUNS)
def test_what_an_experiment_writes_can_be_read_and_shown(evenflow, tmp_path: Path, name: str) -> None:
    words = [word for setting in RUNS[name] for word in ("--set", setting)]
    assert evenflow("experiment", name, "--seed", "1", *words, "--run", tmp_path, "--json").code == 0
    records = list(read(tmp_path / "trace.jsonl", pytest.fail))
    assert {record["kind"] for record in records} <= RECORDS.keys() | BROKERS
    followed = Followed(tmp_path)
    assert followed.look() == len(records) > 100
    run = followed.run
    assert run == Run.read(tmp_path / "trace.jsonl")
    assert len(board.nodes_now(run)) >= 2
    moves = board.moves_seen(run)
    assert moves
    assert all(move.units and move.giver and move.taker for move in moves), "what moved has a name"
    assert bool(run.faults) is (name in FAULTY)
    assert b"evenflow_moves_total" in metrics_text(followed)
    if name.startswith("dlber"):
        assert {move.units for move in moves} == {"waiting triggers"}
        assert run.owners == {}, "rows stay at home, whoever runs their triggers"
    if name.startswith("padres"):
        assert all(move.units.endswith(" subscribers") for move in moves)
    if name.startswith(("slices", "ami")):
        assert {unit for move in run.sessions.values() for unit in move.units} <= run.owners.keys()


def test_a_page_of_what_is_no_trace_is_refused_in_one_sentence(evenflow, tmp_path: Path) -> None:
    good = '{"at":1.0,"kind":"note"}\n'
    (tmp_path / "trace.jsonl").write_text(good + '{"at":1.0,"kind":"effect","node":"a"}\n' + good)
    ended = evenflow("web", tmp_path, "--port", "0")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert "line 2: given a record of kind 'effect' without 'session'" in ended.err
    followed = Followed(tmp_path)
    for _ in range(2):  # it is not passed over at the next look
        with pytest.raises(BadInput, match="line 2"):
            followed.look()
    assert followed.run.counts.total() == 1


def test_a_run_with_faults_is_rebuilt_from_its_file(tmp_path: Path) -> None:
    memory = MemoryTrace()
    settings = slices_chaos.ChaosSettings()
    row = slices_chaos.run(settings, 1, memory)
    assert {record["kind"] for record in memory.records} <= RECORDS.keys()
    assert [wrong for record in memory.records if (wrong := fault_in(record))] == []

    path = tmp_path / "trace.jsonl"
    with JsonlTrace(path) as trace:
        for record in memory.records:
            trace(record)
    run = Run.read(path)
    assert run == Run.of(memory.records)

    check = SliceCheck().read_all(memory.records)
    ended = [s for s in run.sessions.values() if s.outcome is not None and s.giver]
    assert len(ended) == row["sessions"] == len(check.ended)
    assert run.owners_at() == {str(unit): node for unit, node in check.owners.items()}
    assert len(run.owners_at()) == settings.slices
    for session in ended:
        assert session.ended is not None
        assert sum(session.phase_seconds().values()) == pytest.approx(session.ended - session.began)
