"""Two drivers on one checkpoint: the newer goes on, the older ends, and the log stays one sequence."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from interleavings import Program, Shelf, naps, schedules

from evenflow.errors import BadInput
from evenflow.spark.kit import drivers
from evenflow.spark.kit.control_log import ControlLog, OvertakenError
from evenflow.spark.kit.controller import Balancing
from evenflow.spark.kit.drivers import SupersededError, take_over
from evenflow.spark.kit.log_writer import Clerk
from evenflow.spark.kit.plane import Plane
from evenflow.spark.kit.requests import FOLDER as REQUESTS
from evenflow.spark.kit.routes import SETTING, Entry, Routes
from evenflow.spark.kit.storage import Storage, checked_url


def empty() -> Routes:
    return Routes(8, 4, 4)


def pin(slice_id: int) -> Entry:
    """An entry that the routes show."""
    return Entry(SETTING, 0.0, name="pin", value=[slice_id, 0])


def older(place, known: ControlLog):
    """Append one entry, as a driver that knows the log's end."""
    log = ControlLog(place, empty(), 1)
    log._end = known._end
    return log.append([pin(7)])


def newer(place, *, prune: bool):
    """Take over, append, and append again or prune: both would make too many orders."""
    log = ControlLog(place, empty(), take_over(place))
    for batch in ([pin(1), pin(2), pin(3)],) if prune else ([pin(1), pin(2)], [pin(3)]):
        for _ in range(2):  # an old driver can be in the way once
            try:
                log.append(batch)
            except OvertakenError:
                continue
            break
        else:
            raise AssertionError("overtaken twice")
    if prune:
        log.prune(log.append([]), every=1)
    return log.append([])


@pytest.mark.parametrize(
    ("orders", "prune", "least"),
    [(naps, True, 60), (schedules, False, 400), pytest.param(schedules, True, 4000, marks=pytest.mark.long)],
)
def test_an_older_driver_cannot_harm_a_newer_one_wherever_it_slept(orders, prune, least):
    state = {}

    def begin():
        place = Shelf()
        first = ControlLog(place, empty(), take_over(place))
        first.append([pin(0)])
        state.update(place=place, first=first)
        return Program(place, lambda p: older(p, first)), Program(place, lambda p: newer(p, prune=prune))

    outcomes = set()
    for count, (old, new) in enumerate(orders(begin), 1):
        place = state["place"]
        assert new.error is None, (count, new.error)
        assert old.error is None or isinstance(old.error, SupersededError), (count, old.error)
        log = ControlLog(place, empty())
        end = log.length()
        found = log.at(end).pinned
        assert found.keys() - {7} == {0, 1, 2, 3}, (count, found)
        assert end == 4 + (7 in found)
        assert 7 in found or old.error is not None  # what counts as written is there
        outcomes.add((old.error is None, 7 in found))
        with pytest.raises(
            SupersededError, match=r"^driver 1 of the checkpoint at memory stops, because driver 2 \(process \d+ on "
        ):
            state["first"].append([pin(6)])
        again = ControlLog(place, empty(), 2)
        assert again.append([pin(5)]) == end + 1
        assert ControlLog(place, empty()).at(end + 1).pinned.keys() == {*found, 5}
    assert count > least
    # It wrote before it was superseded, it wrote in its last moment, it wrote nothing that counts.
    assert outcomes == {(True, True), (False, True), (False, False)}


def test_of_drivers_that_start_at_once_each_has_its_own_number(tmp_path):
    place = Storage(tmp_path.as_uri())
    for programs in schedules(lambda: (Program(place, take_over), Program(place, take_over))):
        one, other = sorted(p.result for p in programs)
        assert other == one + 1
        drivers.check(place, other)
        with pytest.raises(SupersededError):
            drivers.check(place, one)
    assert other > 40  # twenty orders
    assert len(place.names(drivers.FOLDER)) == drivers.KEPT


def plane_at(tmp_path) -> Plane:
    return Plane(checked_url(str(tmp_path)), 8, 4, 4, ("device",), "hash", "refuse")


@pytest.fixture
def clerks(tmp_path):
    """Make clerks of one checkpoint, each with a clock of its own."""
    made = []

    def make() -> Clerk:
        made.append(Clerk(plane_at(tmp_path), Balancing(), clock=itertools.count(5.0).__next__))
        return made[-1]

    yield make
    for clerk in made:
        clerk.close()


def ask(plane: Plane, name: str, **request) -> None:
    plane.place.write(f"{REQUESTS}/{name}", json.dumps(request).encode())


def test_a_clerk_that_wakes_up_writes_and_deletes_nothing(tmp_path, clerks):
    plane = plane_at(tmp_path)
    old = clerks()
    assert old.write(0) == 0
    new = clerks()
    ask(plane, "1", what="move", moves=[[0, 1, ""]])
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    with pytest.raises(SupersededError):
        old.write(0)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
    assert new.write(0) == 1
    assert plane.place.names(REQUESTS) == []


def test_what_an_old_clerk_wrote_in_its_last_moment_is_read_by_the_new_one(tmp_path, clerks, monkeypatch):
    plane = plane_at(tmp_path)
    old = clerks()
    old.write(0)
    new = clerks()
    assert new.write(0) == 0
    with monkeypatch.context() as patched:
        patched.setattr(drivers, "check", lambda *_: None)  # it has looked, then slept
        ask(plane, "1", what="move", moves=[[0, 1, ""]])
        assert old.write(0) == 1
    ask(plane, "2", what="move", moves=[[1, 2, ""]])
    assert new.write(0) == 1  # the old driver's entry
    assert plane.place.names(REQUESTS) == ["2"]
    assert new.write(0) == 2
    assert plane.place.names(REQUESTS) == []
    assert [e.slice for e in plane.log().between(0, 2)] == [0, 1]


def test_a_state_that_an_old_task_shipped_too_late_is_cleared_away(tmp_path, clerks):
    plane = plane_at(tmp_path)
    clerk = clerks()
    ask(plane, "1", what="move", moves=[[0, 1, ""], [1, 2, ""]])
    assert clerk.write(0) == 2
    plane.place.write("ship/000000000000", b"state")
    plane.place.write("ship/000000000001", b"state")
    assert clerk.write(2) == 4
    assert clerk.write(4) == 6
    plane.place.write("ship/000000000000", b"state")
    ask(plane, "2", what="move", moves=[[2, 3, ""]])
    assert clerk.write(6) == 7
    plane.place.write("ship/000000000002", b"state")
    clerks().write(7)
    assert plane.place.names("ship") == ["000000000002"]


def test_a_driver_whose_plane_another_one_replaced_before_it_took_over_is_refused(tmp_path):
    mine = plane_at(tmp_path).settle()
    mine.confirm()
    replace(mine, slices=16).settle()  # no batch is planned yet, so nothing is fixed
    with pytest.raises(BadInput, match="16, which another driver has just settled"):
        mine.confirm()
