"""What lanes measured becomes loads, since each lane last began anew."""

from __future__ import annotations

import pytest

from evenflow.spark.brokers_meter import WINDOW, Meter

SAMPLE = {"publications": 100, "cpu_us": 2_000_000, "bytes": 1000, "memory": 7, "deliveries": 5}


@pytest.fixture
def meter():
    return Meter(["a", "b"], {"a": 10, "b": 0}.__getitem__, 1e6, 1e9)


@pytest.mark.parametrize("batches", [1, 3, WINDOW, WINDOW + 5])
def test_rate_and_delay_are_those_of_the_batches_that_count(meter, batches):
    for batch in range(1, batches + 1):
        loads = meter.read({"a": SAMPLE}, 10.0 * batch)
    load = loads["a"]
    assert (load.input_rate, load.matching_delay, load.input_ratio) == pytest.approx((10.0, 0.02, 0.2))
    assert (load.output_used, load.memory.engine, load.n_subs) == pytest.approx((800.0, 7.0, 10))
    assert loads["b"].input_ratio == 0.0


def test_what_was_before_a_lane_began_anew_does_not_count(meter):
    for batch in range(1, 6):
        meter.read({"a": SAMPLE, "b": SAMPLE}, 10.0 * batch)
    meter.begin_anew("a")
    loads = meter.read({"a": {**SAMPLE, "cpu_us": 8_000_000}, "b": {**SAMPLE, "cpu_us": 8_000_000}}, 60.0)
    assert loads["a"].input_ratio == pytest.approx(0.8)
    assert loads["b"].input_rate == pytest.approx(10.0)
    assert loads["b"].cpu == pytest.approx((5 * 0.2 + 0.8) / 6)


def test_a_load_that_jumps_is_seen_in_full_after_a_window(meter):
    for batch in range(1, WINDOW + 1):
        meter.read({"a": SAMPLE}, 10.0 * batch)
    later = {"a": {**SAMPLE, "cpu_us": 4_000_000}}
    seen = [meter.read(later, 10.0 * batch)["a"].input_ratio for batch in range(WINDOW + 1, 2 * WINDOW + 1)]
    assert seen == pytest.approx([0.2 + 0.2 * (n + 1) / WINDOW for n in range(WINDOW)])
