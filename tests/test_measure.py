"""Smoothing, operation ranges, conditions that must hold for a time, and the monitor that combines them."""

from __future__ import annotations

import math
import pickle
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import BadInput
from evenflow.measure import Condition, ConditionTimer, Monitor, Ranges, Smoothed, SmoothedRows

NAN = math.nan
CPU = [0, 30, 70, 100]  # the example of the thesis: [0, 30], [30, 70], [70, 100]

samples = st.one_of(st.floats(-1e6, 1e6), st.just(NAN))
alphas = st.floats(0.01, 1.0)


# -- smoothing ----------------------------------------------------------------------------------


def test_equation_3_4() -> None:
    smoothed = Smoothed(0.2)
    assert math.isnan(smoothed.value)
    assert smoothed.update(10.0) == 10.0  # there is no value before the first
    assert smoothed.update(20.0) == 0.2 * 20.0 + 0.8 * 10.0
    assert smoothed.update(20.0) == 0.2 * 20.0 + 0.8 * 12.0


def test_nan_is_not_measured() -> None:
    smoothed = Smoothed(0.5)
    assert math.isnan(smoothed.update(NAN))
    assert smoothed.update(4.0) == 4.0
    assert smoothed.update(NAN) == 4.0


@settings(max_examples=100, deadline=None)
@given(alphas, st.lists(st.lists(samples, min_size=3, max_size=3), max_size=20))
def test_rows_give_what_single_values_give(alpha: float, rounds: list[list[float]]) -> None:
    rows, singles = SmoothedRows(alpha, 3), [Smoothed(alpha) for _ in range(3)]
    for values in rounds:
        together = rows.update(values).tolist()
        assert [float.hex(v) for v in together] == [
            float.hex(s.update(v)) for s, v in zip(singles, values, strict=True)
        ]


@settings(max_examples=100, deadline=None)
@given(alphas, st.lists(st.floats(0, 100), min_size=1))
def test_stays_between_the_samples(alpha: float, values: list[float]) -> None:
    smoothed = Smoothed(alpha)
    for value in values:
        smoothed.update(value)
    assert min(values) - 1e-9 <= smoothed.value <= max(values) + 1e-9


@pytest.mark.parametrize("alpha", [0, -0.1, 1.1, NAN, math.inf])
def test_alpha_is_a_weight(alpha: float) -> None:
    for build in (lambda: Smoothed(alpha), lambda: SmoothedRows(alpha, 1), lambda: Monitor(alpha={"cpu": alpha})):
        with pytest.raises(BadInput, match=r"alpha: given .*, allowed is a number above 0 and at most 1"):
            build()


def test_infinity_is_refused_before_it_sticks() -> None:
    smoothed, rows = Smoothed(0.5), SmoothedRows(0.5, 2)
    with pytest.raises(BadInput, match="given inf"):
        smoothed.update(math.inf)
    with pytest.raises(BadInput, match="sample 1: given -inf"):
        rows.update([1.0, -math.inf])
    with pytest.raises(BadInput, match="one per row"):
        rows.update([1.0])
    assert np.isnan(rows.values).all()


# -- ranges -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "before", "index"),
    [
        (0, None, 0),
        (29.9, None, 0),
        (30, None, 1),  # a shared bound counts to the upper range …
        (30, 0, 0),  # … unless the value comes from below: it is still in [0, 30]
        (30, 1, 1),
        (30, 2, 1),
        (70, 0, 2),  # from far below, the bound is in the upper range
        (70, 1, 1),
        (70, 2, 2),
        (100, None, 2),
        (100, 1, 2),
        (-5, None, 0),
        (250, None, 2),
        (math.inf, None, 2),
    ],
)
def test_ranges_of_the_thesis(value: float, before: int | None, index: int) -> None:
    assert Ranges(CPU).index(value, before) == index


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-100, 100), min_size=2, unique=True).map(sorted), st.floats(-200, 200), st.integers(0, 5))
def test_the_value_is_in_its_range(bounds: list[int], value: float, before: int) -> None:
    ranges = Ranges(bounds)
    before = min(before, len(ranges) - 1)
    index = ranges.index(value, before)
    inside = min(max(value, bounds[0]), bounds[-1])
    assert bounds[index] <= inside <= bounds[index + 1]
    if bounds[before] <= inside <= bounds[before + 1]:
        assert index == before  # nothing changes while the old range still holds the value


