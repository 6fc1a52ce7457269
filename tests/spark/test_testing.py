from __future__ import annotations

import random

import pyarrow as pa
import pytest

from evenflow.experiments.slices.trial import follow
from evenflow.slices import handoff
from evenflow.spark.slices.cells import UnreadableStateError
from evenflow.spark.slices.keyed_state import bucket_of
from evenflow.spark.slices.per_key import PerKey
from evenflow.spark.testing import NotRepeatableError, PlaneTester, check_moves

BATCHES = [
    pa.table({"id": range(n * 50, n * 50 + 50), "device": [(7 * i) % 23 for i in range(50)], "value": [1.0] * 50})
    for n in range(12)
]


def test_a_good_function_is_the_same_with_and_without_moves():
    assert check_moves(follow, BATCHES, "device", seed=4, lanes=3) > 10


def test_a_function_that_depends_on_the_lane_is_found_out():
    seen = []

    def leaky(rows, state):
        seen.append(rows.num_rows)
        return pa.table({"n": [len(seen)]}), state

    with pytest.raises(NotRepeatableError, match="differs when it runs again"):
        check_moves(leaky, BATCHES, "device")


def test_held_rows_come_before_new_ones():
    plane = PlaneTester(follow, "device", slices=1)
    plane.send(BATCHES[0])
    plane.move({0: 1})
    plane.send(BATCHES[1])
    plane.late = True
    assert plane.send(BATCHES[2]).num_rows == 0
    assert plane.send(BATCHES[3]).num_rows == 0
    plane.late = False
    late = plane.send(BATCHES[4])
    assert late["id"].to_pylist() == list(range(100, 250))
    undisturbed = follow(pa.concat_tables(BATCHES[:5]), None)[1]
    assert plane.state(0) == undisturbed
    assert plane.routes.lane == [1]


@pytest.mark.parametrize("row", list(handoff.TABLE)[:8], ids=lambda row: f"{row[0].value}-{row[1].value}")
def test_every_row_of_the_main_path_is_needed(monkeypatch, row):
    monkeypatch.delitem(handoff.TABLE, row)
    with pytest.raises(handoff.IllegalTransitionError):
        check_moves(follow, BATCHES, "device")


def test_per_key_functions_see_keys_in_order_of_appearance_and_forget():
    def total(key, rows, state):
        state = (state or 0) + sum(rows["value"].to_pylist())
        return {"device": key, "total": state}, None if state > 2 else state

    each = PerKey(total, ("device",), pa.schema([("device", pa.int64()), ("total", pa.float64())]))
    output, state = each(pa.table({"device": [5, 3, 5, 3, 5], "value": [1.0] * 5}), None)
    assert output.to_pylist() == [{"device": 5, "total": 3.0}, {"device": 3, "total": 2.0}]
    assert state == {3: 2.0}
    assert check_moves(each, BATCHES, "device") > 5


def test_large_state_is_divided_by_key_and_moves_whole():
    def gather(key, rows, state):
        state = [*(state or []), *rows["id"].to_pylist()]
        return {"device": key, "n": len(state)}, state

    each = PerKey(gather, ("device",), pa.schema([("device", pa.int64()), ("n", pa.int64())]))
    assert check_moves(each, BATCHES, "device", keyed_above=200) > 5
    plane = PlaneTester(each, "device", slices=1, keyed_above=200)
    for batch in BATCHES[:3]:
        plane.send(batch)
    (memory,) = plane._memory.values()
    assert memory.value[1][:1] == b"K"
    assert len(memory.buckets) > 10
    before = dict(memory.buckets)
    plane.send([{"id": 1000, "device": 7, "value": 0.0}])
    assert sum(before[n] != content for n, content in memory.buckets.items()) == 1
    assert plane.state(0)[7][-1] == 1000
    plane.move({0: 1})
    plane.send(BATCHES[3])
    plane.send(BATCHES[4])
    plane.send(BATCHES[5])
    assert memory.buckets == {}
    assert (
        plane.state(0)
        == each(
            pa.concat_tables([*BATCHES[:3], pa.table({"id": [1000], "device": [7], "value": [0.0]}), *BATCHES[3:6]]),
            None,
        )[1]
    )


