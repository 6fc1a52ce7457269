"""The mediators of one session, whatever the order in which their messages come."""

from __future__ import annotations

import pytest
from broker_search import begin, search

from evenflow.actor import Received
from evenflow.brokers import messages as m
from evenflow.brokers.subscriber import Subscriber


def test_the_search_begins_with_both_subscribers_ordered_to_move():
    world = begin(0, 0)
    assert [type(message) for _, _, message in world.letters] == [m.Announce, m.MoveOrder, m.MoveOrder]


@pytest.mark.parametrize(("losses", "early"), [(0, 0), (1, 0), (0, 1)])
def test_every_order_ends_with_one_home_for_each_subscriber(losses, early):
    worlds, ends, faults = search(losses, early)
    assert ends > 0
    assert worlds > 10
    assert faults == []


def test_the_search_finds_a_subscriber_that_does_not_obey(monkeypatch):
    obeys = Subscriber.handle

    def stubborn(self, event, now):
        if isinstance(event, Received) and isinstance(event.message, m.StayOrder):
            self.moving = None  # stays, and does not tell the other broker
            return []
        return obeys(self, event, now)

    monkeypatch.setattr(Subscriber, "handle", stubborn)
    assert any("books of ['B1', 'B2']" in fault for fault in search(1, 0)[2])


@pytest.mark.long
@pytest.mark.parametrize(("losses", "early"), [(1, 1), (2, 1)])
def test_every_order_with_early_time_outs(losses, early):
    _, ends, faults = search(losses, early)
    assert ends > 0
    assert faults == []
