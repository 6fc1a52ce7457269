"""Rows, frames and groups as Spark hands them over, on one slice in memory."""

# ruff: noqa: N802, N803 - Spark calls its processors by these names

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PySparkRuntimeError, PySparkTypeError, PySparkValueError
from pyspark.sql import Row
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import StructType

from evenflow.spark.slices.stateful.book import Book
from evenflow.spark.slices.stateful.ddl import schema_of
from evenflow.spark.slices.stateful.frames import PandasForm, Settings
from evenflow.spark.slices.stateful.groups import Grouped
from evenflow.spark.slices.stateful.rows import RowForm, rows_of, values_of
from evenflow.spark.slices.stateful.work import Processing, Times

SETTINGS = Settings(zone="UTC", most_rows=2, by_name=True, safe=False, decimals=False)
NOON = dt.datetime(2024, 5, 6, 12, tzinfo=dt.UTC)
ROWS = pa.table(
    {
        "k": ["b", "a", "b", None, "b"],
        "n": pa.array([1, 2, 3, 4, 5], pa.int32()),
        "x": pa.array([0.5, None, 1.5, 2.5, 3.5], pa.float32()),
        "at": pa.array([NOON] * 5, pa.timestamp("us", "Europe/Berlin")),
    }
)
KEYS = StructType([from_arrow_schema(ROWS.schema)["k"]])


def test_rows_are_as_arrow_gives_them_one_by_one():
    rows = list(rows_of(ROWS))
    assert rows == [Row(**each) for each in ROWS.to_pylist()]
    assert rows[0].asDict() == ROWS.to_pylist()[0]
    assert rows[0].at.tzinfo == ROWS.to_pylist()[0]["at"].tzinfo
    assert [values_of(column) for column in ROWS.columns] == [column.to_pylist() for column in ROWS.columns]


def test_output_rows_are_taken_by_name_with_nulls_for_what_is_missing():
    form = RowForm(
        KEYS, pa.schema([("k", pa.string()), ("n", pa.int64()), ("at", pa.timestamp("us", "Europe/Berlin"))])
    )
    rows = [Row(n=1, k="a", more=2), Row(k="b"), Row(k="c", n=None, at=NOON)]
    assert form.table(rows).to_pylist() == [
        {"k": "a", "n": 1, "at": None},
        {"k": "b", "n": None, "at": None},
        {"k": "c", "n": None, "at": NOON},
    ]
    with pytest.raises(AttributeError, match="asDict"):
        form.table([("a", 1, None)])
    with pytest.raises(pa.ArrowInvalid):
        form.table([Row(k="a", n="many", at=None)])


def test_keys_with_nulls_and_nans_are_groups():
    rows = pa.table({"f": [math.nan, 1.0, math.nan, None], "k": ["a", "a", "a", None]})
    form = RowForm(schema_of("f double, k string"), pa.schema([]))
    assert [(kept, len(list(items))) for kept, _, items in form.groups(rows)] == [
        (("NaN", "a"), 2),
        ((1.0, "a"), 1),
        ((None, None), 1),
    ]
    assert math.isnan(next(iter(form.groups(rows)))[1][0])


def test_frames_have_an_index_from_zero_wide_numbers_and_not_too_many_rows():
    form = PandasForm(KEYS, schema_of("k string"), SETTINGS)
    found = {key: list(frames) for _, key, frames in form.groups(ROWS)}
    assert [len(frame) for frame in found["b",]] == [2, 1]
    assert [list(frame["n"]) for frame in found["b",]] == [[1, 3], [5]]
    assert [list(frame.index) for frame in found["b",]] == [[0, 1], [0]]
    assert found["a",][0].dtypes.astype(str).to_dict() == {
        "k": "object",
        "n": "int64",
        "x": "float64",
        "at": "datetime64[ns]",
    }


def test_frames_that_differ_are_converted_one_by_one():
    form = PandasForm(KEYS, schema_of("k string, n long"), SETTINGS)
    frames = [
        pd.DataFrame({"n": [1], "k": ["a"]}),
        pd.DataFrame({"k": ["b"], "n": [2.0]}),
        pd.DataFrame([["c", 3]]),
        pd.DataFrame({"k": ["d"], "n": [4]}).iloc[:0],
    ]
    assert form.table(frames).to_pylist() == [{"k": "a", "n": 1}, {"k": "b", "n": 2}, {"k": "c", "n": 3}]
    with pytest.raises(PySparkValueError, match="Invalid return type"):
        form.table([Row(k="a", n=1)])


