"""A worker alone: what happens to a row while one of its triggers is under way."""

from __future__ import annotations

import pytest

from evenflow.actor import Received, Send, Started
from evenflow.triggers.app import NO_ENTRY, VERSION, TriggerApp, Write
from evenflow.triggers.lending import FIRST_PART, NEXT_PART
from evenflow.triggers.master import TriggerMaster
from evenflow.triggers.messages import Events, Execute, Executed, Heartbeat, Instruct, Lend, Result
from evenflow.triggers.policies import NoBalancing
from evenflow.triggers.settings import WorkerSettings
from evenflow.triggers.worker import TriggerWorker


def telling() -> TriggerApp:
    app = TriggerApp("telling")
    app.table("rows", value=0.0, told=0.0)

    @app.on("rows.value", when=lambda row: abs(row["value"] - row["told"]) > 1)
    def Tell(row):  # noqa: N802 - a trigger's name
        row["told"] = row["value"]

    return app


@pytest.fixture
def worker():
    made = TriggerWorker("home", telling(), lambda table, key: "home", WorkerSettings(heartbeat_s=0.0))
    made.handle(Started({}), 0.0)
    return made


def write(worker, value, keys=(1,)):
    return worker.handle(Received("outside", Events((Write("rows", keys, "value", NO_ENTRY, value),))), 0.0)


def of(commands, kind):
    return [command for command in commands if isinstance(command, kind)]


def lends(commands):
    return [send.message for send in of(commands, Send) if isinstance(send.message, Lend)]


def told(worker):
    return worker.state.rows.get("rows", 1)["told"]


def test_a_condition_that_fails_only_until_the_running_trigger_writes_is_asked_again(worker):
    (running,) = of(write(worker, 5.0), Execute)
    assert not of(write(worker, 0.5), Execute)  # 0.5 is near what was told so far, and far from what will be
    (again,) = of(worker.handle(Executed(running.ticket, 1.0), 1.0), Execute)
    worker.handle(Executed(again.ticket, 1.0), 2.0)
    assert told(worker) == 0.5
    assert worker.quiet


def test_the_same_while_the_trigger_is_lent(worker):
    write(worker, 3.0, (9,))  # keeps it busy
    write(worker, 5.0)
    (lend,) = lends(worker.handle(Received("master", Instruct((0.0, 1), "other", 9.0)), 0.0))
    assert [invocation.key for invocation in lend.invocations] == [1]
    write(worker, 0.5)
    lease, (place, row) = lend.invocations[0].lease, next(iter(lend.rows.items()))
    assert place == ("rows", 1)
    effect = (Write("rows", (1,), "told", NO_ENTRY, 5.0),)
    worker.handle(Received("other", Result(lease, row[VERSION], effect)), 1.0)
    assert told(worker) == 5.0
    assert len(worker.state.waiting) == 1


def test_a_large_group_goes_in_growing_parts_and_only_the_last_one_ends_the_instruction(worker):
    count = FIRST_PART * (NEXT_PART + 1) + 10
    write(worker, 3.0, tuple(range(count)))
    sent = lends(worker.handle(Received("master", Instruct((0.0, 1), "other", 1e9)), 0.0))
    counts = [len(lend.invocations) for lend in sent]
    assert counts[:2] == [FIRST_PART, FIRST_PART * NEXT_PART]
    assert sum(counts) == count - 1  # one runs here
    assert [lend.number == (0.0, 1) for lend in sent] == [False, False, True]
    for lend in sent:
        assert {("rows", invocation.key) for invocation in lend.invocations} == set(lend.rows)


def test_an_idle_worker_asks_again_only_when_it_hears_of_work_and_tells_what_it_heard():
    settings = WorkerSettings(heartbeat_s=0.0, asks=True, worth_s=1.0, patience_s=0.1)
    worker = TriggerWorker("home", telling(), lambda table, key: "home", settings, "master")

    def hears(load_s, now):
        beat = Heartbeat(load_s, 9, 1.0, 1.0, now)
        nothing_new = Write("rows", (1,), "value", NO_ENTRY, 0.0)
        return of(worker.handle(Received("other", Events((nothing_new,), beat)), now), Send)

    assert len(of(worker.handle(Started({}), 0.0), Send)) == 1
    assert hears(5.0, 0.05) == []  # the first one may still be answered
    assert hears(0.5, 0.2) == []  # not worth it
    (ask,) = hears(5.0, 0.3)
    assert ask.message.asking
    assert [(name, beat.load_s) for name, beat in ask.message.heard] == [("other", 5.0)]


def test_the_master_learns_from_what_others_heard_and_keeps_what_is_newer():
    master = TriggerMaster(NoBalancing(), 0.01, 0.5)
    late = Heartbeat(3.0, 9, 1.0, 1.0, 2.0)
    asking = Heartbeat(0.0, 0, 1.0, 1.0, 2.1, asking=True)
    master.handle(Received("b", asking._replace(heard=(("a", late),))), 2.1)
    assert [(w.id, w.load_s) for w in master.loads(2.1)] == [("a", 3.0), ("b", 0.0)]
    master.handle(Received("a", late._replace(load_s=9.0, at=1.0)), 2.2)
    assert master.loads(2.2)[0].load_s == 3.0
