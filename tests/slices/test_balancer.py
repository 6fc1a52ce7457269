"""The balancer conducts sessions action by action, keeps to its rules, and starts again from its notes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from by_hand import Hand, notification

from evenflow.actor import Note, Received, Woken
from evenflow.experiments.slices.world import BALANCER, World
from evenflow.policies import named
from evenflow.sim import Network, Simulation
from evenflow.slices.algorithm import Movement, Planned
from evenflow.slices.balancer import Drain, LoadBalancer, Pause, UseAlgorithm
from evenflow.slices.messages import Action, ActionKind, Confirm, Leave, Refused, SliceState
from evenflow.slices.publisher import Due
from evenflow.slices.session import ACTIONS, Phase
from evenflow.slices.settings import BalancerSettings, NodeSettings

ADD, REMOVE, UPDATE, SEND = ActionKind
AVAILABLE, IN_SESSION = SliceState


class Wanted:
    """An algorithm that says what it was told to, once."""

    def __init__(self, *movements: Movement) -> None:
        self.movements = list(movements)
        self.new: list[str] = []
        self.maps: list[list[str]] = []

    def on_new_node(self, node: Any) -> None:
        self.new.append(node.name)

    def analyze(self, nodes: Any, now: float) -> list[Any]:
        self.maps.append(list(nodes.nodes))
        movements, self.movements = self.movements, []
        return movements


class Balancer(Hand):
    """A balancer of four slices; A has them all, other nodes joined before anything moves."""

    def __init__(self, *others: str, **settings: Any) -> None:
        self.algorithm = Wanted()
        self.settings = BalancerSettings(slices=4, **settings)
        super().__init__(lambda: LoadBalancer(self.algorithm, self.settings), journal=True)
        self.hear("A")
        self.confirm()
        for name in others:
            self.hear(name)

    def hear(self, node: str, now: float = 0.0, **more: Any) -> list[Any]:
        return self.get(notification(node, **more), now, sender=node)

    def move(self, *movements: Movement, now: float = 1.0) -> list[Any]:
        """Let the algorithm want something, and hear of A so that it is asked."""
        self.algorithm.movements = list(movements)
        return self.hear("A", now)

    def asked(self) -> list[tuple[str, Action]]:
        """Return the actions of the sessions under way, each as sent last."""
        return [s.action(0) for s in self.actor.sessions.values()]

    def confirm(self, outcome: str = "done", now: float = 1.0, session: int | None = None) -> list[Any]:
        """Let the addressee of the oldest (or this) session's action answer."""
        number = session if session is not None else min(self.actor.sessions)
        step = self.actor.sessions[number].action(0)[1].step
        return self.get(Confirm(number, step, outcome), now, sender="somebody")

    def time_out(self, now: float = 5.0) -> list[Any]:
        """Let the wait of the only session end without an answer."""
        (session,) = self.actor.sessions.values()
        return self.feed(Woken(("timeout", session.id, session.attempt)), now)

    def phase(self) -> Phase:
        """Return the phase of the only session."""
        (session,) = self.actor.sessions.values()
        return session.phase

    def owners(self) -> str:
        return "".join(str(name) for name in self.actor.map.owner)


class TestBootstrap:
    def test_the_first_node_gets_everything_available_without_a_session(self):
        balancer = Hand(lambda: LoadBalancer(Wanted(), BalancerSettings(slices=4)))
        (granted,) = balancer.get(notification("A"), sender="A")
        assert (granted.kind, granted.state, granted.slices) == (ADD, AVAILABLE, (0, 1, 2, 3))
        assert balancer.get(Confirm(granted.session, granted.step)) == []
        assert balancer.actor.sessions == {}
        assert balancer.actor.map.owner == ["A"] * 4

    def test_later_nodes_get_nothing_but_through_sessions(self):
        balancer = Balancer()
        assert balancer.hear("B") == []
        (first,) = balancer.move(Movement("A", "B", 1))
        assert (first.kind, first.state) == (UPDATE, IN_SESSION)

    def test_nothing_moves_before_it_is_granted(self):
        balancer = Hand(lambda: LoadBalancer(Wanted(Movement("A", "B", 1)), BalancerSettings(slices=4)))
        sent = balancer.get(notification("A"), sender="A")
        assert sent[0].kind is ADD


SECTION_3_4 = {
    "literal": [
        ("A", UPDATE, IN_SESSION, None),
        ("B", ADD, IN_SESSION, None),
        ("A", REMOVE, None, None),
        ("B", UPDATE, AVAILABLE, None),
        ("A", SEND, None, "B"),
    ],
    "safe": [
        ("A", UPDATE, IN_SESSION, None),
        ("B", ADD, IN_SESSION, None),
        ("A", REMOVE, None, None),
        ("A", SEND, None, "B"),  # the one difference: the taker opens when the cache is there
        ("B", UPDATE, AVAILABLE, None),
    ],
}