@pytest.mark.parametrize("bounds", [[], [1], [1, 1], [2, 1], [0, NAN], [0, math.inf]])
def test_bounds_rise(bounds: list[float]) -> None:
    with pytest.raises(BadInput, match=r"ranges: given .*, allowed is at least two finite, rising bounds"):
        Ranges(bounds)


def test_nan_is_in_no_range() -> None:
    with pytest.raises(BadInput, match="ranges: given NaN"):
        Ranges(CPU).index(NAN)


def test_labels() -> None:
    ranges = Ranges(CPU)
    assert [ranges.label(i) for i in range(len(ranges))] == ["[0, 30]", "[30, 70]", "[70, 100]"]
    assert repr(ranges) == "Ranges([0, 30, 70, 100])"


# -- conditions ---------------------------------------------------------------------------------


def times_of(held: ConditionTimer, values: dict[float, float]) -> list[float]:
    return [now for now, cpu in values.items() if held.observe({"cpu": cpu}, now)]


def test_a_short_peak_does_not_notify() -> None:
    held = ConditionTimer(Condition("cpu > 70", for_s=4))
    assert times_of(held, {0: 90, 2: 90, 3.9: 90, 4: 10, 6: 90, 8: 90}) == []


def test_notifies_once_and_again_after_it_was_false() -> None:
    held = ConditionTimer(Condition("cpu > 70", for_s=4))
    assert times_of(held, {0: 90, 2: 90, 4: 90, 6: 90, 100: 90, 102: 10, 104: 90, 106: 90, 108: 90, 110: 90}) == [
        4,
        108,
    ]


def test_without_a_duration_it_notifies_at_once() -> None:
    assert times_of(ConditionTimer(Condition("cpu > 70")), {0: 10, 2: 90, 4: 90, 6: 10, 8: 71}) == [2, 8]


def test_a_sample_exactly_on_time_counts() -> None:
    start = 0.1
    assert (start + 4) - start < 4  # why there is a tolerance
    assert times_of(ConditionTimer(Condition("cpu > 70", for_s=4)), {start: 90, start + 4: 90}) == [start + 4]


def test_a_clock_set_back_starts_the_duration_anew() -> None:
    held = ConditionTimer(Condition("cpu > 70", for_s=4))
    assert [held.observe({"cpu": 90}, now) for now in (100, 50, 53, 54)] == [False, False, False, True]


def test_a_property_without_a_value_does_not_hold() -> None:
    held = ConditionTimer(Condition("cpu > 70"))
    assert not held.observe({}, 0)


@pytest.mark.parametrize(
    ("expression", "for_s", "said"),
    [
        ("cpu >", 0, "expression, line 1, column 6"),
        ("cpu + 1", 0, "which gives a number, allowed is a test"),
        ("cpu > 1", -1, "for_s=-1"),
        ("cpu > 1", NAN, "for_s=nan"),
        ("cpu > 1", math.inf, "for_s=inf"),
    ],
)
def test_bad_conditions(expression: str, for_s: float, said: str) -> None:
    with pytest.raises(BadInput, match=re.escape(said)):
        Condition(expression, for_s)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 5), st.booleans()), max_size=40), st.floats(0, 10))
def test_once_per_stretch_that_is_long_enough(steps: list[tuple[float, bool]], for_s: float) -> None:
    held, now, since, notified = ConditionTimer(Condition("hot", for_s)), 0.0, None, False
    for step, hot in steps:
        now += step
        since = (now if since is None else since) if hot else None
        notified = notified and hot
        due = since is not None and now - since >= for_s - 1e-9 and not notified
        notified = notified or due
        assert held.observe({"hot": hot}, now) is due


# -- the monitor --------------------------------------------------------------------------------


def names_of(monitor: Monitor, values: list[tuple[float, dict[str, float]]]) -> list[tuple[float, str]]:
    return [(n.at, n.name) for now, sample in values for n in monitor.observe(sample, now)]


def test_the_example_of_the_thesis() -> None:
    monitor = Monitor(ranges={"cpu": CPU})
    seen = names_of(monitor, [(t, {"cpu": c}) for t, c in enumerate([10, 30, 31, 70, 71, 100, 70, 69, 5])])
    assert [at for at, _ in seen] == [0, 2, 4, 7, 8]
    assert [n.ranges["cpu"] for n in monitor.last] == [0, 1, 2, 1, 0]
    assert [n.why for n in monitor.last] == [
        "cpu is in [0, 30]",
        "cpu went from [0, 30] to [30, 70]",
        "cpu went from [30, 70] to [70, 100]",
        "cpu went from [70, 100] to [30, 70]",
        "cpu went from [30, 70] to [0, 30]",
    ]