@pytest.mark.parametrize("left", ["nothing", "half"])
def test_a_part_of_a_divided_state_that_is_gone_is_missed(left):
    """An empty part in its place would be a state that begins again, in silence."""
    each = PerKey(lambda key, rows, n: (None, (n or 0) + rows.num_rows), ("device",), pa.schema([("n", pa.int64())]))
    plane = PlaneTester(each, "device", slices=1, keyed_above=1, again=False)
    plane.send(BATCHES[0])
    (memory,) = plane._memory.values()
    number = bucket_of(7)
    memory.buckets[number] = memory.buckets[number][: len(memory.buckets[number]) // 2 if left == "half" else 0]
    with pytest.raises(UnreadableStateError, match=rf"slice 0: part {number} of a state that is divided by key has"):
        plane.send([{"id": 1000, "device": 7, "value": 0.0}])


def beside(rows, trail, others):
    """Follow what came beside the slice's own rows, in its order."""
    assert others.schema.equals(rows.schema)
    for number in others["id"].to_pylist():
        trail = ((trail or 0) * 31 + number) % 1_000_003
    seen = [trail] * rows.num_rows
    return pa.table({"id": rows["id"], "own": [rows.num_rows] * rows.num_rows, "trail": seen}), trail


def test_what_a_slice_sees_of_the_others_does_not_depend_on_places():
    outputs = []
    for lanes in (1, 2, 3, 5):
        for seed in (4, 5):
            assert (check_moves(beside, BATCHES, "device", seed=seed, lanes=lanes, correlate=True) > 5) == (lanes > 1)
        plane = PlaneTester(beside, "device", lanes=lanes, correlate=True)
        outputs.append([sorted(plane.send(batch).to_pylist(), key=lambda row: row["id"]) for batch in BATCHES])
    assert outputs[0] == outputs[1] == outputs[2] == outputs[3]
    first = PlaneTester(beside, "device", correlate=True)
    ids = first.assign.of(BATCHES[0])
    by_hand = {}
    for s in range(8):
        own = BATCHES[0].filter(pa.array(ids == s))
        parts = [BATCHES[0].filter(pa.array(ids == other)) for other in range(8) if other != s]
        by_hand |= {row["id"]: row for row in beside(own, None, pa.concat_tables(parts))[0].to_pylist()}
    assert outputs[0][0] == [by_hand[n] for n in sorted(by_hand)]


def test_a_slice_alone_sees_an_empty_table_and_one_without_rows_is_not_called():
    calls = []

    def note(rows, state, others):
        calls.append((rows["id"].to_pylist(), others["id"].to_pylist()))
        return None, state

    plane = PlaneTester(note, "device", slices=2, correlate=True, again=False)
    assert set(plane.assign.of(pa.table({"device": [0, 1, 2, 3]})).tolist()) == {0, 1}
    slices = plane.assign.of(pa.table({"device": range(10)})).tolist()
    one, other = slices.index(0), slices.index(1)
    plane.send([{"id": 1, "device": one}])
    plane.send([{"id": 2, "device": other}, {"id": 3, "device": one}])
    assert calls == [([1], []), ([3], [2]), ([2], [3])]


def test_keys_of_several_columns_are_tuples():
    def name(key, rows, state):
        return [{"key": str(key), "n": rows.num_rows}], state

    each = PerKey(name, ("a", "b"), pa.schema([("key", pa.string()), ("n", pa.int64())]))
    output, _ = each(pa.table({"a": [1, 1, None], "b": ["x", "x", "y"]}), None)
    assert output.to_pylist() == [{"key": "(1, 'x')", "n": 2}, {"key": "(None, 'y')", "n": 1}]


def test_poison_rows_are_sifted_out_and_the_state_goes_on():
    from evenflow.spark.slices.turn import Job

    def fragile(rows, state):
        state = list(state or [])
        for value in rows["id"].to_pylist():
            state.append(value)  # changed before the failure: a failed attempt must leave nothing behind
            if value % 10 == 3:
                raise ValueError(f"bad {value}")
        return rows.select(["id"]), state

    chance = random.Random(5)
    ids = chance.sample(range(200), 40)
    called = Job(fragile, sift=True).call(pa.table({"id": ids}), b"", 0)
    good = [i for i in ids if i % 10 != 3]
    assert called.output["id"].to_pylist() == good
    assert [(r["id"].to_pylist(), why) for r, why in called.poison] == [
        ([i], f"ValueError: bad {i}") for i in ids if i % 10 == 3
    ]
    from evenflow.spark.slices.cells import decode_state

    assert decode_state(called.encoded, list) == good
