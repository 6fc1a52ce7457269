"""Chaos: whatever breaks, nothing is lost, doubled or owned twice, and without its safeguards it would be."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from evenflow.experiments import slices_chaos
from evenflow.experiments.slices_chaos import ChaosSettings
from evenflow.experiments.slices_faults import KINDS, STEPS, session_step
from evenflow.slices.messages import Ack, Action, ActionKind, Cargo, Confirm, Receipt
from evenflow.trace import MemoryTrace, line

SEEDS = range(1, 16)


def rows(seeds: range, **settings: Any) -> list[dict[str, Any]]:
    return [dict(slices_chaos.run(ChaosSettings(**settings), seed, None)) for seed in seeds]


def total(found: list[dict[str, Any]], name: str) -> int:
    return sum(row[name] for row in found)


@pytest.fixture(scope="module")
def chaos() -> list[dict[str, Any]]:
    return rows(SEEDS)


def test_nothing_is_lost_doubled_or_owned_twice(chaos):
    for row in chaos:
        assert (row["unprocessed"], row["lost"], row["duplicated"]) == (0, 0, 0)
        assert (row["owner_violations"], row["unfinished_sessions"]) == (0, 0)
        assert row["processed"] == row["items"] > 1000


def test_it_was_really_chaos(chaos):
    assert total(chaos, "faulted_sessions") > 0.5 * total(chaos, "sessions") > 100
    assert total(chaos, "rolled_back_sessions") > 30
    assert total(chaos, "items_in_flight") > 500


def test_faults_are_counted_by_kind_and_step(chaos):
    counts: Counter[tuple[str, str]] = Counter()
    for row in chaos:
        for kind, steps in row["faults"].items():
            counts.update({(kind, step): count for step, count in steps.items()})
    assert {kind for kind, _ in counts} >= set(KINDS)
    assert {step for _, step in counts} == set(STEPS.values())
    assert sum(counts.values()) > 500
    assert len(counts) > 0.8 * len(KINDS) * len(STEPS)


def test_a_fault_can_be_told_by_session_and_step():
    assert session_step(Action(3, 2, ActionKind.ADD_SLICE, (1,))) == (3, "expect")
    assert session_step(Confirm(3, 5)) == (3, "open")
    assert session_step(Cargo(4, {})) == session_step(Receipt(4)) == (4, "ship")
    assert session_step(Ack((1,))) is None


@pytest.mark.parametrize("where", ["node"])
def test_also_when_nodes_filter_for_themselves(where):
    for row in rows(range(1, 4), filter=where):
        assert (row["unprocessed"], row["lost"], row["duplicated"]) == (0, 0, 0)
        assert (row["owner_violations"], row["unfinished_sessions"]) == (0, 0)


@pytest.mark.parametrize("taken_away", [{"ablate": "merge"}, {"ablate": "buffer"}, {"order": "literal"}], ids=str)
def test_what_is_taken_away_was_needed(taken_away):
    found = rows(range(1, 6), **taken_away)
    assert total(found, "lost") + total(found, "duplicated") > 0


def test_the_printed_order_breaks_without_any_fault_but_delay():
    # both races need no more than a network that is not instantaneous
    calm = {"faulted": 0.0, "loss": 0.0, "duplication": 0.0, "reordering": 0.05}
    assert total(rows(range(1, 6), **calm), "duplicated") == total(rows(range(1, 6), **calm), "lost") == 0
    literal = rows(range(1, 6), **calm, order="literal")
    assert total(literal, "duplicated") > 0
    assert total(literal, "lost") > 0


def test_peace_brings_no_faults():
    (row,) = rows(range(1, 2), faulted=0.0, loss=0.0, duplication=0.0, reordering=0.0)
    assert row["faults"] == {}
    assert row["faulted_sessions"] == row["rolled_back_sessions"] == 0
    assert row["sessions"] > 20


def test_the_same_seed_gives_the_same_trace_byte_for_byte():
    def written(seed: int) -> str:
        trace = MemoryTrace()
        slices_chaos.run(ChaosSettings(seconds=8.0), seed, trace)
        return "\n".join(line(record) for record in trace.records)

    assert written(1) == written(1) != written(2)