class TestFiveActions:
    @pytest.mark.parametrize("order", SECTION_3_4)
    def test_each_movement_unfolds_into_five_each_confirmed_before_the_next(self, order):
        balancer = Balancer("B", order=order)
        balancer.sent.clear()
        balancer.move(Movement("A", "B", 2))
        for number, expected in enumerate(SECTION_3_4[order], 1):
            assert len(balancer.sent) == number  # no action before the one before it is confirmed
            to, message = balancer.sent[-1]
            assert (to, message.kind, message.state, message.taker) == expected
            assert message.slices == (0, 1)  # the collection as a whole
            balancer.hear("A", 1.0 + number)  # nothing else makes it go on
            assert len(balancer.sent) == number
            balancer.confirm()
        assert len(balancer.sent) == 5
        assert balancer.actor.sessions == {}
        assert balancer.owners() == "BBAA"
        assert balancer.noted("session")[-1]["step"] == "done"

    def test_the_balancer_chooses_which_unless_they_are_named(self):
        balancer = Balancer("B")
        (chosen,) = balancer.move(Movement("A", "B", 2))
        assert chosen.slices == (0, 1)
        other = Balancer("B")
        (named_ones,) = other.move(Movement("A", "B", 2, (1, 3)))
        assert named_ones.slices == (1, 3)

    def test_only_what_the_giver_has_is_moved(self):
        balancer = spread()  # B has slice 0, C has slice 1
        assert balancer.move(Movement("B", "C", 1, (3,)), now=2.0) == []
        (stop,) = balancer.move(Movement("A", "B", 1, (2,)), now=2.1)
        assert stop.slices == (2,)
        (chosen,) = balancer.move(Movement("B", "C", 2), now=2.2)
        assert chosen.slices == (0,)  # slice 2 is still on its way to B
        other = spread()
        other.move(Movement("C", "B", 1, (1,)), now=2.0)
        (first,) = other.move(Movement("B", "A", 1), now=2.1)
        assert first.slices == (0,)
        third = spread()
        third.move(Movement("C", "A", 1, (1,)), now=2.0)
        (one,) = third.move(Movement("A", "B", 1), now=2.1)
        assert one.slices == (2,)  # slice 1 is A's in the plan, but not here yet

    def test_a_timer_of_an_earlier_phase_changes_nothing(self):
        balancer = Balancer("B")
        balancer.move(Movement("A", "B", 1))
        balancer.confirm()
        assert balancer.feed(Woken(("timeout", 2, 0)), 3.0) == []
        assert balancer.feed(Woken(("resend", 2, 0)), 3.0) == []
        assert balancer.phase() is Phase.EXPECTING

    def test_the_trace_says_why(self):
        balancer = Balancer("B")
        balancer.move(Movement("A", "B", 1, why="uneven"))
        balancer.get(Confirm(2, 1, "refused", "not mine"))
        balancer.time_out()
        assert [n["why"] for n in balancer.noted("session") if n["session"] == 2] == ["uneven", "not mine", "timed out"]

    def test_each_node_hears_which_of_its_own_sessions_have_ended(self):
        balancer = spread()
        (older,) = balancer.move(Movement("A", "B", 1), now=2.0)
        (younger,) = balancer.move(Movement("C", "D", 1), Movement("C", "A", 1), now=2.1)
        assert (older.session, older.over) == (4, 4)
        assert (younger.session, younger.over) == (5, 5)

    def test_a_slice_that_moves_is_not_moved_again(self):
        balancer = Balancer("B", "C")
        balancer.move(Movement("A", "B", 2))
        assert balancer.move(Movement("A", "C", 1, (0,)), now=1.1) == []
        assert balancer.move(Movement("B", "C", 1, (0,)), now=1.2) == []  # nor given away by who does not have it
        assert balancer.actor.waiting_movements() == 0

    @pytest.mark.parametrize("step", [1, 3, 5])
    def test_a_confirmation_of_another_step_changes_nothing(self, step):
        balancer = Balancer("B")
        balancer.move(Movement("A", "B", 1))
        balancer.confirm()
        assert balancer.phase() is Phase.EXPECTING  # waits for step 2
        assert balancer.get(Confirm(2, step)) == []
        assert balancer.get(Confirm(99, 2)) == []
        assert balancer.phase() is Phase.EXPECTING

    def test_an_unconfirmed_action_is_sent_again(self):
        balancer = Balancer("B", resend_s=0.3)
        (first,) = balancer.move(Movement("A", "B", 1))
        assert balancer.wake("resend", 1.3) == []  # that of the grant, long confirmed
        assert balancer.wake("resend", 1.3) == [first]
        assert balancer.wake("resend", 1.6) == [first]

    def test_a_taker_that_does_not_answer_is_given_up(self):
        balancer = Balancer("B")
        balancer.move(Movement("A", "B", 2))
        balancer.confirm()
        balancer.wakes = [w for w in balancer.wakes if w.name[0] == "timeout" and w.name[1:] == (2, 1)]
        (readmit,) = balancer.wake("timeout", 5.0)
        assert (readmit.kind, readmit.state) == (ADD, IN_SESSION)
        for expected in (Phase.RESUMING, Phase.CLEANING):
            balancer.confirm()
            assert balancer.phase() is expected
        balancer.confirm()
        assert balancer.owners() == "AAAA"
        assert balancer.noted("session")[-1]["step"] == "rolled back"
        assert [n["step"] for n in balancer.noted("session")][2:] == [
            "stop", "expect", "readmit", "resume", "clean", "rolled back",
        ]  # fmt: skip

    def test_too_late_to_roll_back_goes_forward(self):
        balancer = Balancer("B")
        balancer.move(Movement("A", "B", 2))
        for _ in range(3):
            balancer.confirm()
        assert balancer.phase() is Phase.SHIPPING
        balancer.wakes = [w for w in balancer.wakes if w.name[0] == "timeout" and w.name[1:] == (2, 3)]
        balancer.wake("timeout", 5.0)
        balancer.confirm("shipped")
        assert balancer.phase() is Phase.OPENING
        balancer.confirm()
        assert balancer.owners() == "BBAA"


