"""Messages of other sessions and of sessions that have ended change nothing, also after a crash."""

from __future__ import annotations

import pytest
from by_hand import Node, action, item

from evenflow.actor import Received
from evenflow.slices.handoff import State
from evenflow.slices.ledger import Ledger, item_id
from evenflow.slices.messages import Cargo, Confirm, Parcel, Receipt
from evenflow.slices.session import ACTIONS, Phase

STALE = {0: Parcel({"data": ["stale"]}, Ledger(), ())}


def step(phase: Phase) -> int:
    return ACTIONS[phase].step


def taker(session: int = 5) -> Node:
    """B waits for slice 0."""
    node = Node("B")
    assert node.get(action(Phase.EXPECTING, session=session)) == [Confirm(session, 2)]
    return node


def giver(upto: Phase) -> Node:
    """A is at this phase of giving slice 0 away; it has processed item 1."""
    node = Node("A").own(0)
    node.item(item(1))
    node.commit()
    for phase in (Phase.STOPPING, Phase.REMOVING, Phase.SHIPPING):
        node.get(action(phase))
        if phase is Phase.REMOVING:
            node.wake("drained", 0.1)
        if phase is upto:
            return node
    raise AssertionError(upto)


class TestCargo:
    @pytest.mark.parametrize("session", [4, 6])
    def test_that_of_another_session_is_not_accepted(self, session):
        node = taker(5)
        assert node.get(Cargo(session, STALE), sender="A") == []
        assert node.actor.held[0].phase is State.AWAITING
        assert node.noted("merge") == []
        fresh = {0: Parcel({"data": [item_id(0, 1)]}, Ledger(), ())}
        assert node.get(Cargo(5, fresh), sender="A") == [Receipt(5)]  # its own is
        node.get(action(Phase.OPENING, session=5))
        assert node.state() == [item_id(0, 1)]

    def test_that_of_another_session_with_one_slice_in_common_is_not_accepted(self):
        node = Node("B")
        node.get(action(Phase.EXPECTING, (0,), session=5))
        node.get(action(Phase.EXPECTING, (1,), session=6))
        both = {s: Parcel({}, Ledger(), ()) for s in (0, 1)}
        assert node.get(Cargo(6, both), sender="A") == []
        assert {held.phase for held in node.actor.held.values()} == {State.AWAITING}

    def test_giver_and_taker_share_nothing(self):
        """In virtual time a message is the sender's own object: after a rollback both nodes would change one state."""
        node, state = taker(5), {"data": [1], "more": {"deep": [[2]]}}
        node.feed(Received("A", Cargo(5, {0: Parcel(state, ledger := Ledger(), ())})))
        state["data"].append(3)
        state["more"]["deep"][0].append(3)
        state["new"] = []
        ledger.add(item_id(0, 9))
        assert node.actor.held[0].state == {"data": [1], "more": {"deep": [[2]]}}
        assert item_id(0, 9) not in node.actor.held[0].ledger

    def test_what_is_merged_is_not_merged_again(self):
        node = taker(5)
        node.get(Cargo(5, {0: Parcel({"data": [1]}, Ledger(), ())}), sender="A")
        node.item(item(2))
        assert node.get(Cargo(5, STALE), sender="A") == [Receipt(5)]  # the receipt was lost
        assert node.actor.held[0].state == {"data": [1]}
        assert list(node.actor.held[0].cache) == [item(2).id]

    def test_a_session_that_went_on_is_answered_again_and_changes_nothing(self):
        node = taker(5)
        node.get(Cargo(5, {0: Parcel({"data": [1]}, Ledger(), ())}), sender="A")
        node.get(action(Phase.OPENING, session=5))
        node.start(1.0)
        assert node.get(Cargo(5, STALE), sender="A") == [Receipt(5)]
        assert node.state() == [1]

    @pytest.mark.parametrize("phase", [Phase.CLEANING, Phase.WITHDRAWING])
    def test_after_a_rollback_none_is_accepted(self, phase):
        node = taker(5)
        assert node.get(action(phase, session=5)) == [Confirm(5, step(phase))]
        assert node.get(Cargo(5, STALE), sender="A") == []
        assert 0 not in node.actor.held
        assert node.accepts == {0}  # the old reader overlaps
        node.wake("reader", 1.0)
        node.wake("reader", 1.0)
        assert node.accepts == frozenset()


