"""A few brokers and subscribers without balancers: who is served, and that nothing is lost on the way."""

from __future__ import annotations

import pytest

from evenflow.actor import Received
from evenflow.brokers import messages as m
from evenflow.brokers.catalogue import Catalogue
from evenflow.experiments.brokers.data_path import BrokerModel
from evenflow.experiments.brokers.delivery import count_deliveries
from evenflow.experiments.brokers.overlay import BrokerSpec, Overlay
from evenflow.subscriptions.language import parse_subscription

SPECS = (
    BrokerSpec("B10", "B10", None, 2000, 32, 10),
    BrokerSpec("B11", "B10", "B10", 10, 32, 10),  # so slow that its queue grows
    BrokerSpec("B12", "B10", "B10", 1000, 32, 10),
    BrokerSpec("B20", "B20", None, 2000, 32, 10),
    BrokerSpec("B21", "B20", "B20", 1000, 32, 10),
)
END = 150.0


@pytest.fixture
def world():
    """Two clusters, two messages per second until 120 s, one subscriber at the slow broker from 5 s on."""
    catalogue = Catalogue()
    key = catalogue.key(parse_subscription("[class,eq,'A']"))
    sim = Overlay(1, SPECS, (("B10", "B20"),), catalogue, ((key,),), END, model=BrokerModel(per_subscription=0.4))
    sim.publish([0.5 * n for n in range(2, 240)], [0] * 238)
    sim.start({})
    sim.at(0.0, lambda: sim.advertise("P", "[class,eq,'A']"))
    sim.at(5.0, lambda: sim.join("S", key, "B11"))
    return sim


def move(sim, at, giver, taker):
    """Let a subscriber subscribe at another broker, and leave the old one a second later."""
    sim.at(at, lambda: sim.tell("S", Received(giver, m.MoveOrder(f"{giver}{at}", 1, taker))))
    sim.at(at + 1.0, lambda: sim.tell("S", Received(giver, m.LeaveOrder(f"{giver}{at}"))))


def outcome(sim):
    sim.run(until=END)
    sim.advance(END)
    found = count_deliveries(sim)
    assert found.expected > 150
    return found.lost, found.duplicated


def test_a_subscriber_that_stays_gets_everything(world):
    assert outcome(world) == (0, 0)
    assert list(world.service.periods) == [("S", "B11")]


def test_a_move_away_from_a_backlog_loses_nothing(world):
    world.service.wait_out = False
    move(world, 30.0, "B11", "B12")
    assert outcome(world) == (0, 0)
    assert world.service.replayed > 0


def test_a_gap_stays_open_behind_a_cut_while_the_next_broker_crashes(world):
    """The replay of what the first broker had not matched waits for the cut, and comes after newer messages."""
    world.service.wait_out = False
    world.at(25.0, lambda: world.partition(("B20", "B21"), 70.0))
    move(world, 30.0, "B11", "B12")
    world.at(45.0, lambda: world.fail("B12"))
    assert outcome(world) == (0, 0)
    owed = [(replay.owed_since, replay.at) for replay in world.service.replays]
    assert min(owed)[0] < 45.0
    assert min(owed)[1] > 70.0


def test_a_broker_that_lets_go_while_the_new_home_is_down_still_owes_its_rest(world):
    world.service.wait_out = False
    move(world, 30.0, "B11", "B12")
    world.at(31.5, lambda: world.fail("B12"))  # before the first broker has heard the unsubscription
    assert outcome(world) == (0, 0)


def test_a_path_behind_a_cut_is_not_promised_before_it_is_set(world):
    world.service.wait_out = False
    world.at(25.0, lambda: world.partition(("B20", "B21"), 60.0))
    move(world, 30.0, "B11", "B21")
    world.run(until=50.0)
    assert world.service.periods["S", "B21"].path == -1
    assert outcome(world) == (0, 0)
    assert world.service.periods["S", "B21"].path > 0


def test_a_crashed_broker_comes_back_empty(world):
    world.at(30.0, lambda: world.fail("B11"))
    world.at(40.0, lambda: world.restore("B11"))
    assert outcome(world) == (0, 0)
    assert world.brokers["B11"].clients == 0