def test_a_notification_holds_all_monitored_data() -> None:
    monitor = Monitor(ranges={"cpu": CPU}, conditions=[Condition("memory > 5", name="full")])
    monitor.observe({"cpu": 10, "disk": 1}, 0)
    (event,) = monitor.observe({"memory": 6}, 2)
    assert (event.name, event.kind, event.at) == ("full", "condition", 2)
    assert event.data == {"cpu": 10.0, "disk": 1.0, "memory": 6.0}
    assert event.ranges == {"cpu": 0}
    monitor.observe({"memory": 7, "cpu": 50}, 4)
    assert event.data["memory"] == 6.0  # what was told stays as it was


def test_conditions_see_ranges() -> None:
    monitor = Monitor(ranges={"cpu": CPU}, conditions=[Condition("cpu.range = 2", for_s=2, name="overloaded")])
    seen = names_of(monitor, [(t, {"cpu": c}) for t, c in ((0, 75), (2, 80), (4, 20), (6, 90), (8, 90))])
    assert [name for _, name in seen] == ["cpu.range", "overloaded", "cpu.range", "cpu.range", "overloaded"]


def test_not_measured_keeps_what_is_known() -> None:
    monitor = Monitor(ranges={"cpu": CPU}, conditions=[Condition("cpu > 70", for_s=4)])
    seen = names_of(monitor, [(0, {"cpu": 80}), (2, {"cpu": NAN}), (4, {})])
    assert seen == [(0, "cpu.range"), (4, "cpu > 70")]
    assert monitor.observe({"other": NAN}, 6) == []
    assert monitor.data == {"cpu": 80.0}


def test_smoothing_comes_first() -> None:
    peak: list[tuple[float, dict[str, float]]] = [(0, {"cpu": 20, "x": 0}), (2, {"cpu": 100, "x": 100})]
    assert names_of(Monitor({"cpu": CPU}), peak) == [(0, "cpu.range"), (2, "cpu.range")]
    smooth = Monitor({"cpu": CPU}, alpha=0.1)
    assert names_of(smooth, peak) == [(0, "cpu.range")]
    assert smooth.data == {"cpu": 28.0, "x": 10.0}
    one = Monitor({"cpu": CPU}, alpha={"cpu": 0.1})
    names_of(one, peak)
    assert one.data == {"cpu": 28.0, "x": 100.0}


def test_the_last_five_are_kept() -> None:
    monitor = Monitor(conditions=[Condition("cpu > 50")])
    for now in range(40):
        monitor.observe({"cpu": 100 * (now % 2)}, now)
    assert [n.at for n in monitor.last] == [31, 33, 35, 37, 39]
    assert Monitor(keep=2).last.maxlen == 2


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: Monitor(conditions=[Condition("a > 1"), Condition("a > 1", 5)]), "several named 'a > 1'"),
        (lambda: Monitor(keep=0), "keep=0"),
        (lambda: Monitor({"cpu": [1]}), "rising bounds"),
        (lambda: Monitor(alpha=2.0), "alpha"),
        (lambda: Monitor().observe({"cpu": math.inf}, 0), "sample, cpu: given inf"),
    ],
)
def test_bad_monitors(build: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        build()


def test_a_monitor_travels_with_all_it_knows() -> None:
    monitor = Monitor({"cpu": CPU}, [Condition("cpu > 70", for_s=4)], alpha=0.5)
    monitor.observe({"cpu": 80}, 0)
    copy = pickle.loads(pickle.dumps(monitor))
    assert [n.name for n in copy.observe({"cpu": 80}, 4)] == ["cpu > 70"]
    assert [n.at for n in copy.last] == [0, 4]
    assert len(monitor.last) == 1


def test_numpy_values_are_values() -> None:
    monitor = Monitor({"cpu": CPU}, [Condition("cpu > 70")], alpha=0.5)
    assert [n.name for n in monitor.observe({"cpu": np.float32(80)}, 0)] == ["cpu.range", "cpu > 70"]
    assert type(monitor.data["cpu"]) is float
