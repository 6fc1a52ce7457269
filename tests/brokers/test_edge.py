"""One session between two edge brokers, message by message, and what happens when one is missing."""

from __future__ import annotations

from typing import Any

import pytest
from exact import exact

from evenflow.actor import Note, Received, Send, Started, Wake, Woken
from evenflow.brokers import messages as m
from evenflow.brokers.catalogue import Catalogue
from evenflow.brokers.edge import EdgeBroker
from evenflow.brokers.load import Load
from evenflow.brokers.pie import Pie
from evenflow.brokers.settings import BrokerSettings
from evenflow.brokers.status import Status
from evenflow.brokers.subscriber import Broken, Connect, Depart, Subscriber
from evenflow.subscriptions.language import parse_subscription
from evenflow.subscriptions.press import Arrived

SETTINGS = BrokerSettings(press_samples=4)


def load(n: int, delay: float, rate: float, out: float = 1000.0) -> Load:
    return Load(n, delay, rate, out, 1e6, min(1.0, rate * delay))


class Pair:
    """Two brokers and a catalogue of three subscriptions."""

    def __init__(self, settings: BrokerSettings = SETTINGS) -> None:
        self.catalogue = Catalogue()
        self.keys = [self.catalogue.key(parse_subscription(f"[class,eq,'{c}']")) for c in "ABC"]
        self.giver = self.broker("B1", settings)
        self.taker = self.broker("B2", settings)
        for actor, measured in ((self.giver, load(60, 0.1, 12.0)), (self.taker, load(20, 0.001, 1.0))):
            actor.handle(Started({}), 0.0)
            actor.handle(m.Measured(measured), 0.0)
            actor.status = Status.OK
        for number in range(40):
            self.giver.handle(Received(f"S{number}", m.Subscribe(self.keys[number % 2])), 1.0)

    def broker(self, name: str, settings: BrokerSettings) -> EdgeBroker:
        return EdgeBroker(name, "C", "B0", settings, self.catalogue, lambda low, _high: low)

    def ask(self) -> m.Request:
        pie = Pie("B2", "C", Status.OK, (0.001, 0.001, 0.001))
        commands = self.giver.handle(Received("B2", pie), 10.0)
        return sent(commands, "B2")[0]

    def agree(self) -> tuple[m.Request, list[Any]]:
        request = self.ask()
        reply = sent(self.taker.handle(Received("B1", request), 10.1), "B1")[0]
        self.giver.handle(Received("B2", reply), 10.2)
        sample = [(self.keys[0],), (self.keys[1],), (self.keys[0],), (self.keys[1],)]
        return request, self.giver.handle(Arrived(sample), 11.0)


def sent(commands: list[Any], to: str) -> list[Any]:
    return [c.message for c in commands if isinstance(c, Send) and c.to == to]


def test_a_session_from_request_to_done():
    pair = Pair()
    request, commands = pair.agree()
    assert (pair.giver.status, pair.taker.status) == (Status.BUSY, Status.BUSY)
    announce = sent(commands, "B2")[0]
    orders = [c for c in commands if isinstance(c, Send) and isinstance(c.message, m.MoveOrder)]
    assert announce.total == len(orders) > 0
    pair.taker.handle(Received("B1", announce), 11.1)
    done: list[Any] = []
    for order in orders:
        key = pair.giver.subscribers.key_of[order.to]
        done = pair.taker.handle(Received(order.to, m.Subscribe(key, request.session, announce.total)), 12.0)
    message = sent(done, "B1")[0]
    assert message.arrived == {order.to for order in orders}
    ended = pair.giver.handle(Received("B2", message), 13.0)
    assert all(exact(sent(ended, order.to)) == exact([m.LeaveOrder(request.session)]) for order in orders)
    assert (pair.giver.status, pair.taker.status) == (Status.STABILIZING, Status.STABILIZING)
    notes = [c.record["kind"] for c in [*commands, *ended] if isinstance(c, Note)]
    assert "offload" in notes
    assert "broker_session" in notes


