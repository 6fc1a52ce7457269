from __future__ import annotations

import random

import pyarrow as pa
import pytest

from evenflow.spark.slices.running import Running
from evenflow.spark.testing import check_moves


def item_by_item(rows, known, alpha):
    """The same, one row at a time."""
    for key, value in rows:
        n, total, mean = known.get(key, (0, 0.0, value))
        known[key] = (n + 1, total + value, alpha * value + (1 - alpha) * mean)
    return known


def some_rows(chance, count):
    return [(chance.randrange(-5, 30), float(chance.randrange(100))) for _ in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_it_agrees_with_one_row_at_a_time(seed):
    chance = random.Random(seed)
    running, state, known = Running("k", "v", alpha=0.3), None, {}
    for _ in range(4):
        rows = some_rows(chance, chance.randrange(1, 80))
        keys, values = zip(*rows, strict=True)
        output, state = running(pa.table({"k": keys, "v": values}), state)
        known = item_by_item(rows, known, 0.3)
        found = {r["key"]: (r["n"], r["total"], pytest.approx(r["mean"])) for r in state.to_pylist()}
        assert known == found
        assert {r["key"] for r in output.to_pylist()} == set(keys)


def test_it_survives_moves_and_repeated_batches():
    chance = random.Random(9)
    batches = [
        pa.table({"k": [k for k, _ in rows], "v": [v for _, v in rows]})
        for rows in (some_rows(chance, 50) for _ in range(6))
    ]
    assert check_moves(Running("k", "v"), batches, "k") > 0
