"""Leases: the end of one changes no other, and each ends at its moment."""

from __future__ import annotations

import pytest

from evenflow.actor import Received, Send, Started, Woken
from evenflow.triggers.app import NO_ENTRY, VERSION, TriggerApp, Write
from evenflow.triggers.leases import Leases
from evenflow.triggers.messages import Events, Instruct, Lend, Result
from evenflow.triggers.settings import WorkerSettings
from evenflow.triggers.worker import TriggerWorker


def lending(*values: float, **settings) -> tuple[TriggerWorker, Lend]:
    """A worker that has lent a trigger of row 1 for each of the values, at 1.0; row 9 keeps it busy."""
    app = TriggerApp("telling")
    app.table("rows", value=0.0, told=0.0)

    @app.on("rows.value", when=lambda row: abs(row["value"] - row["told"]) > 1)
    def tell(row):
        row["told"] = row["value"]

    worker = TriggerWorker("home", app, lambda table, key: "home", WorkerSettings(heartbeat_s=0.0, **settings))
    worker.handle(Started({}), 0.0)
    write(worker, 3.0, 9)
    for value in values:
        write(worker, value)
    commands = worker.handle(Received("master", Instruct((0.0, 1), "other", 9.0)), 1.0)
    sent = [command.message for command in commands if isinstance(command, Send)]
    (lend,) = (body for body in sent if isinstance(body, Lend))
    return worker, lend


def write(worker, value, key=1):
    worker.handle(Received("outside", Events((Write("rows", (key,), "value", NO_ENTRY, value),))), 1.0)


def test_the_end_of_an_old_lease_does_not_free_a_newer_one():
    leases = Leases()
    old = leases.grant("tell", "rows", 1, "a", 0.0)
    new = leases.grant("tell", "rows", 1, "b", 1.0)
    assert leases.close(old).taker == "a"
    assert leases.lent == {("tell", 1): new}
    assert leases.takers == {("rows", 1): {"b": 1}}
    assert leases.close(old) is None
    assert leases.close(new).taker == "b"
    assert (leases.lent, leases.takers, leases.open) == ({}, {}, {})


def test_a_change_is_not_missed_while_the_newer_of_two_leases_is_open():
    worker, lend = lending(5.0, 7.0, coalesce=False)
    first, second = (invocation.lease for invocation in lend.invocations)
    row = worker.state.rows.get("rows", 1)
    version = row[VERSION]

    def tells(lease, read, value):
        worker.handle(Received("other", Result(lease, read, (Write("rows", (1,), "told", NO_ENTRY, value),))), 2.0)

    tells(first, version - 1, 5.0)
    write(worker, 5.5)  # near what was told, and far from what the second one will tell
    tells(second, version, 7.0)
    assert row["told"] == 7.0
    assert len(worker.state.waiting) == 1


@pytest.mark.parametrize(("since", "lease_s"), [(1.0, 2.0), (0.1, 0.7), (0.3, 0.1), (2.3, 0.7)])
def test_a_lease_is_overdue_at_its_moment_and_not_before(since, lease_s):
    leases = Leases()
    number = leases.grant("tell", "rows", 1, "a", since)
    assert leases.overdue(since + lease_s - 1e-6, lease_s) == []
    assert leases.overdue(since + lease_s, lease_s) == [number]


def test_a_worker_takes_a_group_back_when_its_time_is_over():
    worker, lend = lending(5.0, lease_s=2.0)
    worker.handle(Woken("leases"), 2.999)
    assert len(worker.state.leases.open) == 1
    worker.handle(Woken("leases"), 3.0)
    assert (worker.state.leases.open, worker.state.counts["taken_back"]) == ({}, 1)
    late = Result(lend.invocations[0].lease, 2, (Write("rows", (1,), "told", NO_ENTRY, 5.0),))
    worker.handle(Received("other", late), 3.1)
    assert worker.state.rows.get("rows", 1)["told"] == 0.0
