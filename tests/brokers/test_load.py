"""Eq. 3.1-3.5 and 4.7-4.16, each with numbers worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.brokers.load import Load, LoadChange, MemoryUse, delay_difference, smoothed

LOAD = Load(
    n_subs=100,
    matching_delay=0.02,
    input_rate=30.0,
    output_used=200_000.0,
    output_total=1_000_000.0,
    cpu=1.0,
    memory=MemoryUse(1000.0, 500.0, 4000.0, 10_000.0),
)


def test_ratios_are_rate_times_delay_and_used_over_total():
    assert LOAD.input_ratio == pytest.approx(0.6)  # 30 msg/s against 50 msg/s
    assert LOAD.output_ratio == pytest.approx(0.2)
    assert LOAD.memory.ratio == pytest.approx(0.55)


def test_estimates_after_twenty_subscriptions_left():
    after = LOAD.after(LoadChange(-20, -10.0, -50_000.0))
    assert after.n_subs == 80
    assert after.matching_delay == pytest.approx(0.016)  # Eq. 4.7
    assert after.input_ratio == pytest.approx(20 * 0.016)  # Eq. 4.8
    assert after.output_ratio == pytest.approx(0.15)  # Eq. 4.9, 4.10
    assert after.memory.input_queue == pytest.approx(1000 * (20 / 30) * 0.8)  # Eq. 4.13
    assert after.memory.output_queue == pytest.approx(500 * 0.75)  # Eq. 4.14
    assert after.memory.engine == pytest.approx(3200)  # Eq. 4.15
    assert after.memory.used == pytest.approx(1000 * (20 / 30) * 0.8 + 375 + 3200)  # Eq. 4.16


def test_cpu_is_scaled_so_that_a_backlog_still_shows():
    # Measured at 1.0 although the input ratio is 0.6: Eq. 4.8 taken literally would say 0.32.
    assert LOAD.after(LoadChange(-20, -10.0, 0.0)).cpu == pytest.approx(0.32 / 0.6)


def test_cpu_of_an_idle_broker_is_the_input_ratio():
    idle = Load(10, 0.001, 0.0, 0.0, 1e6)
    assert idle.after(LoadChange(10, 5.0, 0.0)).cpu == pytest.approx(5 * 0.002)


def test_the_slope_stands_in_where_there_is_no_subscription():
    empty = Load(0, 0.0, 0.0, 0.0, 1e6, slope=0.0001)
    assert empty.after(LoadChange(50, 2.0, 0.0)).matching_delay == pytest.approx(0.005)


def test_unknown_memory_is_no_load():
    assert Load(1, 1.0, 1.0, 1.0, 2.0).after(LoadChange(1, 0.0, 0.0)).memory.ratio == 0.0


@pytest.mark.parametrize(
    "load",
    [
        LOAD._replace(cpu=0.0, input_rate=46.0),
        LOAD._replace(cpu=0.0, output_used=901_000.0),
        LOAD._replace(cpu=0.91),
        LOAD._replace(cpu=0.0, memory=MemoryUse(engine=9100.0, total=10_000.0)),
    ],
)
def test_any_of_four_resources_overloads(load):
    assert load.above(0.9)
    assert not LOAD._replace(cpu=0.9).above(0.9)


def test_delays_are_compared_by_a_fixed_scale():
    assert delay_difference(0.000002, 0.000001, 0.1) == pytest.approx(0.00001)
    assert delay_difference(10.0, 9.0, 0.1) == pytest.approx(10.0)


def test_smoothing_weighs_the_present():
    assert smoothed(0.8, 0.4, 0.75) == pytest.approx(0.7)


@given(
    st.integers(1, 50), st.just(0.0) | st.floats(0.01, 20.0), st.floats(0.0, 900_000.0), st.floats(0.0, 1.0), st.booleans(), st.booleans(),
    st.sampled_from([0.0, 1e-8, 1e-6]),
)  # fmt: skip
def test_the_shortcut_says_what_the_whole_estimate_says(number, rate, output, cpu, memory, idle, per_bit):
    load = LOAD._replace(
        per_bit=per_bit,
        cpu=cpu,
        memory=LOAD.memory if memory else MemoryUse(),
        input_rate=0.0 if idle else 30.0,
        n_subs=100 if number % 7 else 0,
    )
    change = LoadChange(number, rate, output)
    assert load.exceeds_after(change, 0.9) == load.after(change).above(0.9)
    assert load.input_ratio_after(number, rate, output) == pytest.approx(load.after(change).input_ratio)


def test_what_is_named_costs_beside_what_is_compared():
    load = Load(100, 0.02, 10.0, 5_000.0, 100_000.0, per_bit=1e-5)  # 0.015 s of comparing, 0.005 s of naming
    assert load.base_delay == pytest.approx(0.015)
    after = load.after(LoadChange(50, 0.0, 5_000.0))
    assert after.matching_delay == pytest.approx(0.015 * 1.5 + 0.01)
    assert after.input_ratio == pytest.approx(0.325)
    empty = Load(0, 0.0, 0.0, 0.0, 100_000.0, slope=1e-4, per_bit=1e-5).after(LoadChange(20, 10.0, 2_000.0))
    assert empty.input_ratio == pytest.approx(10.0 * 20 * 1e-4 + 0.02)
