"""Which trigger runs first: the oldest, or what changes most per second."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from evenflow.actor import Received, Send, Started
from evenflow.triggers.app import NO_ENTRY, TriggerApp, Write
from evenflow.triggers.estimate import LinePerType
from evenflow.triggers.grouping import deal
from evenflow.triggers.heartbeat import Pulse
from evenflow.triggers.master import TriggerMaster
from evenflow.triggers.messages import Events, Execute, Executed, Heartbeat, Instruct, Lend, Took
from evenflow.triggers.policies import AskWhenIdle
from evenflow.triggers.settings import WorkerSettings
from evenflow.triggers.waiting import Invocation, Waiting
from evenflow.triggers.worker import TriggerWorker


def queue(*gains):
    waiting = Waiting()
    for key, gain in enumerate(gains):
        waiting.add(Invocation("a", key), gain)
    return waiting


def test_without_gains_the_oldest_runs_first():
    waiting = queue(0.0, 0.0, 0.0)
    assert [waiting.pop().key for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("seed", range(5))
def test_the_largest_gain_runs_first_whatever_was_taken_and_raised_in_between(seed):
    chance = np.random.default_rng(seed)
    waiting: Waiting = Waiting()
    gains: dict[int, float] = {}
    popped = 0
    for _ in range(400):
        step = chance.random()
        if step < 0.6:
            key, gain = int(chance.integers(30)), float(chance.choice([0.0, 1.0, 10.0, 100.0, math.inf]))
            waiting.add(Invocation("a", key), gain)
            gains[key] = max(gain, gains.get(key, 0.0))
        elif step < 0.7 and gains:
            (taken,) = waiting.take([int(chance.choice(list(waiting.items)))])
            del gains[taken.key]
        elif gains:
            most = max(gains.values())
            assert gains[next(iter(waiting.in_order()))[1].key] == most
            assert gains.pop(waiting.pop().key) == most
            popped += 1
        assert {invocation.key for invocation in waiting.items.values()} == set(gains)
    assert popped > 50


def test_a_gain_that_grew_little_keeps_its_place_and_one_that_went_down_waits():
    waiting = queue(4.0, 4.5, 3.0)
    waiting.raised(("", "a", 0), 4.8)  # 1.2 times what it was
    assert [invocation.key for _, invocation in waiting.in_order()] == [1, 0, 2]
    waiting.raised(("", "a", 0), 5.5)
    assert [invocation.key for _, invocation in waiting.in_order()] == [0, 1, 2]
    now = {0: 1.0, 1: 4.5, 2: 0.0}
    assert [waiting.pop(lambda invocation: now[invocation.key]).key for _ in range(3)] == [1, 0, 2]
    assert not waiting.gains
    assert not waiting.present


def test_what_is_out_of_date_does_not_pile_up():
    waiting = queue(1e-6)
    for key in range(1, 5000):
        waiting.add(Invocation("a", key), 1.0)
        waiting.raised(("", "a", key), 2.0)
        assert waiting.pop().key == key
    assert len(waiting.best) < 100
    assert waiting.pop().key == 0


def test_a_queue_that_was_saved_goes_on_in_its_order():
    waiting = pickle.loads(pickle.dumps(queue(1.0, 3.0, 2.0)))
    assert [waiting.pop().key for _ in range(3)] == [1, 2, 0]


def test_two_leases_of_one_row_both_wait():
    waiting = Waiting()
    for lease in (1, 2):  # the first was taken back and lent to us again
        assert waiting.add(Invocation("a", 7, home="other", lease=lease), 1.0)
    assert {waiting.pop().lease, waiting.pop().lease} == {1, 2}


def test_who_shares_a_queue_takes_every_second_in_the_order_in_which_it_would_be_run():
    waiting = queue(1.0, 4.0, 2.0, 3.0)
    ((_, group),) = deal(waiting, LinePerType(), 0.5)
    assert [invocation.key for invocation in group] == [1, 2]


def growing() -> TriggerApp:
    app = TriggerApp("growing")
    app.table("rows", value=0.0, told=0.0)

    @app.on("rows.value", size=lambda row: row["value"] // 100, matters=lambda row: abs(row["value"] - row["told"]))
    def Tell(row):  # noqa: N802 - a trigger's name
        row["told"] = row["value"]

    return app


def worker(name="home", **settings) -> TriggerWorker:
    given = WorkerSettings(heartbeat_s=0.0, order="gain", estimate="line", first_s=1.0, **settings)
    made = TriggerWorker(name, growing(), lambda table, key: "home", given)
    made.handle(Started({}), 0.0)
    return made


def write(to, key, value):
    return to.handle(Received("outside", Events((Write("rows", (key,), "value", NO_ENTRY, value),))), 0.0)


def run_next(at):
    (ticket,) = at.state.running
    at.handle(Executed(ticket, None), 0.0)
    return next((invocation.key for invocation, *_ in at.state.running.values()), None)


def test_a_worker_runs_first_what_changes_most():
    home = worker()
    for key, value in ((0, 1.0), (1, 2.0), (2, 9.0), (3, 5.0), (1, 7.0)):  # 0 starts at once
        write(home, key, value)
    assert [run_next(home) for _ in range(4)] == [2, 1, 3, None]


@pytest.mark.parametrize(("power", "order"), [(1.0, [2, 1, None]), (0.7, [1, 2, None])])
def test_it_counts_what_the_change_costs(power, order):
    home = worker(cost_power=power)
    for size in (1, 2):
        home.handle(Took("Tell", float(size), float(size)), 0.0)  # a second for each unit of size
    write(home, 0, 1.0)
    write(home, 1, 1000.0)  # 1000 in 10 s
    write(home, 2, 150.0)  # 150 in 1 s
    assert [run_next(home) for _ in range(3)] == order


def test_a_row_that_became_small_is_judged_by_what_it_costs_now():
    home = worker()
    for size in (1, 2):
        home.handle(Took("Tell", float(size), float(size)), 0.0)
    write(home, 0, 1.0)
    write(home, 2, 10_000.0)  # 100 s
    write(home, 2, 199.0)  # 199 in 1 s
    write(home, 3, 120.0)  # 120 in 1 s
    assert [run_next(home) for _ in range(3)] == [2, 3, None]


def test_news_of_a_borrowed_row_let_its_trigger_go_earlier():
    home, taker = worker(), worker("taker")
    write(home, 9, 1.0)  # runs
    for key, value in ((1, 5.0), (2, 3.0), (3, 4.0)):
        write(home, key, value)
    sent = home.handle(Received("master", Instruct((0.0, 1), "taker", 99.0)), 0.0)
    (lend,) = (command.message for command in sent if isinstance(command, Send))
    assert isinstance(lend, Lend)
    started = taker.handle(Received("home", lend), 0.0)
    assert [command for command in started if isinstance(command, Execute)]
    news = write(home, 2, 90.0)
    for command in news:
        taker.handle(Received("home", command.message), 0.0)
    assert [run_next(taker) for _ in range(3)] == [2, 3, None]  # 1 was running already


def test_a_busy_worker_tells_its_load_again_when_others_would_take_it_to_be_through():
    pulse = Pulse(WorkerSettings(asks=True, worth_s=0.2))
    pulse.beat(4.0, 9, 0.0, ((0.0, 0), 0.0), (0.0, 0), idle=False)
    assert not pulse.due(4.0, 1.0, idle=False)
    assert not pulse.due(0.1, 5.0, idle=False)
    assert pulse.due(4.0, 5.0, idle=False)
    pulse.took((0.0, 1), 4.0, 5.0)  # the master ordered it and knows
    assert not pulse.due(4.0, 5.0, idle=False)


def test_an_unchanged_load_is_not_told_all_the_time():
    pulse = Pulse(WorkerSettings(asks=True, worth_s=0.0, patience_s=0.1))
    told = 0
    for step in range(10_000):
        if pulse.due(0.003, step * 0.001, idle=False):
            pulse.beat(0.003, 1, step * 0.001, ((0.0, 0), 0.0), (0.0, 0), idle=False)
            told += 1
    assert 1 <= told <= 101


def test_who_was_sent_work_long_ago_has_it_by_now_and_can_give_of_it():
    master = TriggerMaster(AskWhenIdle(least_s=0.1), 0.01, settle_s=0.5)

    def hear(name, load_s, now, *, asking=False):
        beat = Heartbeat(load_s, 9 if load_s else 0, 1.0, 1.0, now, asking)
        master.handle(Received(name, beat), now)
        return [command.message.taker for command in master._decide(now) if isinstance(command, Send)]

    assert hear("a", 8.0, 0.0) == []
    assert hear("b", 0.0, 0.0, asking=True) == ["b"]
    assert hear("a", 0.0, 0.1) == []  # b still has to get its 4 s
    assert hear("c", 0.0, 0.2, asking=True) == []
    assert hear("c", 0.0, 1.0, asking=True) == ["c"]  # from b, which has sent no heartbeat since
