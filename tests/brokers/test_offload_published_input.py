"""Input offload (section 4.2.1): small cases worked out by hand."""

from __future__ import annotations

import pytest
from offload_cases import broker, offload_state, sub

from evenflow.brokers.offload import Limits, ReportCard, choose, fewest
from evenflow.brokers.offload_published import decide


def picks(case):
    return [(pick.name, pick.subscribers) for pick in decide("input", case).picks]


def test_only_the_covering_set_is_considered():
    # x covers y; y alone would be closer to even but cannot lower the incoming rate.
    subs = {"x": (sub("A"), 1, "0000001111"), "y": (sub("A", 5), 1, "0000000001")}
    case = offload_state(broker(delay=0.06), broker(delay=0.05, rate=3.0), subs)
    assert picks(case)[0] == ("x", 1)


def test_a_root_that_went_uncovers_the_next():
    subs = {"x": (sub("A"), 1, "0000000001"), "y": (sub("A", 5), 1, "0000000001"), "z": (sub("B"), 1, "1111111110")}
    case = offload_state(broker(delay=0.06), broker(delay=0.001, rate=1.0), subs, kept=0)
    case.take("x", 1, "test")
    assert sorted(case.roots()) == ["y", "z"]
    assert case.covered == {"y"}


def test_the_acceptor_is_never_pushed_above_the_lower_threshold():
    # Each subscriber brings 5 msg/s once and 5000 bit/s each: at 0.885 of output only one fits.
    subs = {"a": (sub("A"), 4, "0000011111")}
    case = offload_state(broker(delay=0.09), broker(delay=0.001, out=84_000.0), subs)
    assert picks(case) == [("a", 1)]


def test_the_bound_looks_at_cpu_too():
    subs = {"a": (sub("A"), 4, "0000011111")}
    assert picks(offload_state(broker(delay=0.09), broker(delay=0.001, cpu=0.89), subs)) == []


def test_rate_falls_only_if_all_subscribers_go():
    # 0.6 against 0.05. One of two: 0.594 - 0.1 = 0.49. Both: 5*0.0588 - 0.102 = 0.19, so both.
    subs = {"a": (sub("A"), 2, "0000011111"), "b": (sub("B"), 1, "1111100000")}
    case = offload_state(broker(delay=0.06), broker(delay=0.01, rate=5.0), subs)
    first = decide("input", case).picks[0]
    assert (first.name, first.subscribers) == ("a", 2)


def test_a_rate_that_others_want_too_is_not_reducible():
    subs = {"a": (sub("A"), 1, "0000011111"), "b": (sub("B"), 1, "0000011110")}
    case = offload_state(broker(), broker(), subs)
    assert case.traffic(case.candidates["a"]).reducible == pytest.approx(1.0)
    assert case.traffic(case.candidates["b"]).reducible == 0.0


def test_a_partly_offloaded_subscription_keeps_its_traffic():
    subs = {"a": (sub("A"), 2, "0000011111"), "b": (sub("B"), 1, "0000011110")}
    case = offload_state(broker(), broker(), subs)
    case.take("a", 1, "test")
    assert case.giver.input_rate == 10.0
    assert case.traffic(case.candidates["b"]).reducible == 0.0  # a's remaining subscriber still asks for it


def test_it_stops_before_making_things_worse():
    # Even before: 0.50 against 0.35, moving the only one gives 0.05 against 0.80.
    subs = {"a": (sub("A"), 1, "0111111111")}
    case = offload_state(broker(delay=0.05), broker(delay=0.05, rate=7.0), subs, limits=Limits(lower=2.0))
    assert picks(case) == []


def test_an_overloaded_broker_may_overshoot():
    subs = {"a": (sub("A"), 1, "0111111111")}
    case = offload_state(
        broker(delay=0.05), broker(delay=0.05, rate=7.0), subs, limits=Limits(lower=2.0), overloaded=True
    )
    assert picks(case) == [("a", 1)]


def test_nothing_goes_when_the_giver_is_already_lower():
    subs = {"a": (sub("A"), 1, "0000000001")}
    assert picks(offload_state(broker(delay=0.01), broker(delay=0.05), subs)) == []


def test_an_overloaded_broker_without_a_pick_lowers_its_matching_delay():
    # The one wide subscription does not fit; the narrow one without traffic does.
    wide, narrow = (sub("A"), 1, "1111111111"), (sub("A", 9), 30, "0000000000")
    case = offload_state(
        broker(delay=0.1, cpu=1.0), broker(delay=0.085, rate=9.9, cpu=0.5), {"w": wide, "n": narrow}, overloaded=True
    )
    decision = decide("input", case)
    assert [(p.name, p.step) for p in decision.picks] == [("n", "match")]


def test_ties_go_to_the_larger_reduction_then_the_larger_number():
    def card(name, difference, reduced=0.0, number=1):
        return ReportCard(name, number, difference, False, reduced, reduced, 0.0, 0.0, 0.0)

    cards = sorted(
        [card("a", 0.1), card("b", 0.1, 2.0), card("c", 0.1, 2.0, 5)],
        key=lambda c: (c.difference, -c.reduced, -c.subscribers, c.name),
    )
    chosen = choose(cards, 0.5, overloaded=False)
    assert chosen is not None
    assert chosen.name == "c"


@pytest.mark.parametrize(
    ("differences", "wanted"),
    [((-0.3, -0.1, 0.2), -0.1), ((0.1, 0.2), 0.1), ((-0.2, -0.1), -0.1), ((-0.1, 0.0), -0.1), ((), None)],
)
def test_overloaded_choice_is_the_last_below_zero_else_the_first(differences, wanted):
    cards = [ReportCard(str(d), 1, d, False, 0.0, 0.0, 0.0, 0.0, 0.0) for d in differences]
    chosen = choose(cards, 0.05, overloaded=True)
    assert (chosen.difference if chosen else None) == wanted


def test_a_forbidden_number_never_comes_back():
    # 5 is even, 4 is forbidden, 3 is not even: the printed loop would answer 4.
    assert fewest(5, lambda n: None if n == 4 else n > 3) == 5
