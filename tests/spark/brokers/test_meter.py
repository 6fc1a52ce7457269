"""Loads are computed from what lanes measured since their last reset."""

from __future__ import annotations

import pytest

from evenflow.spark.brokers.meter import SETTLE_BATCHES, SPEED_PERCENTILE, WINDOW, LaneMeter

SAMPLE = {"publications": 100, "cpu_us": 2_000_000, "bytes": 1000, "memory": 7, "deliveries": 5}


@pytest.fixture
def meter():
    return LaneMeter(["a", "b"], {"a": 10, "b": 10}.__getitem__, 1e6, 1e9)


@pytest.mark.parametrize("batches", [1, 3, WINDOW, WINDOW + 5])
def test_rate_and_delay_are_those_of_the_batches_that_count(meter, batches):
    for batch in range(1, batches + 1):
        loads = meter.read({"a": SAMPLE}, 10.0 * batch)
    load = loads["a"]
    assert (load.input_rate, load.matching_delay, load.input_ratio) == pytest.approx((10.0, 0.02, 0.2))
    assert (load.output_used, load.memory.engine, load.n_subs) == pytest.approx((800.0, 7.0, 10))
    assert loads["b"].input_ratio == 0.0


def test_batches_before_a_reset_do_not_count(meter):
    for batch in range(1, 6):
        meter.read({"a": SAMPLE, "b": SAMPLE}, 10.0 * batch)
    meter.reset("a")
    for now in (60.0, 70.0):
        loads = meter.read({"a": {**SAMPLE, "cpu_us": 8_000_000}, "b": SAMPLE}, now)
    assert loads["a"].input_ratio == pytest.approx(0.8)


def test_a_machine_that_is_slower_for_a_while_moves_no_lane_away_from_another(meter):
    slow = {**SAMPLE, "cpu_us": 5_000_000}
    for batch in range(1, 7):
        meter.read({"a": SAMPLE, "b": SAMPLE}, 10.0 * batch)
    meter.reset("a")
    for batch in range(7, 10):
        loads = meter.read({"a": slow, "b": slow}, 10.0 * batch)
    assert loads["a"].input_ratio == pytest.approx(loads["b"].input_ratio)


def test_an_unsettled_lane_is_no_more_than_half_slower_than_the_others(meter):
    for batch in range(1, 4):
        meter.read({"a": SAMPLE, "b": SAMPLE}, 10.0 * batch)
    meter.reset("a", SETTLE_BATCHES)
    seen = [meter.read({"a": {**SAMPLE, "cpu_us": 20_000_000}, "b": SAMPLE}, 10.0 * n)["a"] for n in range(4, 8)]
    assert [load.input_ratio for load in seen] == pytest.approx([0.3, 0.3, 2.0, 2.0])


def test_one_batch_that_took_long_changes_nothing(meter):
    slow = {"a": {**SAMPLE, "cpu_us": 20_000_000}}
    seen = [meter.read(slow if batch in (1, 4) else {"a": SAMPLE}, 10.0 * batch)["a"] for batch in range(1, 8)]
    assert [load.input_ratio for load in seen] == pytest.approx([2.0] + [0.2] * 6)
    assert [load.cpu for load in seen] == pytest.approx([2.0] + [0.2] * 6)


def test_after_a_move_a_lane_is_unsettled_for_some_batches(meter):
    def after(name):
        meter.read({"a": SAMPLE}, meter.now + 10.0)
        return meter.is_settled(name)

    assert after("a")
    meter.reset("a", SETTLE_BATCHES)
    assert not meter.is_settled("a")
    meter.reset("a")  # subscribers join: reset, but not unsettled for longer
    assert [after("a") for _ in range(SETTLE_BATCHES + 2)] == [False] * (SETTLE_BATCHES - 1) + [True] * 3
    assert meter.is_settled("b")


def test_a_small_batch_counts_little(meter):
    small = {"a": {**SAMPLE, "publications": 1, "cpu_us": 500_000, "bytes": 10}}
    for batch in range(1, 6):
        loads = meter.read({"a": SAMPLE} if batch in (2, 4) else small, 10.0 * batch)
    assert loads["a"].matching_delay == pytest.approx(0.02, rel=0.01)


def test_batches_with_more_to_do_count_in_full(meter):
    busy = {"a": {**SAMPLE, "cpu_us": 6_000_000, "bytes": 3000}}
    for batch in range(1, WINDOW + 1):
        loads = meter.read(busy if batch % 4 == 0 else {"a": SAMPLE}, 10.0 * batch)
    assert loads["a"].input_ratio == pytest.approx((3 * 0.2 + 0.6) / 4)


def test_every_second_batch_slow_is_the_same_load_at_every_batch(meter):
    slow = {"a": {**SAMPLE, "cpu_us": 4_300_000}}
    seen = [meter.read(slow if batch % 2 else {"a": SAMPLE}, 10.0 * batch)["a"] for batch in range(1, 20)]
    assert [load.input_ratio for load in seen[1:]] == pytest.approx([0.2] * 18)


def test_a_lane_that_became_slow_for_good_is_seen_within_a_window(meter):
    for batch in range(1, WINDOW + 1):
        meter.read({"a": SAMPLE}, 10.0 * batch)
    later = {"a": {**SAMPLE, "cpu_us": 4_000_000}}
    seen = [meter.read(later, 10.0 * batch)["a"].input_ratio for batch in range(WINDOW + 1, 2 * WINDOW + 1)]
    late = next(n for n in range(1, WINDOW + 1) if (WINDOW - n) / WINDOW < SPEED_PERCENTILE) - 1
    assert seen == pytest.approx([0.2] * late + [0.4] * (WINDOW - late))