class TestSessions:
    def test_one_per_pair_and_those_of_one_giver_one_after_the_other(self):
        balancer = Balancer("B", "C")
        balancer.move(Movement("A", "B", 1), Movement("A", "C", 2))
        assert [(s.giver, s.taker) for s in balancer.actor.sessions.values()] == [("A", "B")]
        assert balancer.actor.waiting_movements() == 1
        for _ in range(4):
            balancer.confirm()
            assert len(balancer.actor.sessions) == 1
        (begun,) = balancer.confirm()
        assert begun.slices == (1, 2)
        assert [(s.giver, s.taker) for s in balancer.actor.sessions.values()] == [("A", "C")]

    def test_those_of_different_givers_side_by_side(self):
        balancer = Balancer("B", "C")
        balancer.move(Movement("A", "B", 2))
        for _ in range(5):
            balancer.confirm()
        balancer.move(Movement("A", "C", 1), Movement("B", "C", 1))
        pairs = [(s.giver, s.taker) for s in balancer.actor.sessions.values()]
        assert pairs == [("A", "C"), ("B", "C")]

    def test_a_movement_that_waits_for_a_node_that_has_left_is_dropped(self):
        # its session would give slices to a node that is no longer there
        balancer = Balancer("B", "C")
        balancer.move(Movement("A", "B", 1), Movement("A", "C", 2))
        balancer.get(Drain("C"), 1.1)
        for _ in range(5):
            balancer.confirm()
        assert "C" not in balancer.actor.map.nodes
        assert balancer.actor.sessions == {}
        assert balancer.actor.map.moving == {}
        assert balancer.owners() == "BAAA"
        (again,) = balancer.move(Movement("A", "B", 1, (1,)), now=3.0)  # they are free to go elsewhere
        assert again.slices == (1,)


class TestTheAlgorithm:
    def test_it_hears_of_new_nodes_once_and_sees_the_whole_map_on_every_notification(self):
        balancer = Balancer("B", "C")
        for node in ("A", "B", "A"):
            balancer.hear(node, 2.0)
        assert balancer.algorithm.new == ["A", "B", "C"]
        assert balancer.algorithm.maps == [["A"], ["A", "B"], *[["A", "B", "C"]] * 4]

    def test_it_is_exchanged_while_running(self):
        balancer = Balancer("B")
        balancer.move(Movement("A", "B", 1))
        other = Wanted(Movement("A", "B", 1, (3,)))
        balancer.feed(Received("operator", UseAlgorithm(other)), 2.0)
        assert other.maps == [["A", "B"]]  # asked at once
        assert balancer.actor.waiting_movements() == 1  # and the session under way goes on
        before = len(balancer.algorithm.maps)
        balancer.hear("B", 3.0)
        assert len(balancer.algorithm.maps) == before
        assert len(other.maps) == 2

    def test_what_it_notes_goes_on_the_trace(self):
        balancer = Balancer("B")
        balancer.algorithm.movements = [Note({"kind": "note", "at": 1.0, "why": "all is well"})]
        balancer.hear("A", 1.0)
        assert balancer.noted("note") == [{"kind": "note", "at": 1.0, "why": "all is well"}]

    def test_nothing_is_planned_while_paused_also_after_a_restart(self):
        balancer = Balancer("B")
        balancer.get(Pause(paused=True))
        assert balancer.move(Movement("A", "B", 1)) == []
        balancer.start(2.0)
        assert balancer.move(Movement("A", "B", 1), now=3.0) == []
        balancer.get(Pause(paused=False))
        (begun,) = balancer.hear("B", 4.0)
        assert begun.kind is UPDATE


