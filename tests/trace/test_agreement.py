"""Drivers and readers agree: what a run of slices writes is what the reader knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenflow.experiments import slices_chaos
from evenflow.invariants import SliceCheck
from evenflow.trace import RECORDS, JsonlTrace, MemoryTrace, Run
from evenflow.trace.records import fault_in


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
