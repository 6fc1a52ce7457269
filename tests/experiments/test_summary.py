from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.experiments.summary import aggregate, plain


def test_counts_are_summed_and_numbers_aggregated():
    rows = [
        {"seed": 1, "lost": 0, "gap": 0.25, "floor": None, "even": True, "faults": {"loss": 3}, "loads": [1], "p": "x"},
        {"seed": 2, "lost": 3, "gap": 0.75, "floor": 1.5, "even": False, "faults": {}, "loads": [], "p": "y"},
        {"seed": 3, "lost": 3, "gap": None, "floor": None, "even": True, "faults": {}, "loads": [], "p": "y"},
    ]
    assert aggregate(rows) == {
        "total": {"lost": 6, "faults": {"loss": 3}},
        "mean": {"lost": 2.0, "gap": 0.5, "floor": 1.5},
        "median": {"lost": 3.0, "gap": 0.5, "floor": 1.5},
        "max": {"lost": 3, "gap": 0.75, "floor": 1.5},
    }


def test_nothing_to_aggregate():
    empty = {"total": {}, "mean": {}, "median": {}, "max": {}}
    assert aggregate([]) == empty
    assert aggregate([{"seed": 1, "floor": None, "even": True}]) == empty


def test_a_field_that_is_a_whole_number_only_sometimes_is_no_count():
    assert aggregate([{"s": 1}, {"s": 1.5}])["total"] == {}


def test_a_field_that_some_seeds_lack_is_aggregated_over_the_others():
    assert aggregate([{"seed": 1, "p95": 4}, {"seed": 2}])["mean"] == {"p95": 4.0}


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1))
def test_aggregates_agree_with_numpy(values):
    made = aggregate([{"seed": i, "v": v} for i, v in enumerate(values)])
    assert made["total"]["v"] == sum(values)
    assert made["max"]["v"] == max(values)
    assert made["mean"]["v"] == pytest.approx(float(np.mean(values)), rel=1e-9, abs=1e-3)
    assert made["median"]["v"] == pytest.approx(float(np.median(values)))


def test_plain_values_are_json():
    value = {
        "int": np.int64(3), "float": np.float32(0.5), "nan": math.nan, "inf": np.float64("inf"), "flag": np.True_,
        "array": np.arange(2), "tuple": (1, None), 4: {"deep": [np.nan]},
    }  # fmt: skip
    made = plain(value)
    assert json.loads(json.dumps(made, allow_nan=False)) == {
        "int": 3, "float": 0.5, "nan": None, "inf": None, "flag": True,
        "array": [0, 1], "tuple": [1, None], "4": {"deep": [None]},
    }  # fmt: skip
    assert type(made["int"]) is int
    assert type(made["flag"]) is bool


def test_what_json_cannot_say_is_a_bug():
    with pytest.raises(TypeError, match="set"):
        plain({"loads": {1, 2}})
