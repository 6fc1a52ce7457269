"""Random scripts under moves, late installs and repeated batches give what pyspark's own test double gives, and a model of TTL."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as some
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from evenflow.spark.stateful.script import OUTPUT, SCHEMA, STATE_CALLS, TIMER_CALLS, Script
from evenflow.spark.stateful.testing import ProcessorTester

KEYS = ("a", "b", "c", None)


def rows(ops):
    fields = {
        "k": some.sampled_from(KEYS),
        "s": some.integers(0, 30),
        "op": some.sampled_from(ops),
        "a": some.integers(-2, 4),
        "b": some.integers(0, 3),
    }
    return some.lists(some.fixed_dictionaries(fields), max_size=6)


def batches(ops):
    steps = some.tuples(rows(ops), some.integers(0, 6), some.dictionaries(some.integers(0, 2), some.integers(0, 1)))
    return some.lists(some.tuples(steps, some.booleans()), min_size=1, max_size=6)


def moment(row):
    return dt.datetime.fromtimestamp(row["s"], dt.UTC)


def mine(given, script, mode):
    plane = ProcessorTester(script, "k", SCHEMA, OUTPUT, mode, event_time="at", slices=3, lanes=2)
    now = 0
    found = []
    for (content, step, moves), late in [*given, *[(([], 3, {}), False)] * 3]:
        now += step * 1000 if mode == "EventTime" else step
        plane.move(moves)
        # While a slice waits for its state its timers wait too: then they are after rows that Spark has before them.
        plane.late = late and mode == "None" and content is not given[-1][0][0]
        sent = [{"k": r["k"], "at": moment(r), "op": r["op"], "a": r["a"], "b": r["b"]} for r in content]
        found += plane.send(sent, now=now, watermark=now).to_pylist()
    return by_key(found)


def by_key(found):
    keys = defaultdict(list)
    for row in found:
        keys[row["k"]].append(row["said"])
    return dict(keys)


def theirs(given, script, mode):
    double = TwsTester(script, timeMode=mode, eventTimeExtractor=lambda row: 1 << 60)
    now = before = 0
    found = []
    for (content, step, _), _ in [*given, *[(([], 3, {}), False)] * 3]:
        now += step * 1000 if mode == "EventTime" else step
        double._currentProcessingTimeMs = double._currentWatermarkMs = now
        double.handle.setWatermark(now)
        in_time = [r for r in content if mode != "EventTime" or r["s"] * 1000 > before]
        groups = defaultdict(list)
        for r in in_time:
            groups[r["k"]].append(Row(k=r["k"], at=moment(r), op=r["op"], a=r["a"], b=r["b"]))
        for key, group in groups.items():
            found += double.test(key, group)
        found += double._handleExpiredTimers() if mode != "None" else []
        before = now
    return by_key([row.asDict() for row in found])


@settings(max_examples=300, deadline=None)
@given(batches(STATE_CALLS))
def test_state_calls_are_sparks(given):
    assert mine(given, Script(), "None") == theirs(given, Script(), "None")


@settings(max_examples=300, deadline=None)
@given(batches(STATE_CALLS + TIMER_CALLS))
def test_event_time_timers_and_late_rows_are_sparks(given):
    script = Script(timed="event")
    assert mine(given, script, "EventTime") == theirs(given, Script(timed="event"), "EventTime")


@settings(max_examples=200, deadline=None)
@given(batches(STATE_CALLS + TIMER_CALLS))
def test_processing_time_timers_are_sparks(given):
    script = Script(timed="processing")
    assert mine(given, script, "ProcessingTime") == theirs(given, Script(timed="processing"), "ProcessingTime")


def test_timers_of_a_slice_that_waits_for_its_state_fire_once_when_it_has_it():
    plane = ProcessorTester(Script("event"), "k", SCHEMA, OUTPUT, "EventTime", event_time="at", slices=1, lanes=2)
    row = {"k": "a", "at": dt.datetime.fromtimestamp(9, dt.UTC), "op": "timer", "a": 4, "b": 0}
    plane.send([row], watermark=0)
    plane.move({0: 1})
    plane.send([], watermark=1)
    plane.late = True
    assert [plane.send([], watermark=10).num_rows for _ in range(3)] == [0, 0, 0]
    held = plane.send([{**row, "a": 100}], watermark=20)
    plane.late = False
    fired = [plane.send([], watermark=at).to_pylist() for at in (300, 301)]
    assert held.num_rows == 0
    assert [[r["said"].split()[:2] for r in batch] for batch in fired] == [
        [["timer"], ["None", "[]"], ["expired", "5"], ["expired", "121"]],
        [],
    ]
