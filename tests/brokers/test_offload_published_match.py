"""Match offload (section 4.2.2): small cases worked out by hand."""

from __future__ import annotations

import pytest
from offload_cases import broker, offload_state, sub

from evenflow.brokers.offload_published import decide


def picks(case):
    return [(pick.name, pick.subscribers) for pick in decide("match", case).picks]


def test_the_least_traffic_goes_first_and_no_more_than_needed():
    # 20 ms with 200 against 10 ms with 100: 50 move.
    subs = {
        "busy": (sub("A"), 80, "0000011111"),
        "idle": (sub("B"), 30, "0000000000"),
        "low": (sub("C"), 60, "1000000000"),
    }
    case = offload_state(broker(200, 0.020, 1.0), broker(100, 0.010, 1.0), subs)
    assert picks(case) == [("idle", 30), ("low", 18)]  # 15.2 - 14.8 = 0.4 ms is within half a millisecond


def test_of_equal_rates_the_one_that_is_new_to_the_acceptor_goes_last():
    subs = {"new": (sub("A"), 5, "0000000001"), "old": (sub("B"), 5, "0000000010")}
    case = offload_state(broker(200, 0.020, 1.0), broker(100, 0.010, 1.0), subs, css={sub("B"): "0000000010"})
    assert [name for name, _ in picks(case)] == ["old", "new"]


def test_balanced_delays_move_nobody():
    subs = {"a": (sub("A"), 5, "0000000000")}
    assert picks(offload_state(broker(delay=0.0104), broker(delay=0.010), subs)) == []


def test_the_overloaded_variant_stops_below_the_lower_threshold():
    # CPU 1.0, input ratio 0.5: CPU falls with the delay, 1.0 * 89/100 < 0.9 after 11 have gone.
    subs = {"a": (sub("A"), 50, "0000000000")}
    case = offload_state(broker(delay=0.05, cpu=1.0), broker(delay=0.2, rate=0.5, cpu=0.1), subs, overloaded=True)
    decision = decide("match", case)
    assert [(p.name, p.subscribers) for p in decision.picks] == [("a", 11)]
    assert decision.giver.cpu == pytest.approx(0.89)


def test_the_overloaded_variant_takes_nothing_when_nothing_is_overloaded():
    subs = {"a": (sub("A"), 50, "0000000000")}
    assert picks(offload_state(broker(cpu=0.5), broker(delay=0.001), subs, overloaded=True)) == []


def test_the_acceptor_is_bounded():
    subs = {"a": (sub("A"), 50, "0000000000")}
    case = offload_state(broker(200, 0.5, 1.0, cpu=1.0), broker(100, 0.089, 10.0), subs, overloaded=True)
    assert picks(case) == [("a", 1)]  # 0.89 * 101/100 = 0.8989, 102/100 would be 0.9078


def test_who_does_not_fit_is_passed_over():
    subs = {"a": (sub("A"), 5, "0000000100"), "b": (sub("B"), 5, "0000000011")}
    # Equal extra traffic; a would add a message per second and pass 0.9, b is known to the acceptor.
    case = offload_state(broker(200, 0.02, 1.0), broker(100, 0.01, 89.0), subs, css={sub("B"): "0000000011"})
    assert [name for name, _ in picks(case)] == ["b"]