def test_a_broker_whose_load_is_not_known_judges_nothing_and_takes_nobody():
    pair = Pair()
    for broker in (pair.giver, pair.taker):
        broker.handle(m.Measured(None), 5.0)
    pie = Pie("B2", "C", Status.OK, (0.001, 0.001, 0.001))
    commands = [*pair.giver.handle(Received("B2", pie), 10.0), *pair.giver.handle(Woken("pie"), 10.0)]
    assert {type(command) for command in commands} == {Wake}
    assert sent(pair.taker.handle(Received("B9", m.Request("x", "input")), 11.0), "B9")[0].status is Status.BUSY
    pair.giver.handle(m.Measured(load(60, 0.1, 12.0)), 12.0)
    assert sent(pair.giver.handle(Received("B2", pie), 13.0), "B2")


def test_without_a_sample_ours_moves_nobody_and_the_session_ends():
    pair = Pair(BrokerSettings(press_samples=4, joint=True))
    request = pair.ask()
    reply = sent(pair.taker.handle(Received("B1", request), 10.1), "B1")[0]
    begun = pair.giver.handle(Received("B2", reply), 10.2)
    wake = next(c for c in begun if isinstance(c, Wake))
    ended = pair.giver.handle(Woken(wake.name), wake.at)
    assert exact(sent(ended, "B2")) == exact([m.Cancel(request.session)])
    assert (pair.giver.giving, pair.giver.status, pair.giver.subscribers.leaving) == (None, Status.STABILIZING, {})
    pair.taker.handle(Received("B1", m.Cancel(request.session)), wake.at)
    assert (pair.taker.taking, pair.taker.status) == (None, Status.STABILIZING)


def test_what_was_before_an_unknown_load_is_not_smoothed_in():
    pair = Pair()
    for actor, measured in ((pair.giver, load(60, 0.1, 35.0)), (pair.taker, load(20, 0.001, 1.0))):
        actor.handle(m.Measured(measured), 5.0)
        actor.handle(Received("B3", Pie("B3", "C", Status.OK, (0.001, 0.001, 0.001))), 6.0)
    assert pair.giver.overloaded
    pair.giver.giving = None
    for known in (None, load(30, 0.01, 30.0)):
        pair.giver.handle(m.Measured(known), 7.0)
    pair.giver.handle(Received("B3", Pie("B3", "C", Status.OK, (0.001, 0.001, 0.001))), 8.0)
    assert pair.giver.detector.indices().input == pytest.approx(0.3)


def test_a_busy_or_stabilising_broker_refuses():
    pair = Pair()
    for status in (Status.BUSY, Status.NA, Status.STABILIZING):
        pair.taker.status = status
        assert sent(pair.taker.handle(Received("B9", m.Request("x", "input")), 5.0), "B9")[0].status is status


def test_a_refusal_leads_to_the_next_and_then_to_the_head():
    pair = Pair()
    request = pair.ask()
    assert request.algorithm == "input"
    commands = pair.giver.handle(Received("B2", m.Reply(request.session, Status.BUSY)), 10.5)
    assert exact(sent(commands, "B0")) == exact([m.GlobalRequest("B1")])  # overloaded, and nobody is left to ask


def test_an_unanswered_request_counts_as_refused_and_a_late_yes_is_cancelled():
    pair = Pair()
    request = pair.ask()
    reply = sent(pair.taker.handle(Received("B1", request), 10.1), "B1")[0]
    pair.giver.handle(Woken(("reply", request.session)), 20.0)
    assert pair.giver.giving is None
    assert exact(sent(pair.giver.handle(Received("B2", reply), 21.0), "B2")) == exact([m.Cancel(request.session)])
    pair.taker.handle(Received("B1", m.Cancel(request.session)), 21.1)
    assert pair.taker.status is Status.STABILIZING


