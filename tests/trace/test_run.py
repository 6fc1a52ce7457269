"""A run rebuilt from its trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import BadInput
from evenflow.trace import JsonlTrace, Run
from evenflow.trace.run import OwnerHistory


def session(at: float, number: int, step: str, giver: str, taker: str, slices: list[int]) -> dict[str, Any]:
    found = {"session": number, "step": step, "giver": giver, "taker": taker, "slices": slices, "why": step}
    return {"kind": "session", "at": at, **found}


RUN: list[dict[str, Any]] = [
    {"kind": "node", "at": 0.0, "node": "a", "step": "joined", "capacity": 2.0},
    session(0.0, 1, "grant", "", "a", [0, 1, 2]),
    session(0.1, 1, "done", "", "a", [0, 1, 2]),
    {"kind": "sample", "at": 2.0, "node": "a", "load": 0.9, "cpu": 90.0},
    {"kind": "node", "at": 2.5, "node": "b", "step": "joined"},
    {"kind": "refusal", "at": 3.0, "name": "pinned", "why": "unit 0 is pinned", "unit": "0"},
    {"kind": "refusal", "at": 3.0, "why": "cooldown"},
    {"kind": "refusal", "at": 3.5, "name": "pinned", "why": "unit 0 is pinned", "unit": "0"},
    session(4.0, 2, "stop", "a", "b", [1, 2]),
    session(4.25, 2, "ship", "a", "b", [1, 2]),
    {"kind": "sample", "at": 4.5, "node": "a", "cpu": 50.0},
    session(5.0, 2, "done", "a", "b", [1, 2]),
    session(6.0, 3, "stop", "b", "a", [1]),
    session(6.5, 3, "readmit", "b", "a", [1]),
    session(6.75, 3, "stop", "b", "a", [1]),
    {"kind": "fault", "at": 6.8, "fault": "loss", "session": 3, "step": "stop"},
    session(7.0, 3, "rolled back", "b", "a", [1]),
    {"kind": "plan", "at": 8.0, "policy": "least_moves", "moves": 1},
    {"kind": "move", "at": 8.0, "unit": 0, "giver": "a", "taker": "b", "why": "evens out"},
    session(9.0, 4, "stop", "b", "a", [0]),
    {"kind": "request", "at": 9.0, "what": "pause"},
    {"kind": "note", "at": 9.0, "why": "the end is near"},
    {"kind": "of another driver", "at": 9.5},
    {"kind": "node", "at": 10.0, "node": "a", "step": "let go"},
    {"kind": "node", "at": 10.5, "node": "a", "step": "left"},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with JsonlTrace(tmp_path / "trace.jsonl") as trace:
        for record in RUN:
            trace(record)
    return tmp_path / "trace.jsonl"


def test_from_a_file_as_from_memory(path: Path) -> None:
    assert Run.read(path) == Run.of(RUN)


def test_owners_over_time() -> None:
    run = Run.of(RUN)
    assert run.owners_at(0.05) == {}
    assert run.owners_at(3) == {"0": "a", "1": "a", "2": "a"}
    assert run.owners_at(4.9) == {"0": "a", "1": "a", "2": "a"}
    assert run.owners_at(5) == {"0": "a", "1": "b", "2": "b"}
    assert run.owners_at() == {"0": "b", "1": "b", "2": "b"}
    assert run.owners["1"].nodes == ["a", "b"]  # the session that was rolled back changed nothing


def test_nodes_over_time() -> None:
    run = Run.of(RUN)
    assert (run.nodes["a"].capacity, run.nodes["a"].joined, run.nodes["a"].left) == (2.0, 0.0, 10.0)
    assert run.nodes_at(1) == ["a"]
    assert run.nodes_at(5) == ["a", "b"]
    assert run.nodes_at() == ["b"]
    run.add({"kind": "node", "at": 11.0, "node": "a", "step": "joined"})
    assert run.nodes_at() == ["a", "b"]


def test_loads_over_time() -> None:
    node = Run.of(RUN).nodes["a"]
    assert [column.tolist() for column in node.series()] == [[2.0], [0.9]]
    assert [column.tolist() for column in node.series("cpu")] == [[2.0, 4.5], [90.0, 50.0]]
    assert [column.tolist() for column in node.series("none")] == [[], []]


def test_sessions() -> None:
    run = Run.of(RUN)
    assert {key: s.outcome for key, s in run.sessions.items()} == {
        "1": "done",
        "2": "done",
        "3": "rolled back",
        "4": None,
    }
    moved = run.sessions["2"]
    assert (moved.giver, moved.taker, moved.units, moved.began, moved.ended) == ("a", "b", ("1", "2"), 4.0, 5.0)
    assert moved.phase_seconds() == {"stop": 0.25, "ship": 0.75}
    assert run.sessions["3"].phase_seconds() == {"stop": 0.75, "readmit": 0.25}
    assert run.sessions["4"].ended is None
    assert run.sessions["4"].phase_seconds() == {}


def test_the_rest() -> None:
    run = Run.of(RUN)
    assert run.refusals == {"pinned": 2, "cooldown": 1}
    assert (len(run.plans), len(run.moves), len(run.faults), len(run.notes)) == (1, 1, 1, 2)
    assert run.counts["session"] == 10
    assert run.counts["of another driver"] == 1
    assert (run.began, run.ended, run.torn) == (0.0, 10.5, None)
    assert Run.of([]).began is None


def test_what_the_nodes_say_counts_more_than_the_balancer() -> None:
    run = Run.of(
        [
            session(0.0, 1, "done", "", "a", [7]),
            {"kind": "owner", "at": 0.1, "node": "a", "slice": 7, "owns": True, "session": 1},
            {"kind": "owner", "at": 1.0, "node": "a", "slice": 7, "owns": False, "session": 2},
            {"kind": "owner", "at": 2.0, "node": "b", "slice": 7, "owns": True, "session": 2},
            {
                "kind": "owner",
                "at": 2.1,
                "node": "a",
                "slice": 7,
                "owns": False,
                "session": 2,
            },  # late, and a's own matter
            session(2.5, 2, "done", "a", "b", [7]),
        ]
    )
    assert (run.owners["7"].at, run.owners["7"].nodes) == ([0.1, 1.0, 2.0], ["a", None, "b"])
    assert run.owners_at(1.5) == {}


def test_a_torn_line_is_kept_as_a_sentence(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])
    run = Run.read(path)
    assert run.torn is not None
    assert f"line {len(RUN)}" in run.torn
    assert run.ended == 10.0


def test_one_run_of_a_file_with_several(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with JsonlTrace(path) as trace:
        for seed in (1, 2):
            for record in RUN[: 3 + seed]:
                trace({"seed": seed, **record})
    assert Run.read(path, seed=1).counts.total() == 4
    assert Run.read(path, seed=2).counts.total() == 5
    with pytest.raises(BadInput, match="runs of several seeds"):
        Run.read(path)
    with pytest.raises(BadInput, match="seed 3, allowed is a seed of this file: 1, 2"):
        Run.read(path, seed=3)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 100), st.sampled_from(["a", "b", None])), max_size=20))
def test_the_last_record_decides(changes: list[tuple[float, str | None]]) -> None:
    history = OwnerHistory()
    for at, node in changes:
        history.add(at, node)
        assert history.owner() == node
    assert history.at == sorted(history.at)


def test_work_without_ids_moves_and_belongs_to_its_home():
    move = {"kind": "move", "at": 1.0, "what": "waiting triggers", "giver": "a", "taker": "b"}
    step = {"kind": "session", "at": 2.0, "session": 1, "what": "7 subscribers", "giver": "a", "taker": "b"}
    run = Run.of([move, {**step, "step": "agreed"}, {**step, "step": "done"}])
    assert (run.owners, list(run.nodes), run.sessions["1"].what) == ({}, ["a", "b"], "7 subscribers")