class TestNotifications:
    @pytest.mark.parametrize("history", [5, 2])
    def test_the_last_ones_are_kept(self, history):
        balancer = Balancer(history=history)
        for number in range(9):
            balancer.hear("A", 2.0 * number, cpu=float(number))
        kept = balancer.actor.map.nodes["A"].notifications
        assert [n.properties["cpu"] for n in kept] == [float(n) for n in range(9)][-history:]

    def test_what_a_node_says_of_itself_is_on_the_trace(self):
        balancer = Balancer("B")
        assert [(n["node"], n["step"], n["capacity"]) for n in balancer.noted("node")] == [
            ("A", "joined", 1.0), ("B", "joined", 1.0),
        ]  # fmt: skip
        balancer.notes.clear()
        balancer.hear("A", 1.0, why="joined")
        assert balancer.noted("sample") == []
        balancer.hear("A", 2.0, loads={0: 3.0, 1: 1.0}, capacity=8.0)
        (sample,) = balancer.noted("sample")
        assert (sample["node"], sample["load"], sample["cpu"]) == ("A", 0.5, 50.0)
        assert balancer.actor.map.nodes["A"].capacity == 8.0  # it may change
        silent = Hand(lambda: LoadBalancer(Wanted(), BalancerSettings(slices=4), record=False))
        silent.get(notification("A"), sender="A")
        assert silent.noted("sample") == []

    def test_five_by_default(self):
        assert BalancerSettings().history == 5

    def test_another_slice_count_is_refused(self):
        balancer = Balancer()
        (refused,) = balancer.hear("B", slice_count=5)
        assert isinstance(refused, Refused)
        assert "5 slices" in refused.why
        assert "4" in refused.why
        assert "B" not in balancer.actor.map.nodes
        assert balancer.noted("refusal")[0]["node"] == "B"
        assert balancer.algorithm.new == ["A"]

    def test_surplus_nodes_are_reported(self):
        balancer = Balancer("B", "C", "D")
        assert not [n for n in balancer.noted("node") if n["step"] == "surplus"]
        balancer.hear("E")
        (surplus,) = [n for n in balancer.noted("node") if n["step"] == "surplus"]
        assert surplus["node"] == "E"
        assert "5 nodes, 4 slices" in surplus["why"]

    def test_a_silent_node_takes_part_in_no_plan(self):
        balancer = Balancer("B")
        assert balancer.actor.map.usable(7.9) == ["A", "B"]
        balancer.hear("A", 9.0)
        assert balancer.actor.map.usable(9.0) == ["A"]
        balancer.hear("B", 9.5)
        assert balancer.actor.map.usable(9.5) == ["A", "B"]


def spread(**settings: Any) -> Balancer:
    """Return a balancer whose four slices are on A (two), B and C."""
    balancer = Balancer("B", "C", **settings)
    balancer.move(Movement("A", "B", 1), Movement("A", "C", 1))
    for _ in range(10):
        balancer.confirm()
    assert balancer.owners() == "BCAA"
    return balancer


