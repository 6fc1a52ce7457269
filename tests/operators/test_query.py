"""Operators on rows: each against what plain Python says, and in pieces as in one go."""

from __future__ import annotations

import random
from collections import defaultdict

import pyarrow as pa
import pytest

from evenflow.operators.execute import STATE, execute
from evenflow.operators.query import Queries, Spec
from evenflow.operators.tree import balanced

FOREVER = 2**60


def table(rows: list[tuple[int, int, int, int]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [[]] * 4
    return pa.table([pa.array(c, pa.int64()) for c in columns], schema=STATE)


def drawn(seed: int, count: int = 400) -> list[tuple[int, int, int, int]]:
    chance = random.Random(seed)
    rows = [
        (chance.randrange(2), chance.randrange(500), chance.randrange(6), chance.randrange(1000)) for _ in range(count)
    ]
    return sorted(rows, key=lambda row: row[1])


def in_pieces(spec: Spec, rows: list[tuple[int, int, int, int]], seed: int) -> list[tuple[int, int, int]]:
    """Give the rows in batches with a watermark that follows them."""
    chance, state, out, closed, at = random.Random(seed), None, [], 0, 0
    while at < len(rows):
        size = chance.randrange(1, 60)
        done = execute(spec, table(rows[at : at + size]), state, closed, closed)
        at += size
        later = execute(spec, table([]), done.state, closed, rows[at][1] if at < len(rows) else FOREVER)
        assert (done.late, later.late) == (0, 0)
        closed = rows[at][1] if at < len(rows) else FOREVER
        state = later.state
        out += [tuple(r.values()) for t in (done.output, later.output) for r in t.to_pylist()]
    return sorted(out)


@pytest.mark.parametrize("measure", ["sum", "mean", "min", "max", "count"])
@pytest.mark.parametrize("seed", range(3))
def test_aggregates(measure, seed):
    rows = drawn(seed)
    groups = defaultdict(list)
    for _, ts, key, value in rows:
        groups[ts // 70 * 70, key].append(value)
    measures = {"sum": sum, "mean": lambda v: sum(v) // len(v), "min": min, "max": max, "count": len}
    wanted = sorted((ts, key, measures[measure](values)) for (ts, key), values in groups.items())
    spec = Spec(0, "", "aggregate", (), window_s=70, measure=measure)
    assert in_pieces(spec, rows, seed) == wanted


@pytest.mark.parametrize("seed", range(3))
def test_joins(seed):
    rows = drawn(seed, 120)
    wanted = sorted(
        (a[1] // 70 * 70, a[2], a[3] - b[3])
        for a in rows
        for b in rows
        if (a[0], b[0]) == (0, 1) and (a[1] // 70, a[2]) == (b[1] // 70, b[2])
    )
    assert wanted
    assert in_pieces(Spec(0, "", "join", (), window_s=70), rows, seed) == wanted


@pytest.mark.parametrize("seed", range(3))
def test_sorts(seed):
    rows, wanted = drawn(seed), []
    for begin in range(0, 500, 70):
        window = [(ts, key, value) for _, ts, key, value in rows if ts // 70 * 70 == begin]
        wanted += sorted(window, key=lambda r: (-r[2], r[1], r[0]))[:4]
    assert in_pieces(Spec(0, "", "sort", (), window_s=70, limit=4), rows, seed) == sorted(wanted)


def test_filters_and_maps_keep_nothing():
    rows = table([(0, 1, 2, 3), (0, 4, 5, 6)])
    done = execute(Spec(0, "", "filter", (), test=">=", value=6), rows, None, 0, 0)
    assert (done.output.to_pylist(), done.state) == ([{"ts": 4, "key": 5, "value": 6}], None)
    done = execute(Spec(0, "", "map", (), factor=10, key=7), rows, None, 0, 0)
    assert [tuple(r.values()) for r in done.output.to_pylist()] == [(1, 7, 30), (4, 7, 60)]


def test_rows_that_come_after_their_window_closed_are_counted():
    spec = Spec(0, "", "aggregate", (), window_s=10)
    done = execute(spec, table([(0, 5, 1, 1), (0, 25, 1, 1)]), None, 20, 20)
    assert (done.late, done.state.num_rows, done.output.num_rows) == (1, 1, 0)


def test_a_stream_feeds_one_operator():
    queries = Queries()
    mean = queries.meters("unit-1").aggregate("mean", 60)
    mean.filter(">", 1)
    with pytest.raises(ValueError, match="already"):
        mean.filter("<", 1)


def test_operators_are_placed_as_low_as_they_can_run():
    queries, tree = Queries(), balanced(3)
    left, right = (queries.meters(leaf).aggregate("mean", 60) for leaf in ("unit-3", "unit-4"))
    left.union(right).aggregate("mean", 60)
    where = queries.lowest(tree)
    assert list(where.values()) == ["unit-3", "unit-4", "unit-1", "unit-1"]
    assert not queries.graph().misplaced(where, tree)
