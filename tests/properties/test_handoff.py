"""The hand-off's law holds in every delivery order, and every row of its tables is needed for that."""

from __future__ import annotations

from collections.abc import Iterator

import handoff_search as hs
import pytest
from handoff_search import Budget, search

from evenflow.slices import handoff, session
from evenflow.slices.handoff import Event, IllegalTransitionError, State, advance
from evenflow.slices.session import Happening, Phase

ONE_OF_EACH = {"loss": 1, "duplication": 1, "crash": 1, "timeout": 1}


def failures() -> Iterator[str]:
    """Look for a violation, the quick ways first."""
    checks = [
        lambda: search(Budget(), 1)[1],
        lambda: search(Budget(), 1, dying="B")[1],
        lambda: search(Budget(), 1, dying="A")[1],
        hs.first_node_dies,
        lambda: hs.back_from_silence("A"),
        lambda: hs.back_from_silence("B"),
        hs.readmitted_giver_dies,
        hs.resuming_giver_dies,
        hs.refused_by_giver,
        hs.refused_by_taker,
        *(lambda k=kind: search(Budget(**{k: 1}, total=1), 1)[1] for kind in ONE_OF_EACH),
        lambda: search(Budget(loss=1, timeout=1, total=2), 1)[1],
    ]
    for check in checks:
        try:
            wrong = check()
        except IllegalTransitionError as error:
            wrong = str(error)
        if wrong is not None:
            yield wrong


def test_no_small_order_breaks_the_law():
    assert next(failures(), None) is None


def test_items_in_flight_during_the_session():
    states, wrong = search(Budget(), 2)
    assert wrong is None
    assert states > 100  # the search really searched


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_one_fault_with_items_in_flight(kind):
    states, wrong = search(Budget(**{kind: 1}, total=1), 2, limit=700)
    assert wrong is None
    assert states > 300


@pytest.mark.long
def test_any_one_fault_with_items_in_flight_in_full():
    assert search(Budget(**ONE_OF_EACH, total=1), 2)[1] is None


@pytest.mark.long
@pytest.mark.parametrize("dying", ["A", "B"])
def test_a_node_vanishes_for_a_while_after_any_two_faults(dying):
    assert search(Budget(loss=2, duplication=2, crash=2, timeout=2, total=2), 1, dying=dying)[1] is None


@pytest.mark.parametrize("dying", ["A", "B"])
def test_a_node_vanishes_with_items_in_flight(dying):
    states, wrong = search(Budget(timeout=1, total=1), 2, limit=300, dying=dying)
    assert wrong is None
    assert states > 300


@pytest.mark.long
def test_any_two_faults():
    assert search(Budget(loss=2, duplication=2, crash=2, timeout=2, total=2), 1)[1] is None


@pytest.mark.parametrize("row", handoff.TABLE, ids=lambda row: f"{row[0].value}-{row[1].value}")
def test_every_row_of_the_hand_off_is_needed(monkeypatch, row):
    monkeypatch.delitem(handoff.TABLE, row)
    assert next(failures(), None) is not None


@pytest.mark.parametrize("row", session.TABLE, ids=lambda row: f"{row[0].value}-{row[1].value}")
def test_every_row_of_the_session_is_needed(monkeypatch, row):
    monkeypatch.delitem(session.TABLE, row)
    assert next(failures(), None) is not None


@pytest.mark.parametrize("row", session.OWES, ids=lambda row: f"{row[0].value}-{row[1].value}")
def test_everything_that_a_silent_node_is_told_later_is_needed(monkeypatch, row):
    assert row in session.TABLE
    monkeypatch.delitem(session.OWES, row)
    assert next(failures(), None) is not None


@pytest.mark.parametrize("silent", ["giver", "taker"])
def test_a_session_ends_whatever_the_other_node_answers(silent):
    """Every phase has a way on, and no way of a session with one silent node comes by the same phase twice."""

    def following(phase: Phase) -> set[Phase]:
        rows = {happening: to for (at, happening), to in session.TABLE.items() if at is phase}
        assert Happening.TIMED_OUT in rows
        if session.ACTIONS[phase].side == silent:
            return {rows[Happening.TIMED_OUT]}
        return {to for happening, to in rows.items() if happening is not Happening.TIMED_OUT}

    def longest(phase: Phase, path: tuple[Phase, ...] = ()) -> int:
        assert phase not in path, [p.value for p in (*path, phase)]
        if phase in session.ENDED:
            return 0
        return 1 + max(longest(to, (*path, phase)) for to in following(phase))

    starts = [phase for phase, _ in session.TABLE]
    assert max(longest(phase) for phase in starts) <= 8


@pytest.mark.parametrize("table", [handoff.TABLE, handoff.LITERAL], ids=["safe", "literal"])
def test_what_has_no_row_is_illegal(table):
    illegal = [(s, e) for s in State for e in Event if (s, e) not in table]
    assert illegal
    for state, event in illegal:
        with pytest.raises(IllegalTransitionError, match=state.value):
            advance(state, event, table)


def test_available_to_not_in_use_is_illegal():
    # DPSLB thesis, section 4.3.2: a slice must pass through a session to leave a node
    for event in Event:
        row = handoff.TABLE.get((State.OWNING, event))
        assert row is None or row.state is not State.ABSENT