def test_who_does_not_arrive_in_time_stays():
    pair = Pair()
    request, commands = pair.agree()
    announce = sent(commands, "B2")[0]
    pair.taker.handle(Received("B1", announce), 11.1)
    done = sent(pair.taker.handle(Woken(("taken", request.session)), 500.0), "B1")[0]
    assert done.arrived == frozenset()
    ended = pair.giver.handle(Received("B2", done), 500.1)
    mover = next(c.to for c in commands if isinstance(c, Send) and isinstance(c.message, m.MoveOrder))
    assert exact(sent(ended, mover)) == exact([m.StayOrder(request.session)])
    assert not pair.giver.subscribers.leaving
    late = pair.taker.handle(Received(mover, m.Subscribe(pair.keys[0], request.session, announce.total)), 501.0)
    assert exact(sent(late, mover)) == exact([m.Refused(request.session)])


def test_a_silent_taker_is_asked_and_then_given_up():
    pair = Pair()
    request, _ = pair.agree()
    asked = [pair.giver.handle(Woken(("given", request.session)), 600.0 + n) for n in range(4)]
    assert exact([sent(commands, "B2") for commands in asked[:3]]) == exact([[m.AskDone(request.session)]] * 3)
    assert pair.giver.giving is None
    assert pair.giver.status is Status.STABILIZING


def test_a_subscriber_can_ask_how_its_move_ended():
    pair = Pair()
    request, _ = pair.agree()
    assert pair.giver.handle(Received("S0", m.AskMove(request.session)), 20.0) == []  # still under way
    pair.giver.handle(Received("B2", m.Done(request.session, frozenset({"S0"}))), 30.0)
    assert exact(sent(pair.giver.handle(Received("S0", m.AskMove(request.session)), 40.0), "S0")) == exact(
        [m.LeaveOrder(request.session)]
    )
    assert exact(sent(pair.giver.handle(Received("S39", m.AskMove("old")), 40.0), "S39")) == exact([m.StayOrder("old")])


def test_an_empty_session_frees_the_taker_and_rests():
    pair = Pair(BrokerSettings(press_samples=4, empty_backoff_s=300.0))
    for number in range(40):
        pair.giver.handle(Received(f"S{number}", m.Unsubscribe()), 2.0)
    request, commands = pair.agree()
    assert exact(sent(commands, "B2")) == exact([m.Cancel(request.session)])
    pair.giver.status = Status.OK
    pie = Pie("B2", "C", Status.OK, (0.001, 0.001, 0.001))
    assert sent(pair.giver.handle(Received("B2", pie), 60.0), "B2") == []
    assert sent(pair.giver.handle(Received("B2", pie), 320.0), "B2") != []


def test_a_watched_cluster_is_forgotten_unless_confirmed():
    pair = Pair()
    assert exact(pair.giver.handle(Received("B0", m.Watch("D", "s")), 5.0)) == exact([m.Listen("D")])
    pair.giver.handle(Received("X1", Pie("X1", "D", Status.BUSY, (0.1, 0.1, 0.01))), 6.0)
    assert "X1" in pair.giver.board.entries
    pair.giver.status = Status.BUSY
    commands = pair.giver.handle(Woken(("detect", pair.giver._detect_at)), 400.0)
    assert m.Unlisten("D") in commands
    assert "X1" not in pair.giver.board.entries


# -- what comes twice, because its answer was lost ----------------------------------------------


def test_a_request_that_comes_again_is_answered_again_and_begins_nothing_new():
    pair = Pair()
    request = pair.ask()
    first = pair.taker.handle(Received("B1", request), 10.1)
    (reply,) = sent(first, "B1")
    taking = pair.taker.taking
    for now in (10.2, 13.0):
        again = pair.taker.handle(Received("B1", request), now)
        assert exact(again) == exact([Send("B1", reply)])
        assert reply.status is Status.OK
    assert pair.taker.taking is taking