def grouped(function, state="n long", timeout="EventTimeTimeout"):
    output = schema_of("k string, said string")
    names = {"keys": KEYS, "output": output, "state": schema_of(state), "given": ROWS.schema}
    work = Grouped(function, **names, timeout=timeout, watermarked=True, settings=SETTINGS)
    work.begin(schema_of)
    return work


def at(work, watermark, rows, packed):
    work.at(Times(0, watermark), 7, last=True)
    output, packed = work(rows, packed)
    return [] if output is None else [row["said"] for row in output.to_pylist()], packed, work.calls


def test_groups_keep_a_state_and_time_out_when_the_time_is_past():
    def count(key, frames, state):
        if state.hasTimedOut:
            said = f"{key} timed out with {state.get} {[(len(f), list(f.columns)) for f in frames]}"
            state.remove()
        else:
            n = (state.getOption or (0,))[0] + sum(len(frame) for frame in frames)
            state.update((np.int64(n),))
            state.setTimeoutTimestamp(1000 * n)
            said = f"{key} {n}"
        yield pd.DataFrame({"k": [key[0]], "said": [said]})

    work = grouped(count)
    said, packed, calls = at(work, 0, ROWS, None)
    assert said == ["('b',) 3", "('a',) 1", "(None,) 1"]
    assert calls == [("registerTimer", 1001)]
    said, packed, _ = at(work, 1000, pa.table({}), packed)
    assert said == []
    said, packed, calls = at(work, 1001, pa.table({}), packed)
    assert said == [f"({k!r},) timed out with (1,) [(0, ['k', 'n', 'x', 'at'])]" for k in ("a", None)]
    assert calls == [("deleteTimer", 1001), ("registerTimer", 3001)]
    said, packed, calls = at(work, 9000, pa.table({}), packed)
    assert (len(said), Book(packed, ["state"]).keys, calls) == (1, [], [("deleteTimer", 3001)])


def test_a_call_without_a_timeout_takes_the_old_one_away():
    def once(key, frames, state):
        if not state.exists:
            state.setTimeoutTimestamp(500)
        state.update((1,))
        yield pd.DataFrame()

    work = grouped(once)
    packed = at(work, 0, ROWS, None)[1]
    assert Book(packed, ["state"]).earliest() == 500
    packed = at(work, 0, ROWS, packed)[1]
    assert Book(packed, ["state"]).earliest() is None


@pytest.mark.parametrize(
    ("function", "error", "match"),
    [
        (lambda key, frames, state: pd.DataFrame(), PySparkTypeError, "UDF_RETURN_TYPE"),
        (lambda key, frames, state: 5, PySparkTypeError, "UDF_RETURN_TYPE"),
        (lambda key, frames, state: [5], PySparkTypeError, "iterator of int"),
        (lambda key, frames, state: [pd.DataFrame({"k": ["a"]})], PySparkRuntimeError, "RESULT_COLUMN_SCHEMA_MISMATCH"),
        (lambda key, frames, state: state.setTimeoutDuration(5), PySparkRuntimeError, "CANNOT_WITHOUT"),
    ],
)
def test_groups_refuse_what_spark_refuses(function, error, match):
    with pytest.raises(error, match=match):
        at(grouped(function), 0, ROWS, None)


class Asks(StatefulProcessor):
    def __init__(self, during, mode="none"):
        self.during = during
        self.mode = mode

    def init(self, handle):
        self.handle = handle
        if self.during == "init":
            self.ask(handle)
        self.value = handle.getValueState("value", "n int")
        self.items = handle.getListState("items", "n int")

    def handleInputRows(self, key, rows, timerValues):
        self.ask(self.handle)
        return iter(())

    def asked(self, ask):
        self.ask = ask
        form = RowForm(KEYS, to_arrow_schema(schema_of("k string"), timezone="UTC"))
        work = Processing(self, form, KEYS, self.mode)
        work.begin(schema_of)
        work(ROWS, None)


