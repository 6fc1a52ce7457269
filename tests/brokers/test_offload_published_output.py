"""Output offload (section 4.2.3): phases, types, the guard and its exception."""

from __future__ import annotations

import pytest
from offload_cases import broker, offload_state, sub

from evenflow.brokers.offload import ReportCard
from evenflow.brokers.offload_published import decide


def steps(case):
    return [(pick.name, pick.subscribers, pick.step) for pick in decide("output", case).picks]


def test_covered_subscriptions_go_before_others():
    subs = {"other": (sub("B"), 30, "0000000001"), "covered": (sub("A", 5), 30, "0000000010")}
    case = offload_state(broker(out=80_000.0), broker(delay=0.001, out=20_000.0), subs, css={sub("A"): "0000000010"})
    assert [name for name, *_ in steps(case)][:1] == ["covered"]


def test_type_three_follows_when_a_better_type_would_worsen():
    # 0.50 against 0.45: a (Type-I) moves 10 kbit/s and would leave -0.15; three of b, which a covers, leave -0.01.
    subs = {"a": (sub("A"), 1, "1111111111"), "b": (sub("A", 5), 4, "0000001000")}
    case = offload_state(broker(out=50_000.0), broker(delay=0.001, out=45_000.0), subs, css={sub("A"): "1111111111"})
    assert steps(case) == [("b", 3, "output-I-III")]


def test_phase_two_covers_descendants_which_then_go_through_phase_one():
    subs = {"wide": (sub("A"), 2, "0000000011"), "narrow": (sub("A", 5), 40, "0000000001")}
    case = offload_state(broker(out=80_000.0, delay=0.05), broker(delay=0.001, out=20_000.0), subs)
    found = steps(case)
    # Of the two in Phase-II 'narrow' comes closer to even: 30 of 40 leave exactly 0.
    assert found == [("narrow", 30, "output-II")]
    subs["narrow"] = (sub("A", 5), 10, "0000000001")
    subs["wide"] = (sub("A"), 11, "0000000011")
    found = steps(offload_state(broker(out=80_000.0, delay=0.05), broker(delay=0.001, out=20_000.0), subs))
    assert found == [("wide", 11, "output-II"), ("narrow", 8, "output-I-II")]


def test_the_guard_forbids_what_would_come_back_as_input_load():
    # Any subscriber of a brings 5 msg/s to the acceptor: its input ratio would be 0.6 against 0.2.
    subs = {"a": (sub("A"), 4, "0000011111")}
    case = offload_state(broker(delay=0.02, out=80_000.0), broker(delay=0.04, out=20_000.0), subs)
    assert steps(case) == []


def test_the_guard_compares_input_ratios_with_the_local_threshold():
    # 0.45 against 0.5 (not more than 0.1 above): allowed.
    subs = {"a": (sub("A"), 4, "0000011111"), "b": (sub("B"), 1, "1111111111")}
    case = offload_state(broker(delay=0.05, out=50_000.0), broker(delay=0.034, rate=10.0, out=40_000.0), subs)
    assert steps(case)[0][0] == "a"


def test_an_overloaded_broker_may_ignore_the_guard_down_to_the_lower_threshold():
    subs = {"a": (sub("A"), 20, "0000000001")}
    quiet, busy = broker(delay=0.001, out=98_000.0), broker(delay=0.04, out=20_000.0)
    assert steps(offload_state(quiet, busy, subs)) == []
    assert steps(offload_state(quiet, busy, subs, overloaded=True)) == [("a", 8, "output-II")]  # 98 - 8 = 90 kbit/s


def test_subscriptions_without_traffic_stay():
    subs = {"idle": (sub("A"), 50, "0000000000")}
    assert steps(offload_state(broker(out=80_000.0), broker(out=20_000.0), subs, css={sub("A"): "0000000000"})) == []


def test_a_pick_that_would_worsen_is_refused():
    subs = {"a": (sub("A"), 1, "1111111111")}
    # 0.11 against 0.10: 10 kbit/s would leave 0.01 against 0.20.
    assert steps(offload_state(broker(delay=0.05, out=11_000.0), broker(delay=0.001), subs)) == []


def test_gamma_prefers_much_output_for_little_new_input():
    def card(rate, number, added):
        return ReportCard("x", number, 0.0, False, 0.0, 0.0, rate, added, rate * 1000.0)

    assert card(2.0, 3, 0.5).gamma == pytest.approx(2.0 * 2000.0 * 3 / 0.5)  # Eq. 4.19
    assert card(2.0, 3, 0.0).gamma == float("inf")


def test_equal_differences_in_phase_two_go_by_gamma():
    # Both leave the same difference; b adds less to the acceptor, which knows half of it.
    subs = {"a": (sub("A"), 5, "0000000011"), "b": (sub("B"), 5, "0000001100")}
    case = offload_state(
        broker(delay=0.05, out=80_000.0), broker(delay=0.001, out=20_000.0), subs, css={sub("B", 5): "0000000100"}
    )
    assert steps(case)[0][:2] == ("b", 5)