class TestElasticity:
    def finish(self, balancer: Balancer, now: float) -> None:
        while balancer.actor.sessions:
            balancer.confirm(now=now)

    def test_an_idle_node_is_drained_and_leaves(self):
        balancer = spread(idle_below=20.0, idle_for=6.0)
        for now in (2.0, 4.0, 6.0):
            for node in "ABC":
                balancer.hear(node, now, cpu=10.0 if node == "B" else 50.0)
            assert balancer.actor.sessions == {}
        (begun,) = balancer.hear("B", 8.0, cpu=10.0)
        assert begun.slices == (0,)
        self.finish(balancer, 8.5)
        assert balancer.hear("B", 10.0, cpu=0.0) == [Leave()]
        assert [(n["step"], n["node"]) for n in balancer.noted("node")][-2:] == [("draining", "B"), ("let go", "B")]
        assert "B" not in balancer.actor.map.nodes
        assert "B" not in balancer.owners()

    def test_work_in_between_makes_it_wait_anew(self):
        balancer = spread(idle_below=20.0, idle_for=6.0)
        for now, cpu in ((2.0, 10.0), (4.0, 10.0), (6.0, 30.0), (8.0, 10.0), (10.0, 10.0), (12.0, 10.0)):
            balancer.hear("B", now, cpu=cpu)
            assert not [n for n in balancer.noted("node") if n["step"] == "draining"]
        balancer.hear("A", 13.9)
        balancer.hear("B", 14.0, cpu=10.0)
        assert [n["node"] for n in balancer.noted("node") if n["step"] == "draining"] == ["B"]

    def test_the_last_node_is_never_drained(self):
        balancer = Balancer(idle_below=20.0, idle_for=2.0)
        for now in range(2, 30, 2):
            balancer.hear("A", float(now), cpu=0.0)
        assert "A" in balancer.actor.map.nodes
        assert not [n for n in balancer.noted("node") if n["step"] == "draining"]

    def test_idle_nodes_are_drained_one_at_a_time(self):
        balancer = spread(idle_below=20.0, idle_for=2.0)
        for now in (2.0, 4.0, 6.0):
            for node in "ABC":
                balancer.hear(node, now, cpu=1.0)
        assert len([n for n in balancer.noted("node") if n["step"] == "draining"]) == 1

    def test_idle_needs_no_drain_when_it_is_off(self):
        balancer = spread()
        for now in range(2, 60, 2):
            balancer.hear("B", float(now), cpu=0.0)
        assert not [n for n in balancer.noted("node") if n["step"] == "draining"]

    def test_a_node_is_drained_on_request_and_gives_to_the_least_loaded(self):
        balancer = spread()
        balancer.hear("C", 2.0, loads={1: 5.0})
        balancer.hear("B", 2.0, loads={0: 1.0})
        balancer.get(Drain("A"), 2.5)
        self.finish(balancer, 3.0)
        assert balancer.owners() == "BCBB"
        assert balancer.hear("A", 4.0) == [Leave()]

    def test_a_node_that_did_not_hear_it_is_told_again_and_may_come_back(self):
        balancer = spread()
        balancer.get(Drain("B"), 2.0)
        self.finish(balancer, 2.5)
        assert balancer.hear("B", 4.0) == [Leave()]
        assert balancer.hear("B", 6.0) == [Leave()]
        balancer.hear("B", 8.0, why="joined")
        assert "B" in balancer.actor.map.nodes
        assert balancer.hear("B", 10.0) == []
        balancer.start(11.0)
        assert balancer.hear("B", 12.0) == []

    def test_what_it_has_is_spread_over_the_others(self):
        balancer = Balancer("B", "C")
        balancer.get(Drain("A"), 1.0)
        self.finish(balancer, 2.0)
        assert Counter(balancer.owners()) == {"B": 2, "C": 2}
        loaded = Balancer("B", "C")
        loaded.hear("A", 1.0, loads={0: 6.0, 1: 2.0, 2: 2.0, 3: 1.0})
        loaded.get(Drain("A"), 1.0)
        self.finish(loaded, 2.0)
        assert loaded.owners() == "BCCC"

    def test_a_second_request_and_one_for_a_stranger_change_nothing(self):
        balancer = spread()
        balancer.get(Drain("B"), 2.0)
        assert balancer.get(Drain("B"), 2.1) == []
        assert balancer.get(Drain("Z"), 2.2) == []
        assert len([n for n in balancer.noted("node") if n["step"] == "draining"]) == 1

    def test_a_node_that_joins_has_not_been_idle(self):
        balancer = spread(idle_below=20.0, idle_for=6.0)
        balancer.hear("A", 8.0)
        balancer.hear("B", 2.0, cpu=0.0, why="joined")
        balancer.hear("B", 8.0, cpu=0.0)
        assert not [n for n in balancer.noted("node") if n["step"] == "draining"]

    def test_after_one_has_left_the_others_must_idle_again(self):
        balancer = spread(idle_below=20.0, idle_for=6.0)
        for now in (2.0, 4.0, 6.0, 8.0):
            for node in "ABC":
                balancer.hear(node, now, cpu=50.0 if node == "A" else 1.0)
        self.finish(balancer, 8.5)
        balancer.hear("B", 9.0, cpu=1.0)
        for node in "AC":
            balancer.hear(node, 10.0, cpu=50.0 if node == "A" else 1.0)
        assert [n["node"] for n in balancer.noted("node") if n["step"] == "draining"] == ["B"]

    def test_a_draining_node_gets_nothing_new(self):
        balancer = spread()
        balancer.get(Drain("C"), 2.0)
        assert "C" not in balancer.actor.map.usable(2.0)

    def test_what_it_was_just_given_is_given_on(self):
        balancer = Balancer("B")
        balancer.move(Movement("A", "B", 2))
        balancer.get(Drain("B"), 1.5)
        self.finish(balancer, 2.0)
        balancer.hear("B", 4.0)  # now it has them, and gives them back
        self.finish(balancer, 4.5)
        assert balancer.owners() == "AAAA"
        assert balancer.hear("B", 6.0) == [Leave()]