class TestEnded:
    def test_the_mark_of_ended_sessions_survives_a_crash(self):
        node = Node().own(0, 1)
        node.get(action(Phase.STOPPING, (1,), session=7, over=6))
        node.start(1.0)
        assert node.get(action(Phase.STOPPING, (0,), session=5)) == []
        assert node.actor.held[0].phase is State.OWNING
        assert node.get(action(Phase.STOPPING, (0,), session=6)) == [Confirm(6, 1)]

    def test_the_mark_does_not_go_back(self):
        node = Node().own(0, 1)
        node.get(action(Phase.STOPPING, (1,), session=7, over=6))
        assert node.get(action(Phase.EXPECTING, (2,), session=8, over=3)) == [Confirm(8, 2)]
        assert node.get(action(Phase.STOPPING, (0,), session=5)) == []
        assert node.actor.held[0].phase is State.OWNING

    def test_what_is_below_the_mark_is_forgotten_and_the_rest_is_not(self):
        node = Node().own(0, 1, 2)
        for session in (3, 4):
            node.get(action(Phase.READMITTING, (0,), session=session))  # never began here
        node.get(action(Phase.STOPPING, (1,), session=5))
        node.get(action(Phase.STOPPING, (2,), session=6, over=4))
        assert (node.actor.closed, node.actor.steps) == ({4: "never began"}, {5: 1, 6: 1})
        assert (node.saved["closed"], node.saved["steps"], node.saved["over"]) == ({4: "never began"}, {5: 1, 6: 1}, 4)

    @pytest.mark.parametrize("crash", [False, True], ids=["running", "restarted"])
    @pytest.mark.parametrize("late", [Phase.STOPPING, Phase.REMOVING, Phase.SHIPPING, Phase.READMITTING])
    def test_late_actions_of_a_session_that_was_rolled_back_are_answered_and_not_done(self, late, crash):
        node = giver(Phase.STOPPING)
        node.get(action(Phase.READMITTING))
        node.get(action(Phase.RESUMING))
        if crash:
            node.start(1.0)
        assert node.get(action(late), 1.0) == [Confirm(2, step(late))]
        assert node.actor.held[0].phase is State.OWNING

    @pytest.mark.parametrize("crash", [False, True], ids=["running", "restarted"])
    def test_a_giver_that_has_the_receipt_says_that_it_is_too_late(self, crash):
        node = giver(Phase.SHIPPING)
        assert node.get(Receipt(2), sender="B") == [Confirm(2, step(Phase.SHIPPING))]
        if crash:
            node.start(1.0)
        assert node.get(action(Phase.READMITTING)) == [Confirm(2, step(Phase.READMITTING), "shipped")]
        assert node.get(action(Phase.SHIPPING)) == [Confirm(2, step(Phase.SHIPPING))]
        assert 0 not in node.actor.held

    def test_a_receipt_after_the_rollback_comes_too_late(self):
        node = giver(Phase.SHIPPING)
        node.get(action(Phase.READMITTING))
        assert node.get(Receipt(2), sender="B") == []
        assert node.actor.held[0].phase is State.HOLDING
        node.start(1.0)
        assert node.actor.shipping == {}
        node.get(action(Phase.RESUMING))
        assert node.state() == [item(1).id]

    @pytest.mark.parametrize("phase", [Phase.READMITTING, Phase.CLEANING, Phase.WITHDRAWING])
    def test_a_session_that_never_began_here_cannot_begin_after_its_rollback(self, phase):
        node = Node("B") if phase is not Phase.READMITTING else Node("A").own(0)
        assert node.get(action(phase)) == [Confirm(2, step(phase))]
        node.start(1.0)
        late = Phase.STOPPING if phase is Phase.READMITTING else Phase.EXPECTING
        before = {s: held.phase for s, held in node.actor.held.items()}
        assert node.get(action(late)) == [Confirm(2, step(late))]
        assert {s: held.phase for s, held in node.actor.held.items()} == before

    def test_a_removal_that_waits_is_not_done_after_the_rollback(self):
        node = giver(Phase.STOPPING)
        node.get(action(Phase.REMOVING))
        node.get(action(Phase.READMITTING))
        assert node.wake("drained", 0.1) == []
        assert node.actor.held[0].phase is State.HOLDING

    def test_a_removal_is_waited_for_once_and_confirmed_once(self):
        node = giver(Phase.STOPPING)
        node.wakes.clear()
        for _ in range(3):
            assert node.get(action(Phase.REMOVING)) == []
        assert len(node.wakes) == 1
        assert node.wake("drained", 0.1) == [Confirm(2, step(Phase.REMOVING))]
        assert node.get(action(Phase.REMOVING)) == [Confirm(2, step(Phase.REMOVING))]

    def test_shipping_is_confirmed_by_the_receipt_and_nothing_else(self):
        node = giver(Phase.SHIPPING)
        assert node.get(action(Phase.SHIPPING)) == []
        assert node.get(Receipt(9), sender="B") == []
        assert node.get(Receipt(2), sender="B") == [Confirm(2, step(Phase.SHIPPING))]


class TestSilentGiver:
    def test_a_taker_that_has_the_cargo_refuses_to_be_withdrawn(self):
        node = taker(5)
        node.get(Cargo(5, {0: Parcel({"data": [1]}, Ledger(), ())}), sender="A")
        (answer,) = node.get(action(Phase.WITHDRAWING, session=5))
        assert answer.outcome == "refused"
        assert node.actor.held[0].phase is State.INSTALLED
        assert node.get(action(Phase.OPENING, session=5)) == [Confirm(5, step(Phase.OPENING))]

    @pytest.mark.parametrize("readmitted", [False, True])
    def test_a_giver_that_is_back_forgets_what_the_taker_opened(self, readmitted):
        node = giver(Phase.SHIPPING)
        if readmitted:
            node.get(action(Phase.READMITTING))
        node.start(1.0)
        assert node.get(action(Phase.DISCARDING)) == [Confirm(2, step(Phase.DISCARDING))]
        assert 0 not in node.actor.held
        assert "slice/0" not in node.saved
        assert node.saved["shipping"] == {}
        assert node.get(action(Phase.READMITTING)) == [Confirm(2, step(Phase.READMITTING), "shipped")]
