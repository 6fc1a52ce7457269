"""A worker alone: what happens to a row while one of its triggers is under way."""

from __future__ import annotations

import pytest

from evenflow.actor import Received, Send, Started
from evenflow.triggers.app import NO_ENTRY, VERSION, TriggerApp, Write
from evenflow.triggers.messages import Events, Execute, Executed, Instruct, Lend, Result
from evenflow.triggers.settings import WorkerSettings
from evenflow.triggers.worker import FIRST_PART, NEXT_PART, TriggerWorker


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
    write(worker, 3.0, tuple(range(1000)))
    sent = lends(worker.handle(Received("master", Instruct((0.0, 1), "other", 1e9)), 0.0))
    counts = [len(lend.invocations) for lend in sent]
    assert counts[:2] == [FIRST_PART, FIRST_PART * NEXT_PART]
    assert sum(counts) == 999  # one runs here
    assert [lend.number == (0.0, 1) for lend in sent] == [False, False, True]
    for lend in sent:
        assert {("rows", invocation.key) for invocation in lend.invocations} == set(lend.rows)
