"""Status tables, PIE and the two-step detector (sections 3.3.1 and 3.3.2)."""

from __future__ import annotations

import itertools

import pytest

from evenflow.brokers.detector import Attempt, Detector
from evenflow.brokers.load import Load
from evenflow.brokers.pie import Indices, Pie, PieBoard, PieEntry, PieWriter
from evenflow.brokers.settings import BrokerSettings
from evenflow.brokers.status import CLUSTER, LOCAL, Cause, Status, next_status
from evenflow.errors import BadInput

SETTINGS = BrokerSettings()


def load(input_ratio=0.5, output=0.5, delay=0.02, cpu=0.5):
    return Load(100, delay, input_ratio / delay, output * 1e6, 1e6, cpu)


def entry(name, input_ratio=0.5, output=0.5, delay=0.02, status=Status.OK, speed=1.0):
    return PieEntry(name, "C", status, Indices(input_ratio, output, delay), frozenset(), speed, 0.0)


@pytest.mark.parametrize("table", [LOCAL, CLUSTER])
def test_what_the_table_does_not_name_changes_nothing(table):
    for status, cause in itertools.product(Status, Cause):
        assert next_status(table, status, cause) is table.get((status, cause), status)


def test_a_busy_broker_is_not_interrupted():
    assert next_status(LOCAL, Status.BUSY, Cause.OVERLOADED) is Status.BUSY


def test_a_cluster_never_stabilises():
    assert Status.STABILIZING not in CLUSTER.values()


def test_global_thresholds_below_local_ones_are_refused():
    with pytest.raises(BadInput, match="global thresholds"):
        BrokerSettings(global_ratio=0.05)


# -- PIE ----------------------------------------------------------------------------------------


def test_unchanged_indices_are_left_out_and_nothing_is_published_without_news():
    writer = PieWriter("B1", "C", 0.025, 0.0025, 30.0)
    assert writer.generate(Indices(0.5, 0.5, 0.02), Status.OK, (), 0.0) is not None
    assert writer.generate(Indices(0.51, 0.51, 0.021), Status.OK, (), 30.0) is None
    refreshed = writer.generate(Indices(0.51, 0.51, 0.021), Status.OK, (), 60.0)
    assert refreshed is not None  # every second generation, or the entry would expire
    pie = writer.generate(Indices(0.6, 0.51, 0.021), Status.OK, (), 90.0)
    assert pie is not None
    assert pie.indices == (0.6, None, None)


def test_a_broker_that_is_not_ok_tells_so_once():
    writer = PieWriter("B1", "C", 0.025, 0.0025, 30.0)
    writer.generate(Indices(0.5, 0.5, 0.02), Status.OK, (), 0.0)
    assert writer.generate(Indices(0.95, 0.5, 0.02), Status.NA, (), 30.0) is not None
    assert writer.generate(Indices(1.3, 0.5, 0.02), Status.NA, (), 60.0) is None
    assert writer.generate(Indices(1.3, 0.5, 0.02), Status.BUSY, (), 61.0) is not None


def test_entries_expire_after_three_periods_and_keep_what_was_left_out():
    board = PieBoard(90.0)
    board.read(Pie("B1", "C", Status.OK, (0.5, 0.4, 0.02)), 0.0)
    board.read(Pie("B1", "C", Status.OK, (0.6, None, None)), 30.0)
    assert board.current(120.0)[0].indices == Indices(0.6, 0.4, 0.02)
    assert board.current(120.1) == []


# -- the detector -------------------------------------------------------------------------------


def test_overload_asks_by_the_index_at_hand_and_leaves_overloaded_brokers_out():
    others = [entry("B2", 0.6), entry("B3", 0.2), entry("B4", 0.1, status=Status.NA)]
    finding = Detector(SETTINGS).detect(load(1.2), Status.OK, others, 0.0)
    assert finding.status is Status.NA
    assert finding.overloaded
    assert finding.tries == (Attempt("B3", "input"), Attempt("B2", "input"))


@pytest.mark.parametrize(
    ("measured", "algorithm"),
    [
        (load(0.96, output=1.5, cpu=1.0), "input"),  # input first, whatever else is overloaded
        (load(0.5, output=1.5, cpu=1.0), "output"),
        (load(0.5, cpu=1.0), "match"),
    ],
)
def test_which_resource_is_shed(measured, algorithm):
    finding = Detector(SETTINGS).detect(measured, Status.OK, [entry("B2")], 0.0)
    assert finding.tries == (Attempt("B2", algorithm),)


def test_headroom_counts_capacity():
    settings = BrokerSettings(by_headroom=True)
    others = [entry("small", 0.1, speed=1.0), entry("large", 0.4, speed=10.0)]
    finding = Detector(settings).detect(load(1.2), Status.OK, others, 0.0)
    assert finding.tries[0].broker == "large"


def test_between_the_thresholds_it_accepts_nothing_but_may_balance():
    others = [entry("B2", 0.2)]
    finding = Detector(SETTINGS).detect(load(0.92), Status.OK, others, 0.0)
    assert (finding.status, finding.overloaded) == (Status.NA, False)
    assert finding.tries == (Attempt("B2", "input"),)
    literal = Detector(BrokerSettings(inert="literal")).detect(load(0.92), Status.OK, others, 0.0)
    assert (literal.status, literal.tries) == (Status.NA, ())


def test_the_largest_difference_comes_first():
    others = [entry("B2", 0.35, 0.5), entry("B3", 0.45, 0.1, delay=0.005)]
    finding = Detector(SETTINGS).detect(load(0.5, 0.5), Status.OK, others, 0.0)
    assert finding.tries == (Attempt("B3", "output"), Attempt("B2", "input"), Attempt("B3", "match"))


def test_an_overloaded_broker_goes_first():
    others = [entry("B2", 0.1), entry("B3", 1.2, status=Status.NA)]
    assert Detector(SETTINGS).detect(load(0.5), Status.OK, others, 0.0).tries == ()


def test_load_must_have_settled_for_thirty_seconds_and_over_a_minute():
    detector = Detector(SETTINGS)
    detector.start_settling(100.0)
    for now in (40.0, 70.0, 100.0, 125.0):
        assert detector.detect(load(0.5), Status.STABILIZING, [], now).status is Status.STABILIZING
    assert detector.detect(load(0.5), Status.STABILIZING, [], 131.0).status is Status.OK
    assert detector.detect(load(0.8), Status.STABILIZING, [], 150.0).status is Status.STABILIZING  # it moved by 0.2
    quick = Detector(BrokerSettings(stable_rule=False))
    quick.start_settling(100.0)
    assert quick.detect(load(0.5), Status.STABILIZING, [], 131.0).status is Status.OK


def test_relief_leads_to_stabilising():
    assert Detector(SETTINGS).detect(load(0.5), Status.NA, [], 0.0).status is Status.STABILIZING


def test_calm_brokers_mind_small_differences():
    detector = Detector(BrokerSettings(calm_s=120.0))
    others = [entry("B2", 0.44)]
    assert detector.detect(load(0.5), Status.OK, others, 60.0).tries == ()
    assert detector.detect(load(0.5), Status.OK, others, 130.0).tries == (Attempt("B2", "input"),)


def test_the_balanced_set_names_who_is_near():
    detector = Detector(SETTINGS)
    detector.detect(load(0.5), Status.OK, [], 0.0)
    assert detector.balanced_with([entry("B2", 0.45), entry("B3", 0.7)]) == {"B2"}