@pytest.mark.parametrize(
    ("during", "mode", "ask", "match"),
    [
        ("rows", "none", lambda h: h.registerTimer(5), "INVALID_TIME_MODE.*operation=register_timer.*timeMode=NoTime"),
        ("rows", "none", lambda h: h.deleteTimer(5), "INVALID_TIME_MODE"),
        ("rows", "none", lambda h: list(h.listTimers()), "INVALID_TIME_MODE"),
        ("init", "processingtime", lambda h: h.registerTimer(5), "INVALID_HANDLE_STATE"),
        ("rows", "none", lambda h: h.getValueState("more", "n int"), "INVALID_HANDLE_STATE"),
        ("rows", "none", lambda h: h.deleteIfExists("value"), "INVALID_HANDLE_STATE"),
        ("init", "none", lambda h: [h.getValueState("a", "n int") for _ in "ab"], "Value state a already exists"),
        ("init", "none", lambda h: h.getValueState("a", "n int", 5), "INCORRECT_TIME_MODE_TO_ASSIGN_TTL"),
        ("init", "eventtime", lambda h: h.getMapState("a", "n int", "n int", 5), "INCORRECT_TIME_MODE_TO_ASSIGN_TTL"),
        ("init", "processingtime", lambda h: h.getListState("a", "n int", -1), "TTL_DURATION_MUST_BE_POSITIVE"),
        ("init", "none", lambda h: h.getValueState("a", "n int").get(), "Implicit key not found"),
    ],
)
def test_wrong_use_is_sparks_kind_of_error(during, mode, ask, match):
    with pytest.raises(PySparkRuntimeError, match=match):
        Asks(during, mode).asked(ask)


def test_an_empty_list_is_refused():
    asks = Asks("rows")
    with pytest.raises(PySparkRuntimeError, match="EMPTY_LIST_VALUE"):
        asks.asked(lambda h: asks.items.put([]))


class Begun(StatefulProcessor):
    def init(self, handle):
        self.handle = handle
        self.n = handle.getValueState("n", "n long")

    def handleInitialState(self, key, initialState, timerValues):
        self.n.update(((self.n.get() or (0,))[0] + initialState.n,))
        self.handle.registerTimer(5)

    def handleInputRows(self, key, rows, timerValues):
        yield Row(k=key[0], said=f"{self.n.get()} {len(list(rows))}")

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        yield Row(k=key[0], said=f"expired {expiredTimerInfo.getExpiryTimeInMs()} {self.n.get()}")


def test_initial_states_come_before_rows_and_their_timers_after():
    work = Processing(Begun(), RowForm(KEYS, pa.schema([("k", pa.string()), ("said", pa.string())])), KEYS, "eventtime")
    work.begin(schema_of)
    initial = pa.table({"k": ["b", "z", "b"], "n": [1, 2, 3]})
    work.at(Times(0, 10), 7, last=False, initial=initial)
    output, packed = work(pa.table({}), None)
    assert (output, work.calls) == (None, [("registerTimer", 5)])
    said, packed, calls = at(work, 10, ROWS, packed)
    assert said == ["(4,) 3", "None 1", "None 1", "expired 5 (4,)", "expired 5 (2,)"]
    assert calls == [("deleteTimer", 5)]


def test_spark_is_asked_to_wake_a_slice_for_its_earliest_timer_alone():
    class Sets(Begun):
        def handleInputRows(self, key, rows, timerValues):
            for row in rows:
                (self.handle.registerTimer if row.n > 0 else self.handle.deleteTimer)(abs(row.n))
            return iter(())

    work = Processing(Sets(), RowForm(KEYS, pa.schema([("k", pa.string()), ("said", pa.string())])), KEYS, "eventtime")
    work.begin(schema_of)

    def send(watermark, packed, *timers, spark_key=7):
        work.at(Times(0, watermark), spark_key, last=True)
        rows = pa.table({"k": pa.array(["a"] * len(timers), pa.string()), "n": pa.array(timers, pa.int64())})
        return work(rows, packed)[1], work.calls

    packed, calls = send(0, None, 50, 20, 90)
    assert calls == [("registerTimer", 20)]
    packed, calls = send(0, packed, 10)
    assert calls == [("deleteTimer", 20), ("registerTimer", 10)]
    packed, calls = send(0, packed, -10)
    assert calls == []  # it wakes once too early, and that is all
    packed, calls = send(10, packed)
    assert calls == [("deleteTimer", 10), ("registerTimer", 20)]
    packed, calls = send(10, packed, spark_key=8)
    assert calls == [("registerTimer", 20)]  # it has moved
    packed, calls = send(95, packed, spark_key=8)
    assert calls == [("deleteTimer", 20)]


def test_a_deleted_variable_is_gone_for_every_key_and_does_not_come_back():
    book = Book(None, ["old", "kept"])
    book.keep(("a",), [(1,), (2,)])
    book.keep(("b",), [(3,), None])
    without = Book(book.packed(), ["kept"], ["old"])
    assert (without.record(("a",)), without.keys) == ([(2,)], [("a",)])
    again = Book(without.packed(), ["new", "old", "kept"])
    assert again.record(("a",)) == [None, None, (2,)]
    again.keep(("b",), [(9,), None, None])
    assert Book(again.packed(), ["kept", "new"]).record(("b",)) == [None, (9,)]
