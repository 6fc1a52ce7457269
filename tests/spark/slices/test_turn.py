from __future__ import annotations

import pyarrow as pa
import pytest

from evenflow.slices import handoff
from evenflow.slices.handoff import Event, State
from evenflow.spark.kit.orders import EXPECT, RELEASE, Order
from evenflow.spark.slices.cells import UnreadableStateError, decode_state, to_cell
from evenflow.spark.slices.turn import INSTALL, RECEIPT, Job, ProcessError, StrayRowsError, Turn


class Kept:
    """A key's memory, and the files that travel."""

    def __init__(self) -> None:
        self.value = None
        self.waiting = []
        self.files = {}
        self.bucket = self.save_bucket = self.drop_buckets = None  # no state here grows that large

    def load(self):
        return self.value

    def save(self, phase, state):
        self.value = (phase, state)

    def clear(self):
        self.value = None

    def hold(self, cell):
        self.waiting.append(cell)

    def held(self):
        found, self.waiting = self.waiting, []
        return found

    def send(self, session, slice_id, state):
        self.files[session, slice_id] = state

    def receive(self, session, slice_id):
        return self.files[session, slice_id]


def gather(rows, state):
    """Remember every item in the order it came."""
    return rows, [*(state or []), *rows["item"].to_pylist()]


class Pair:
    """A home and another lane of one slice."""

    def __init__(self, process=gather) -> None:
        self.job = Job(process)
        self.home, self.other = Kept(), Kept()
        self.other.files = self.home.files

    def turn(self, at, *orders, items=()):
        cells = [to_cell(pa.table({"item": list(items)}))] if items else []
        numbered = [Order(n, what, 0) for n, what in enumerate(orders)]
        turn = Turn(self.job, 3, at, at, home=at is self.home)
        return [i for table in turn.run(numbered, cells) for i in table["item"].to_pylist()]

    def state(self, at):
        return (at.value[0], decode_state(at.value[1], lambda: None))


def there_and_back(pair: Pair) -> list[int]:
    """A whole move with rows held, and a move back without; returns what came out."""
    home, other = pair.home, pair.other
    out = pair.turn(home, items=[1, 2])
    out += pair.turn(home, RELEASE, items=[3])
    out += pair.turn(other, EXPECT)
    out += pair.turn(other, items=[4])  # the install is late
    out += pair.turn(other, items=[5])
    out += pair.turn(other, INSTALL, items=[6])
    out += pair.turn(home, RECEIPT)
    out += pair.turn(other, RELEASE, items=[7])
    out += pair.turn(home, EXPECT)
    out += pair.turn(home, INSTALL, items=[8])
    out += pair.turn(other, RECEIPT)
    return out


def test_a_slice_goes_there_and_back_in_order():
    pair = Pair()
    assert there_and_back(pair) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert pair.state(pair.home) == ("owning", [1, 2, 3, 4, 5, 6, 7, 8])
    assert pair.other.value is None
    assert not pair.other.waiting


def test_a_home_that_gave_its_slice_away_is_not_granted_it_again():
    pair = Pair()
    pair.turn(pair.home, RELEASE, items=[1])
    pair.turn(pair.other, EXPECT)
    pair.turn(pair.other, INSTALL)
    pair.turn(pair.home, RECEIPT)
    assert pair.state(pair.home) == ("absent", None)
    with pytest.raises(StrayRowsError, match="slice 3: 2 rows reached a lane on which it is absent"):
        pair.turn(pair.home, items=[2, 3])


@pytest.mark.parametrize("at", ["home", "other"])
def test_rows_at_a_lane_without_the_slice_fail_loudly(at):
    pair = Pair()
    if at == "home":
        pair.turn(pair.home, RELEASE)
    with pytest.raises(StrayRowsError, match="slice 3: 1 rows"):
        pair.turn(getattr(pair, at), items=[1])


MAIN_PATH = [
    (State.ABSENT, Event.GRANTED),
    (State.OWNING, Event.STOPPED),
    (State.ABSENT, Event.EXPECTED),
    (State.HOLDING, Event.REMOVED),
    (State.RELEASED, Event.SHIP_ORDERED),
    (State.AWAITING, Event.ARRIVED),
    (State.SHIPPED, Event.RECEIPTED),
    (State.INSTALLED, Event.OPENED),
]


@pytest.mark.parametrize("row", MAIN_PATH, ids=lambda row: f"{row[0].value}-{row[1].value}")
def test_the_plane_runs_the_one_table(monkeypatch, row):
    monkeypatch.delitem(handoff.TABLE, row)
    with pytest.raises(handoff.IllegalTransitionError):
        there_and_back(Pair())


def test_an_error_of_the_application_names_slice_and_rows():
    def fail(rows, state):
        raise KeyError("mean")

    pair = Pair(fail)
    with pytest.raises(ProcessError, match=r"slice 3, 2 rows.*KeyError: 'mean'.*\{'item': 7\}"):
        pair.turn(pair.home, items=[7, 8])


def test_a_state_that_cannot_be_read_is_no_fault_of_rows_or_function():
    for broken in (b"qickle  ", b"pickle  \x80", b"arrow   no"):
        for sift in (False, True):  # with dead letters the rows would be put aside, and the stream would go on
            with pytest.raises(UnreadableStateError, match="state"):
                Job(gather, sift=sift).call(pa.table({"item": [1, 2]}), broken, 3)
    pair = Pair()
    pair.home.value = ("owning", b"pickle  \x80")
    with pytest.raises(
        UnreadableStateError, match=r"^slice 3: a state of 9 bytes cannot be read .*before it can do harm$"
    ):
        pair.turn(pair.home, items=[1])


def test_output_is_brought_to_the_declared_columns():
    schema = pa.schema([("item", pa.int32()), ("mean", pa.float64())])

    def call(output):
        return Job(lambda rows, state: (output, state), schema=schema).call(pa.table({"item": [1]}), b"", 0)[0]

    assert call(pa.table({"mean": [2], "more": ["x"], "item": [1]})).to_pylist() == [{"item": 1, "mean": 2.0}]
    assert call(None) is None
    for wrong in (pa.table({"item": [1]}), pa.table({"item": ["a"], "mean": [1.0]}), [1]):
        with pytest.raises(ProcessError, match="process function"):
            call(wrong)