FORWARD = [Phase.STOPPING, Phase.EXPECTING, Phase.REMOVING, Phase.SHIPPING, Phase.OPENING]
BACK = [Phase.READMITTING, Phase.RESUMING, Phase.CLEANING]


class TestRestart:
    @pytest.mark.parametrize("phase", [*FORWARD, *BACK], ids=lambda p: p.value)
    def test_it_goes_on_from_every_phase(self, phase):
        balancer = Balancer("B", "C")
        balancer.move(Movement("A", "B", 2), Movement("A", "C", 1))
        back = phase in BACK
        for _ in range(1 if back else FORWARD.index(phase)):
            balancer.confirm()
        if back:
            balancer.confirm("refused")  # by the taker
            for _ in range(BACK.index(phase)):
                balancer.confirm()
        assert balancer.phase() is phase
        before = balancer.asked()
        sent = balancer.start(5.0)
        assert [(to, a._replace(over=0)) for to, a in before] == balancer.asked()
        assert [m.step for m in sent] == [ACTIONS[phase].step]  # the action is sent again
        assert not balancer.actor.waiting_movements()  # what had not begun is for the algorithm to want again
        while balancer.actor.sessions:
            balancer.confirm(now=5.5)
        assert balancer.owners() == ("AAAA" if back else "BBAA")
        assert balancer.actor.map.moving == {}
        for node in "BC":
            balancer.hear(node, 6.0)
        (begun,) = balancer.move(Movement("A", "C", 1, (3,)), now=6.0)
        assert begun.session > 2  # no id is used twice

    @pytest.mark.parametrize("outcome", ["done", "rolled back"])
    def test_it_knows_who_has_what_after_sessions_that_have_ended(self, outcome):
        balancer = Balancer("B")
        balancer.move(Movement("A", "B", 2))
        if outcome == "rolled back":
            balancer.confirm("refused")
        while balancer.actor.sessions:
            balancer.confirm()
        balancer.start(5.0)
        assert balancer.owners() == ("BBAA" if outcome == "done" else "AAAA")
        assert balancer.actor.map.moving == {}
        assert balancer.actor.sessions == {}

    def test_it_stays_paused_although_the_algorithm_was_exchanged(self):
        balancer = Balancer("B")
        balancer.get(Pause(paused=True))
        balancer.get(UseAlgorithm(balancer.algorithm))
        balancer.start(2.0)
        assert balancer.actor.paused

    def test_the_first_grant_is_repeated_not_made_anew(self):
        balancer = Hand(lambda: LoadBalancer(Wanted(), BalancerSettings(slices=4)), journal=True)
        (granted,) = balancer.get(notification("A"), sender="A")
        (again,) = balancer.start(1.0)
        assert again == granted
        assert balancer.get(notification("B"), 2.0, sender="B") == []  # B is not the first node

    def test_a_node_that_was_being_drained_still_is(self):
        balancer = spread()
        balancer.get(Drain("B"), 2.0)
        balancer.start(3.0)
        for node in "ABC":
            balancer.hear(node, 3.5)
        while balancer.actor.sessions:
            balancer.confirm(now=4.0)
        assert balancer.hear("B", 5.0) == [Leave()]
        assert "B" not in balancer.owners()

    def test_who_was_let_go_stays_away(self):
        balancer = spread()
        balancer.get(Drain("B"), 2.0)
        while balancer.actor.sessions:
            balancer.confirm(now=2.5)
        assert balancer.hear("B", 3.0) == [Leave()]
        balancer.start(4.0)
        assert balancer.hear("B", 5.0) == [Leave()]
        assert "B" not in balancer.actor.map.nodes


