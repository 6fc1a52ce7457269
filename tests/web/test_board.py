from __future__ import annotations

import pytest
from traces import lanes, move

from evenflow.trace import Run
from evenflow.web import board


def test_the_present_of_every_node():
    run = Run.of([*lanes(4), *move(1, 2.0, 0, 0, 3)])
    nodes = board.nodes_now(run)
    assert [n.name for n in nodes] == ["lane-0", "lane-1", "lane-2", "lane-3"]
    assert [n.units for n in nodes] == [0, 1, 1, 2]
    assert [n.held_rows for n in nodes] == [0, 1, 2, 3]
    assert nodes[0].relative == pytest.approx(4 / (7 / 4))
    found = board.summary(run)
    assert (found["moves"], found["under_way"], found["units"]) == (1, 0, 4)


def test_capacities_weigh():
    records = [
        {"kind": "node", "at": 0.0, "node": "a", "step": "joined", "capacity": 3.0},
        {"kind": "node", "at": 0.0, "node": "b", "step": "joined", "capacity": 1.0},
        {"kind": "sample", "at": 1.0, "node": "a", "load": 0.5},
        {"kind": "sample", "at": 1.0, "node": "b", "load": 0.9},
    ]
    run = Run.of(records)
    assert [n.relative for n in board.nodes_now(run)] == pytest.approx([0.5 / 0.6, 0.9 / 0.6])
    assert board.evenness(run) == ([1.0], [pytest.approx(0.9 / 0.6)], [pytest.approx(0.6)])


def test_moves_with_their_phases():
    seen = board.moves_seen(Run.of([*lanes(2), *move(1, 2.0, 0, 0, 1), *move(2, 5.0, 1, 1, 0)[:3]]))
    assert [(m.at, m.units, m.outcome) for m in seen] == [(5.0, "1", "install"), (2.0, "0", "done")]
    assert (seen[1].seconds, seen[1].why, seen[1].phases) == (1.0, "least_moves", "release 0.5 s, install 0.5 s")


def test_a_drained_lane_is_said_to_drain():
    asked = {"kind": "request", "at": 3.0, "what": "rest", "value": [1], "by": "me"}
    again = {"kind": "request", "at": 4.0, "what": "use", "value": [1], "by": "me"}
    assert [n.state for n in board.nodes_now(Run.of([*lanes(2), asked]))] == ["in use", "draining"]
    assert [n.state for n in board.nodes_now(Run.of([*lanes(2), asked, again]))] == ["in use", "in use"]


def test_nothing_yet():
    run = Run()
    assert board.nodes_now(run) == []
    assert board.evenness(run) == ([], [], [])
    assert board.bounds(run) == ([], [])
    assert board.summary(run)["max_over_mean"] == 1.0


def samples(at: float, *loads: float) -> list[dict]:
    return [{"kind": "sample", "at": at, "node": f"lane-{n}", "load": load} for n, load in enumerate(loads)]


@pytest.mark.parametrize("form", [{"max_over_mean": [2.0, 1.1]}, {"before": 2.0, "after": 1.1}])
def test_a_move_shows_what_was_promised_and_what_came(form):
    plan = {"kind": "plan", "at": 1.5, "policy": "least_moves", "moves": [{"unit": 0}], **form}
    records = [*lanes(2), *move(0, 1.2, 1, 1, 0), plan, *move(1, 2.0, 0, 0, 1)]
    before = board.moves_seen(Run.of(records))
    assert [(m.predicted, m.actual) for m in before] == [
        ("max/mean 1.10", ""),
        ("", ""),
    ]  # not measured yet; no plan behind it
    run = Run.of(
        [*records, *samples(2.5, 9.0, 1.0), *samples(4.0, 9.0, 1.0), *samples(6.0, 3.0, 1.0), *samples(9.0, 1.0, 1.0)]
    )
    assert (board.moves_seen(run)[0].predicted, board.moves_seen(run)[0].actual) == ("max/mean 1.10", "max/mean 1.50")


