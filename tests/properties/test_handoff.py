"""The hand-off's law holds in every delivery order, and every row of its tables is needed for that."""

from __future__ import annotations

from collections.abc import Iterator

import handoff_search as hs
import pytest
from handoff_search import Budget, search

from evenflow.slices import handoff, session
from evenflow.slices.handoff import Event, IllegalTransitionError, State, advance

ONE_OF_EACH = {"loss": 1, "duplication": 1, "crash": 1, "timeout": 1}


def failures() -> Iterator[str]:
    """Look for a violation, the quick ways first."""
    checks = [
        lambda: search(Budget(), 1)[1],
        lambda: search(Budget(), 1, dying=True)[1],
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
