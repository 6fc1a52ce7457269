"""The mailbox delivers every message, wakes actors in order, and knows which broker serves each subscriber."""

from __future__ import annotations

import pytest

from evenflow.actor import Note, Received, Send, Started, Wake, Woken
from evenflow.brokers import messages as m
from evenflow.brokers.catalogue import Catalogue
from evenflow.brokers.edge import EdgeBroker
from evenflow.brokers.load import Load
from evenflow.brokers.mailbox import BrokerMailbox
from evenflow.brokers.settings import BrokerSettings
from evenflow.brokers.status import Status
from evenflow.subscriptions.language import parse_subscription

LOAD = Load(10, 0.01, 10.0, 1000.0, 100_000.0)


class Scripted:
    """Records its events, and answers each with the commands that the script has for it."""

    def __init__(self, script=None):
        self.script, self.events = script or {}, []

    def handle(self, event, now):
        self.events.append((now, event))
        return self.script.get(repr(event), [])


def mailbox_of(notes=None, load=None, listeners=None, **scripts):
    actors = {name: Scripted(script) for name, script in scripts.items()}
    return BrokerMailbox(actors, {}, listeners or {}, (notes if notes is not None else []).append, load)


def edges(names=("B1", "B2")):
    settings, catalogue = BrokerSettings(), Catalogue()
    key = catalogue.key(parse_subscription("[class,eq,'A']"))
    made = {n: EdgeBroker(n, "C", "B0", settings, catalogue, lambda low, _high: low) for n in names}
    return BrokerMailbox(made, {}, {}, lambda _record: None), key


def test_wake_ups_come_in_order_of_time_and_equal_ones_in_order_of_asking():
    wakes = [Wake(5.0, "late"), Wake(2.0, "first"), Wake(2.0, "second")]
    mailbox = mailbox_of(B1={repr(Started({})): wakes})
    mailbox.start()
    assert not mailbox.step(1.0)
    mailbox.run(4.0)
    assert mailbox.edges["B1"].events[1:] == [(2.0, Woken("first")), (2.0, Woken("second"))]
    assert mailbox.now == 4.0
    assert mailbox.step(5.0)
    assert mailbox.edges["B1"].events[-1] == (5.0, Woken("late"))


def test_time_never_runs_backwards():
    mailbox = mailbox_of(B1={repr(Started({})): [Wake(1.0, "past")]})
    mailbox.run(9.0)
    mailbox.start()
    mailbox.run(9.0)
    assert mailbox.edges["B1"].events[-1] == (9.0, Woken("past"))


def test_a_message_arrives_before_the_next_wake_up_and_the_chain_of_answers_too():
    ping, pong = m.Request("s", "input"), m.Cancel("s")
    mailbox = mailbox_of(
        B1={repr(Woken("go")): [Send("B2", ping)], repr(Started({})): [Wake(1.0, "go"), Wake(1.0, "next")]},
        B2={repr(Received("B1", ping)): [Send("B1", pong)]},
    )
    mailbox.start()
    mailbox.run(1.0)
    assert [event for _, event in mailbox.edges["B1"].events[1:]] == [Woken("go"), Received("B2", pong), Woken("next")]
    assert mailbox.messages == 2


def test_load_information_goes_to_the_listeners_and_not_to_its_sender():
    pie = Send(m.PIE_LOCAL + "C", "pie")
    listeners = {m.PIE_LOCAL + "C": {"B1", "B2"}}
    mailbox = mailbox_of(listeners=listeners, B1={repr(Started({})): [pie]}, B2={}, B3={})
    mailbox.start()
    heard = {name: [e for _, e in actor.events if isinstance(e, Received)] for name, actor in mailbox.edges.items()}
    assert heard == {"B1": [], "B2": [Received("B1", "pie")], "B3": []}


def test_listening_and_unlistening_change_who_hears():
    mailbox = mailbox_of(B1={repr(Started({})): [m.Listen("C")], repr(Woken("stop")): [m.Unlisten("C")]})
    mailbox.start()
    assert mailbox.listeners == {m.PIE_LOCAL + "C": {"B1"}}
    mailbox._execute("B1", m.Unlisten("C"))
    assert mailbox.listeners == {m.PIE_LOCAL + "C": set()}


def test_sessions_are_traced_and_notes_passed_on():
    notes = []
    reply = Send("B2", m.Reply("s", Status.OK, LOAD))
    mailbox = mailbox_of(notes, B1={repr(Started({})): [Note({"kind": "x"}), reply, Send("B2", m.AskDone("s"))]}, B2={})
    mailbox.start()
    assert [note["kind"] for note in notes] == ["x", "broker_message"]  # an AskDone is not shown
    assert (notes[1]["what"], notes[1]["status"], notes[1]["load"]) == ("Reply", "OK", {"input": 0.1, "output": 0.01})


def test_an_unknown_command_is_refused():
    with pytest.raises(TypeError, match="'nonsense' is not a command of brokers"):
        mailbox_of(B1={repr(Started({})): ["nonsense"]}).start()


def test_a_broker_is_measured_before_what_it_judges_and_not_for_its_subscribers():
    measured = []
    mailbox = mailbox_of(load=lambda name: measured.append(name) or LOAD, B1={})
    mailbox.join("S1", 0, "B1")
    assert measured == []
    mailbox.start()
    assert measured == ["B1"]
    assert [event for _, event in mailbox.edges["B1"].events][-2:] == [m.Measured(LOAD), Started({})]


def test_a_subscriber_that_joins_is_served_by_its_broker_alone():
    mailbox, key = edges()
    mailbox.join("S1", key, "B1")
    assert mailbox.home_of("S1") == "B1"
    assert [list(edge.subscribers.key_of) for edge in mailbox.edges.values()] == [["S1"], []]
    assert mailbox.changed == {"S1"}


def test_a_subscriber_that_leaves_in_the_middle_of_a_move_is_served_by_neither_broker():
    mailbox, key = edges()
    mailbox.join("S1", key, "B1")
    taker = mailbox.edges["B2"]
    taker.handle(m.Measured(LOAD), 0.0)
    taker.status = Status.OK
    mailbox._execute("B1", Send("B2", m.Request("s", "input")))
    mailbox._execute("B1", Send("S1", m.MoveOrder("s", 2, "B2")))
    mailbox._drain()
    assert [list(edge.subscribers.key_of) for edge in mailbox.edges.values()] == [["S1"], ["S1"]]
    mailbox.changed.clear()
    mailbox.leave("S1")
    assert [list(edge.subscribers.key_of) for edge in mailbox.edges.values()] == [[], []]
    assert (mailbox.home_of("S1"), mailbox.changed) == (None, {"S1"})


def test_an_order_to_leave_takes_effect_at_once():
    mailbox, key = edges()
    mailbox.join("S1", key, "B1")
    mailbox.subscribers["S1"].moving = ("s", "B2")
    mailbox._execute("B1", Send("S1", m.LeaveOrder("s")))
    mailbox._drain()
    assert mailbox.home_of("S1") == "B2"
    assert not mailbox.edges["B1"].subscribers.key_of


def test_a_message_to_a_subscriber_that_has_left_is_dropped():
    mailbox, key = edges()
    mailbox.join("S1", key, "B1")
    mailbox.leave("S1")
    mailbox._execute("B1", Send("S1", m.StayOrder("s")))
    mailbox._drain()
    assert mailbox.home_of("S1") is None
