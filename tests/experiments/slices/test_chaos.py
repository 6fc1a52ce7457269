"""Chaos: whatever breaks, nothing is lost, doubled or owned twice, and without its safeguards it would be."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from evenflow.experiments.slices import chaos as slices_chaos
from evenflow.experiments.slices.chaos import ChaosSettings
from evenflow.experiments.slices.faults import KINDS, LEAD_S, STEPS, VANISHING, session_step
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


CALM = {"faulted": 0.0, "loss": 0.0, "duplication": 0.0, "reordering": 0.0}
NEVER = ("lost", "duplicated", "owner_violations", "unfinished_sessions", "unowned_slices", "undrained_nodes")


def vanished(found: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    """Count at which steps givers and takers vanished."""
    return Counter({(kind, step): 1 for row in found for kind in VANISHING for step in row["faults"].get(kind, ())})


def test_nodes_that_vanish_for_good_amid_other_faults_block_nobody():
    found = rows(range(1, 7), vanish=2, seconds=30.0, nodes=7)
    for row in found:
        assert [row[name] for name in NEVER] == [0] * len(NEVER)
        assert row["processed"] + row["stranded_items"] == row["items"]
        assert row["end_s"] < 35.0
    assert len(vanished(found)) > 5
    assert total(found, "stranded_slices") > 0


def test_a_session_with_a_node_that_vanishes_ends_soon():
    found = rows(range(1, 11), vanish=1, **CALM)
    assert len(vanished(found)) > 5
    for row in found:
        assert [row[name] for name in NEVER] == [0] * len(NEVER)
        assert row["max_session_s"] < LEAD_S + 8.0  # at most eight phases of a second, and the way to the fault
    assert total(found, "stranded_slices") < 10 * 24 / 2  # most slices have a living owner


@pytest.mark.long
def test_givers_and_takers_vanish_at_every_step():
    found = rows(range(1, 201), vanish=2, seconds=30.0, nodes=7)
    assert {name: total(found, name) for name in NEVER} == dict.fromkeys(NEVER, 0)
    assert vanished(found).keys() == {(kind, step) for kind in VANISHING for step in STEPS.values()}


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