class TestSilence:
    """What a node did not hear it is told until it confirms, and until then it takes part in nothing."""

    def silent_taker(self) -> Balancer:
        """B expected slices 0 and 1, fell silent, and does not know that A has them again."""
        balancer = Balancer("B", "C")
        balancer.move(Movement("A", "B", 2))
        balancer.confirm()
        balancer.time_out()
        balancer.confirm()
        balancer.confirm()
        assert balancer.phase() is Phase.CLEANING
        (clean,) = balancer.time_out()
        assert (clean.step, clean.slices) == (ACTIONS[Phase.CLEANING].step, (0, 1))
        assert balancer.actor.sessions == {}
        assert balancer.owners() == "AAAA"
        return balancer

    def silent_giver(self, upto: Phase) -> Balancer:
        """A fell silent in this phase and does not answer to be readmitted either; B is asked to withdraw."""
        balancer = Balancer("B", "C")
        balancer.move(Movement("A", "B", 2), Movement("A", "C", 1))
        while balancer.phase() is not upto:
            balancer.confirm()
        balancer.time_out()
        assert balancer.phase() is Phase.READMITTING
        (withdraw,) = balancer.time_out()
        assert (balancer.sent[-1].to, withdraw.kind, withdraw.state) == ("B", REMOVE, IN_SESSION)
        return balancer

    def test_a_taker_is_told_again_and_again_until_it_confirms(self):
        balancer = self.silent_taker()
        (again,) = balancer.wake("tell", 7.0)
        assert (balancer.sent[-1].to, again.step) == ("B", ACTIONS[Phase.CLEANING].step)
        assert balancer.get(Confirm(2, 5), 8.0) == []  # another step
        assert balancer.get(Confirm(2, 8, "refused"), 8.0) == []
        assert balancer.get(Confirm(3, 8), 8.0) == []  # another session
        assert balancer.wake("tell", 9.0) == [again]
        balancer.get(Confirm(2, 8), 9.5)
        assert balancer.noted("told")[-1]["node"] == "B"
        assert balancer.wake("tell", 11.0) == []

    def test_until_then_it_takes_part_in_nothing(self):
        balancer = self.silent_taker()
        for node in "ABC":
            balancer.hear(node, 6.0)
        assert balancer.actor.map.usable(6.0) == ["A", "C"]
        assert balancer.move(Movement("A", "B", 1), now=6.0) == []
        assert balancer.owners() == "AAAA"
        assert balancer.actor.map.moving == {}
        balancer.get(Drain("B"), 6.0)
        assert balancer.hear("B", 6.5) == []  # it is not let go with a remainder
        balancer.get(Confirm(2, 8), 7.0)
        assert balancer.hear("B", 7.5) == [Leave()]

    def test_a_restart_forgets_neither_what_is_owed_nor_what_is_settled(self):
        balancer = self.silent_taker()
        (again,) = balancer.start(6.0)
        assert (balancer.sent[-1].to, again.step) == ("B", ACTIONS[Phase.CLEANING].step)
        balancer.hear("B", 6.5)
        assert balancer.actor.map.usable(6.5) == []
        balancer.get(Confirm(2, 8), 7.0)
        assert balancer.actor.map.usable(7.0) == ["B"]
        assert balancer.start(8.0) == []

    def test_its_mark_of_ended_sessions_waits_for_it_and_nobody_elses_does(self):
        balancer = self.silent_taker()
        (stop,) = balancer.move(Movement("A", "C", 1), now=6.0)
        assert (stop.session, stop.over) == (3, 3)
        (clean,) = balancer.wake("tell", 7.0)
        assert (clean.session, clean.over) == (2, 2)

    @pytest.mark.parametrize("upto", [Phase.STOPPING, Phase.REMOVING, Phase.SHIPPING])
    def test_a_silent_giver_keeps_what_the_taker_does_not_have(self, upto):
        balancer = self.silent_giver(upto)
        (readmit,) = balancer.confirm()
        assert (balancer.sent[-1].to, readmit.step) == ("A", ACTIONS[Phase.READMITTING].step)
        assert balancer.actor.sessions == {}
        assert balancer.owners() == "AAAA"
        assert balancer.noted("session")[-1]["step"] == "rolled back"
        (resume,) = balancer.get(Confirm(2, readmit.step), 20.0)  # it is back
        assert (balancer.sent[-1].to, resume.step) == ("A", ACTIONS[Phase.RESUMING].step)
        assert balancer.actor.map.untold == {"A"}
        balancer.get(Confirm(2, resume.step), 20.1)
        assert balancer.actor.map.untold == set()

    def test_the_taker_opens_what_it_has_and_a_silent_giver_forgets_it(self):
        balancer = self.silent_giver(Phase.SHIPPING)
        discard, opened = balancer.confirm("refused")
        assert (discard.kind, discard.state, discard.step) == (REMOVE, AVAILABLE, ACTIONS[Phase.DISCARDING].step)
        assert opened.step == ACTIONS[Phase.OPENING].step
        balancer.confirm()
        assert balancer.owners() == "BBAA"
        assert balancer.actor.map.untold == {"A"}
        balancer.get(Confirm(2, discard.step), 20.0)
        assert balancer.actor.map.untold == set()

    def test_what_a_silent_giver_was_to_give_next_stays_with_it(self):
        balancer = self.silent_giver(Phase.STOPPING)
        assert balancer.actor.waiting_movements() == 0
        assert balancer.owners() == "BBAA"
        assert balancer.actor.map.moving == {0: "A", 1: "A"}

    def test_a_giver_that_has_not_heard_that_it_may_resume_gives_nothing(self):
        balancer = Balancer("B", "C")
        balancer.move(Movement("A", "B", 2))
        balancer.confirm("refused")
        balancer.confirm()
        assert balancer.phase() is Phase.RESUMING
        balancer.time_out()
        balancer.confirm()
        assert balancer.actor.sessions == {}
        assert balancer.move(Movement("A", "C", 1, (3,)), now=6.0) == []
        assert balancer.owners() == "AAAA"

    def test_with_both_silent_it_asks_them_in_turn(self):
        balancer = self.silent_giver(Phase.SHIPPING)
        for phase in (Phase.READMITTING, Phase.WITHDRAWING, Phase.READMITTING):
            balancer.time_out()
            assert balancer.phase() is phase
        balancer.confirm()
        assert balancer.phase() is Phase.RESUMING

    def test_a_movement_to_a_node_that_fell_silent_while_it_waited_is_dropped(self):
        balancer = Balancer("B", "C")
        balancer.move(Movement("A", "B", 1), Movement("A", "C", 1), now=1.0)
        balancer.hear("A", 20.0)
        while balancer.actor.sessions:
            balancer.confirm(now=20.0)
        assert balancer.owners() == "BAAA"
        assert balancer.actor.map.moving == {}

    def test_a_node_that_vanishes_while_it_is_drained_keeps_no_other_from_leaving(self):
        balancer = spread(idle_below=20.0, idle_for=6.0)
        balancer.get(Drain("C"), 2.0)
        balancer.time_out(4.0)
        for now in (10.0, 12.0, 14.0, 16.0):
            for node in "AB":
                balancer.hear(node, now, cpu=10.0 if node == "B" else 50.0)
        assert [n["node"] for n in balancer.noted("node") if n["step"] == "draining"] == ["C", "B"]


