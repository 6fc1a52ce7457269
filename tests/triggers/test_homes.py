"""Where rows live: a write reaches the home of every row it names, and equal keys are one row."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.actor import Received, Send, Started
from evenflow.errors import BadInput
from evenflow.spark.triggers.plane import Placed, TriggerRun, lane_name
from evenflow.triggers.app import NO_ENTRY, Entries, RowView, TriggerApp, Write
from evenflow.triggers.homes import by_hash, parts
from evenflow.triggers.local import LocalCluster
from evenflow.triggers.messages import Events, Execute, Executed, Lend, Result
from evenflow.triggers.policies import NoBalancing
from evenflow.triggers.settings import WorkerSettings
from evenflow.triggers.store import Rows
from evenflow.triggers.waiting import Invocation
from evenflow.triggers.worker import TriggerWorker


class Point(NamedTuple):
    x: int
    y: int


def totals() -> TriggerApp:
    app = TriggerApp("totals")
    app.table("regions", amounts=Entries(), total=0.0)

    @app.on("regions.amounts")
    def add_up(row: RowView) -> None:
        row["total"] = sum(row["amounts"].values())

    return app


def run(homes, lanes=2) -> TriggerRun:
    """A run that has no Spark yet: until it starts it needs none."""
    settings = WorkerSettings(heartbeat_s=0.0, reads="end", direct=True)
    return TriggerRun(None, Placed(totals, homes, settings), lanes, NoBalancing())


def posted(made: TriggerRun) -> dict[int, list[Write]]:
    return {lane: [write for events in orders for write in events.writes] for lane, orders in made._orders.items()}


# -- one write, several rows --------------------------------------------------------------------


def test_a_change_of_several_rows_goes_to_the_home_of_each():
    made = run({"a": 0, "b": 1, "c": 0})
    made.write([Write("regions", ("a", "b", "c"), "amounts", 1, 1.0)])
    assert posted(made) == {
        0: [Write("regions", ("a", "c"), "amounts", 1, 1.0)],
        1: [Write("regions", ("b",), "amounts", 1, 1.0)],
    }


def test_a_row_that_no_home_names_lives_where_its_hash_says():
    made = run({"a": 0})
    made.write([Write("regions", ("new", "a"), "amounts", 1, 1.0)])
    lane = by_hash("new", 2)
    assert {key for write in posted(made)[lane] for key in write.keys} >= {"new"}
    worker = made.placed.worker(1 - lane, 2)
    assert worker.homes("regions", "new") == lane_name(lane), "lanes and driver agree"


def test_a_write_of_no_rows_is_none():
    made = run({})
    made.write([Write("regions", (), "amounts", 1, 1.0)])
    assert posted(made) == {}


@given(
    st.lists(st.one_of(st.integers(), st.text(), st.tuples(st.text(), st.integers())), max_size=20), st.integers(1, 9)
)
def test_parts_hold_every_row_once_at_its_home(keys, workers):
    write = Write("t", tuple(dict.fromkeys(keys)), "c", NO_ENTRY, 1)
    found = list(parts(write, lambda _, key: str(by_hash(key, workers))))
    assert sorted((repr(k) for _, part in found for k in part.keys)) == sorted(map(repr, write.keys))
    assert all(str(by_hash(key, workers)) == home for home, part in found for key in part.keys)
    assert len({home for home, _ in found}) == len(found)


def test_a_borrowed_trigger_that_writes_its_own_row_among_others_writes_it_in_order():
    app = TriggerApp("own")
    app.table("t", n=0, x=0)

    @app.on("t.n")
    def both(row: RowView) -> None:
        row["x"] = 1
        row.put("t", ["own", "other"], "x", NO_ENTRY, 2)

    taker = TriggerWorker("taker", app, lambda _, key: "home", WorkerSettings(heartbeat_s=0.0, direct=True))
    taker.handle(Started({}), 0.0)
    rows = Rows(app)
    lend = Lend((0.0, 1), (Invocation("both", "own", 0.0, "home", 7),), {("t", "own"): rows.copied("t", "own")})
    (execute,) = [c for c in taker.handle(Received("home", lend), 0.0) if isinstance(c, Execute)]
    (send,) = [c for c in taker.handle(Executed(execute.ticket, 1.0), 1.0) if isinstance(c, Send)]
    events, result = send.message
    assert events == Events((Write("t", ("other",), "x", NO_ENTRY, 2),))
    assert isinstance(result, Result)
    assert [(write.keys, write.value) for write in result.writes] == [(("own",), 1), (("own",), 2)]


# -- keys ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("same", [1.0, True, np.int64(1), np.float32(1.0), np.bool_(True), Decimal(1), Fraction(1)])
def test_numbers_that_are_equal_are_one_row(same):
    assert all(by_hash(same, count) == by_hash(1, count) for count in range(1, 50))
    assert all(by_hash(("a", same), count) == by_hash(("a", 1), count) for count in range(1, 50))


def test_a_row_is_one_however_its_key_is_written():
    cluster = LocalCluster(totals(), 4)
    for order, key in enumerate((1, 1.0, np.int64(1), True)):
        cluster.put("regions", key, "amounts", order, 10.0)
    cluster.run()
    assert cluster.row("regions", 1)["total"] == 40.0
    assert by_hash(np.str_("a"), 97) == by_hash("a", 97)
    assert by_hash(Point(1, 2), 97) == by_hash((1, 2), 97)
    assert by_hash(frozenset({"a", "b", "c"}), 97) == by_hash(frozenset({"c", "b", "a"}), 97)


def test_a_key_that_other_processes_see_otherwise_is_refused():
    with pytest.raises(BadInput, match="key of type object"):
        LocalCluster(totals(), 2).put("regions", object(), "amounts", 1, 1.0)


# -- refused at the call ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (Write("region", ("a",), "amounts", 1, 1.0), "table 'region', allowed is 'regions'"),
        (Write("regions", ("a",), "amount", 1, 1.0), "column 'amount', allowed is 'amounts'"),
        (Write("regions", ("a",), "total", 1, 1.0), "declared with Entries"),
        (Write("regions", ("a",), "amounts", NO_ENTRY, {"x": 1.0}), "Entries, or a put"),
    ],
)
def test_a_write_that_no_table_can_take_is_refused_at_the_call_and_none_counts(write, said):
    made = run({"a": 0})
    good = Write("regions", ("a",), "amounts", 1, 1.0)
    with pytest.raises(BadInput, match=said):
        made.write([good, write])
    assert posted(made) == {}
    cluster = LocalCluster(totals())
    with pytest.raises(BadInput, match=said):
        cluster._write(write)


@pytest.mark.parametrize("lane", [2, -1, True, 0.0, "0"])
def test_a_home_that_is_no_lane_is_refused(lane):
    with pytest.raises(BadInput, match="the home of row 'b', allowed is a lane from 0 to 1"):
        run({"a": 0, "b": lane})


def test_rows_that_begin_on_another_lane_than_their_home_are_refused():
    made = run({"a": 1})
    rows = Rows(totals())
    rows.get("regions", "a")
    with pytest.raises(BadInput, match="row 'a' of 'regions' for lane-0, allowed is its home lane-1"):
        made.start(lambda _: rows, ())


def test_a_folder_goes_on_with_as_many_lanes_as_it_has(tmp_path):
    (tmp_path / "last.json").write_text('{"round": 4, "lanes": 2}')
    made = run({}, lanes=3)
    again = TriggerRun(None, made.placed, 3, NoBalancing(), folder=str(tmp_path))
    with pytest.raises(BadInput, match="3 lanes, allowed is 2"):
        again.resume()


def test_a_trigger_to_begin_with_must_exist():
    with pytest.raises(BadInput, match="trigger 'add', allowed is 'add_up'"):
        run({}).start(lambda _: Rows(totals()), ("add",))


def test_an_action_that_writes_what_is_not_there_is_told_so():
    for table, column, said in (("regionz", "total", "table 'regionz'"), ("regions", "totl", "column 'totl'")):
        app = totals()

        @app.on("regions.total")
        def wrong(row: RowView, table=table, column=column) -> None:
            row.set(table, "b", column, 1.0)

        cluster = LocalCluster(app)
        cluster.set("regions", "a", "total", 2.0)
        with pytest.raises(BadInput, match=said):
            cluster.run()