def test_a_request_of_a_session_that_is_over_is_refused_and_begins_nothing():
    pair = Pair()
    request = pair.ask()
    pair.taker.handle(Received("B1", request), 10.1)
    pair.taker.handle(Received("B1", m.Cancel(request.session)), 10.2)
    pair.taker.status = Status.OK  # it could take again
    again = pair.taker.handle(Received("B1", request), 11.0)
    assert [reply.status for reply in sent(again, "B1")] == [Status.BUSY]
    assert pair.taker.taking is None


def test_whoever_asks_again_whether_a_session_is_over_is_told_again():
    pair = Pair()
    request, commands = pair.agree()
    mover = next(c.to for c in commands if isinstance(c, Send) and isinstance(c.message, m.MoveOrder))
    assert pair.taker.handle(Received("B1", m.AskDone(request.session)), 12.0) == []  # under way
    pair.taker.handle(Received("B1", m.Announce(request.session, 2)), 12.0)
    pair.taker.handle(Received(mover, m.Subscribe(pair.keys[0], request.session, 2)), 12.5)
    (done,) = sent(pair.taker.handle(Woken(("taken", request.session)), 500.0), "B1")
    assert done.arrived == {mover}
    for now in (501.0, 502.0):
        assert sent(pair.taker.handle(Received("B1", m.AskDone(request.session)), now), "B1") == [done]


def test_a_subscriber_that_asks_again_is_told_the_same_again():
    pair = Pair()
    request, _ = pair.agree()
    pair.giver.handle(Received("B2", m.Done(request.session, frozenset({"S0"}))), 30.0)
    for now in (40.0, 100.0):
        for subscriber, order in (("S0", m.LeaveOrder), ("S1", m.StayOrder)):
            answer = pair.giver.handle(Received(subscriber, m.AskMove(request.session)), now)
            assert exact(sent(answer, subscriber)) == exact([order(request.session)])


# -- subscribers --------------------------------------------------------------------------------


@pytest.fixture
def subscriber():
    one = Subscriber(7)
    one.handle(Connect("B1"), 0.0)
    return one


def test_a_subscriber_moves_when_told_twice(subscriber):
    first = subscriber.handle(Received("B1", m.MoveOrder("s", 3, "B2")), 1.0)
    assert first[0] == Send("B2", m.Subscribe(7, "s", 3))
    assert isinstance(first[1], Wake)
    assert exact(subscriber.handle(Received("B1", m.LeaveOrder("s")), 2.0)) == exact([Depart("B1")])
    assert subscriber.home == "B2"


def test_an_order_to_move_that_comes_again_is_obeyed_again(subscriber):
    for now in (1.0, 2.0):
        (subscribed,) = sent(subscriber.handle(Received("B1", m.MoveOrder("s", 3, "B2")), now), "B2")
        assert subscribed == m.Subscribe(7, "s", 3)


def test_a_move_that_is_off_leaves_the_new_broker(subscriber):
    subscriber.handle(Received("B1", m.MoveOrder("s", 3, "B2")), 1.0)
    assert exact(subscriber.handle(Received("B1", m.StayOrder("s")), 2.0)) == exact([Send("B2", m.Unsubscribe())])
    assert (subscriber.home, subscriber.moving) == ("B1", None)


def test_orders_of_other_sessions_and_brokers_change_nothing(subscriber):
    assert subscriber.handle(Received("B9", m.MoveOrder("s", 3, "B2")), 1.0) == []
    assert subscriber.handle(Received("B1", m.LeaveOrder("s")), 2.0) == []


def test_a_broken_home_is_replaced_by_the_one_moved_to(subscriber):
    subscriber.handle(Received("B1", m.MoveOrder("s", 3, "B2")), 1.0)
    subscriber.handle(Broken("B1"), 2.0)
    assert (subscriber.home, subscriber.moving) == ("B2", None)