def traffic(rate: float, seconds: float = 40.0) -> tuple[Counter, int]:
    """Count the messages to and from the balancer of a small world at some rate of items."""
    messages: Counter = Counter()

    def see(sender: str, to: str, message: object, _: float) -> None:
        if BALANCER in (sender, to):
            messages[type(message).__name__] += 1

    settings = NodeSettings(slices=12, speed=1e6, drain_s=0.01)
    sim = Simulation(1, Network(delay=0.002, intercept=see))
    balancing = BalancerSettings(slices=12)
    world = World(sim, settings, balancing, lambda: Planned(named("even_counts"), name="even_counts"))
    for number in range(3):
        world.join(f"node-{number}")
    items = round(rate * seconds)
    world.publish(Due(n / rate, n % 12) for n in range(items))
    sim.run(until=seconds + 2.0)
    return messages, world.written()


def test_its_traffic_does_not_grow_with_the_rate_of_items():
    (slow, few), (fast, many) = traffic(5.0), traffic(100.0)
    assert many == 20 * few
    assert slow == fast
    assert slow["Notification"] > 50
    assert slow["Action"] == slow["Confirm"] > 10


def test_a_late_confirmation_of_the_grant_leaves_the_sessions_after_it_alone():
    """Found on real processes: the first node answered late, and slices under way were taken for free ones."""
    from evenflow.actor import Note, Received, Started
    from evenflow.policies import EvenCounts
    from evenflow.slices.algorithm import Planned
    from evenflow.slices.balancer import LoadBalancer
    from evenflow.slices.messages import Confirm, Notification
    from evenflow.slices.settings import BalancerSettings

    def balancer():
        return LoadBalancer(Planned(EvenCounts()), BalancerSettings(slices=4))

    live, notes = balancer(), []

    def hear(message, now):
        notes.extend(c.record for c in live.handle(Received("", message), now) if type(c) is Note)

    hear(Notification("a", 4, {"cpu": 0.0}, {}, 1.0, "joined"), 0.0)
    hear(Notification("b", 4, {"cpu": 0.0}, {}, 1.0, "joined"), 1.0)
    moving = dict(live.map.moving)
    assert moving
    hear(Confirm(1, 1), 2.0)
    assert live.map.moving == moving
    again = balancer()
    again.handle(Started({"notes": notes}), 3.0)
    assert (again.map.moving, again.map.owner) == (moving, live.map.owner)