def test_a_plan_that_was_not_carried_out_promises_nothing():
    plan = {"kind": "plan", "at": 1.5, "moves": [{"unit": 0}], "max_over_mean": [2.0, 1.1], "carried_out": False}
    (seen,) = board.moves_seen(Run.of([*lanes(2), plan, *move(1, 2.0, 0, 0, 1)]))
    assert (seen.predicted, seen.actual) == ("", "")


def test_a_move_between_two_nodes_shows_what_both_expected_and_what_came():
    steps = [{**step, "expects": {"lane-0": 2.0, "lane-1": 2.5}} for step in move(1, 2.0, 0, 0, 1)]
    (seen,) = board.moves_seen(Run.of([*lanes(2), *steps]))
    assert (seen.predicted, seen.actual) == ("giver 2, taker 2.5", "")
    (seen,) = board.moves_seen(Run.of([*lanes(2), *steps, *samples(4.0, 2.25, 2.75)]))
    assert seen.actual == "giver 2.25, taker 2.75"
    settled = {"kind": "effect", "at": 9.0, "session": 1, "node": "lane-1", "load": 2.6}
    (seen,) = board.moves_seen(Run.of([*lanes(2), *steps, *samples(4.0, 2.25, 2.75), settled]))
    assert seen.actual == "giver 2.25, taker 2.6"


def test_a_move_without_a_session_may_expect_something_too():
    given = {"kind": "move", "at": 2.0, "unit": 7, "giver": "lane-0", "taker": "lane-1", "expects": {"lane-0": 1.0}}
    (seen,) = board.moves_seen(Run.of([*lanes(2), given, *samples(4.0, 1.5, 1.25)]))
    assert (seen.predicted, seen.actual) == ("giver 1", "giver 1.5, taker 1.25")


def test_what_no_plan_could_go_below():
    plan = {"kind": "plan", "at": 1.5, "moves": [{"unit": 0}], "max_over_mean": [2.0, 1.2], "gap": 0.2}
    times, bound = board.bounds(Run.of([*lanes(2), plan, {**plan, "at": 2.5, "gap": None}]))
    assert (times, bound) == ([1.5], [pytest.approx(1.0)])


def test_units_that_are_given_out_are_no_moves():
    given = {"kind": "move", "at": 0.0, "unit": 7, "giver": None, "taker": "lane-0"}
    run = Run.of([*lanes(2), given])
    assert (board.moves_seen(run), board.summary(run)["moves"]) == ([], 0)


def test_how_even_it_was_is_shown_however_many_nodes_are_sampled_at_once():
    records = [r for at in range(500) for r in samples(float(at), *[1.0] * 14, 3.0)]
    times, ratio, _ = board.evenness(Run.of(records))
    assert 250 < len(times) <= 2 * board.POINTS
    assert times[-1] == 499.0
    assert ratio == pytest.approx([3.0 * 15 / 17] * len(ratio))


def batch(number: int, at: float, *rows: int) -> list[dict]:
    return [
        {"kind": "sample", "at": at, "node": f"lane-{n}", "load": r / 10 + 0.001 * n, "batch": number, "rows": r}
        for n, r in enumerate(rows)
    ]


def test_a_batch_without_rows_says_nothing_of_the_load():
    run = Run.of([*batch(1, 1.0, 20, 10), *batch(2, 2.0, 0, 0)])
    assert [n.load for n in board.nodes_now(run)] == pytest.approx([2.0, 1.001])
    assert board.evenness(run).at == [1.0]
    assert board.idle_batches(run) == {2}
    drained = Run.of([*batch(1, 1.0, 20, 10), *batch(2, 2.0, 30, 0)])
    assert [n.load for n in board.nodes_now(drained)] == pytest.approx([3.0, 0.001])  # an empty lane is empty


def test_a_live_run_counts_from_its_first_sample():
    assert board.beginning(Run.of(samples(1.7e9, 1.0))) == 1.7e9
    assert board.beginning(Run.of(samples(12.0, 1.0))) == 0.0
