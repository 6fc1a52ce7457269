"""Random scripts under moves, late installs and repeated batches give what pyspark's own test double gives, and a model of TTL."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as some
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from evenflow.spark.slices.stateful.script import OUTPUT, SCHEMA, STATE_CALLS, TIMER_CALLS, Script
from evenflow.spark.testing import ProcessorTester

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


@settings(max_examples=100, deadline=None)
@given(batches(STATE_CALLS))
def test_state_calls_are_sparks(given):
    assert mine(given, Script(), "None") == theirs(given, Script(), "None")


@settings(max_examples=100, deadline=None)
@given(batches(STATE_CALLS + TIMER_CALLS))
def test_event_time_timers_and_late_rows_are_sparks(given):
    script = Script(timed="event")
    assert mine(given, script, "EventTime") == theirs(given, Script(timed="event"), "EventTime")


@settings(max_examples=100, deadline=None)
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


TTL = 5


class Lasting:
    """What a script with a time to live says, in the plainest way: every value has its end."""

    def __init__(self):
        self.value, self.items, self.map = [], [], {}

    def do(self, op, a, b, now):
        new = lambda value: (now + TTL, value)  # noqa: E731 - a value with its end
        self.value = [each for each in self.value if each[0] > now]
        self.items = [each for each in self.items if each[0] > now]
        self.map = {k: each for k, each in self.map.items() if each[0] > now}
        match op:
            case "value":
                self.value = [new((a, b))]
            case "no value":
                self.value = []
            case "put":
                self.items = [new((a,)), new((b,))]
            case "append":
                self.items.append(new((a,)))
            case "extend":
                self.items += [new((a,)), new((b,))]
            case "no items":
                self.items = []
            case "set":
                self.map[a,] = new((b,))
            case "remove":
                self.map.pop((a,), None)
            case "no map":
                self.map = {}
            case "look":
                found = self.map.get((a,), (0, None))[1]
                return f"{found is not None} {found} {bool(self.value)} {bool(self.items)}"
        return ""

    def said(self, now):
        self.do("", 0, 0, now)
        value = self.value[0][1] if self.value else None
        return f"{value} {[v for _, v in self.items]} {sorted((k, v) for k, (_, v) in self.map.items())} []"


@settings(max_examples=100, deadline=None)
@given(batches(STATE_CALLS))
def test_values_last_as_long_as_their_time_to_live(given):
    models = defaultdict(Lasting)
    expected = defaultdict(list)
    now = 0
    for (content, step, _), _ in given:
        now += step
        touched = {}
        for r in content:
            touched[r["k"]] = None
            expected[r["k"]].append(f"{r['op']} {models[r['k']].do(r['op'], r['a'], r['b'], now)}")
        for key in touched:
            expected[key].append(models[key].said(now))
    script = Script(ttl=TTL)
    assert mine(given, script, "ProcessingTime") == expected


def test_what_has_ended_is_dropped_from_the_state_of_untouched_keys():
    plane = ProcessorTester(Script(ttl=TTL), "k", SCHEMA, OUTPUT, "ProcessingTime", slices=1)
    row = {"k": "a", "at": None, "op": "value", "a": 1, "b": 2}
    plane.send([row, {**row, "op": "append"}], now=0)
    assert plane.values("value") == {("a",): (5, (1, 2))}
    plane.send([{**row, "k": "b", "op": "look"}], now=5)
    assert (plane.values("value"), plane.values("items")) == ({}, {})
    plane.send([row], now=6)
    plane.send([], now=10)
    assert plane.values("value") == {("a",): (11, (1, 2))}
    plane.send([], now=11)  # without rows: the slice is called for what has ended
    assert plane.values("value") == {}
