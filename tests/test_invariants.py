"""The checker finds every kind of wrong, made by hand, and calls nothing wrong that is right."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from evenflow.experiments.brokers import live_trial as brokers_live
from evenflow.experiments.brokers.delivery import count_deliveries
from evenflow.experiments.dds import logs as dds_logs
from evenflow.experiments.operators import live_trial as operators_live
from evenflow.experiments.registry import find
from evenflow.experiments.settings import parse_settings
from evenflow.experiments.triggers import live as dlber_live
from evenflow.invariants import Comparison, NothingToCompareError, SliceCheck, compare

PUBLISH = [{"kind": "publish", "at": 0.0, "id": i, "slice": 0} for i in (1, 2)]
COMMIT = [{"kind": "commit", "at": 1.0, "node": "a", "slices": {0: [1, 2]}}]
FINAL = [{"kind": "final", "at": 9.0, "slice": 0, "ids": [1, 2]}]


def owner(node: str, owns: bool, slice_id: int = 0) -> dict[str, Any]:
    return {"kind": "owner", "at": 1.0, "node": node, "slice": slice_id, "owns": owns, "session": 1}


def session(step: str, at: float, number: int = 2, slices: tuple[int, ...] = (0,)) -> dict[str, Any]:
    return {"kind": "session", "at": at, "session": number, "step": step, "giver": "a", "taker": "b", "slices": slices}


def found(*records: dict[str, Any]) -> dict[str, Any]:
    return SliceCheck().read_all(records).findings()


def test_a_good_run_has_no_findings():
    moves = [owner("a", True), session("stop", 1.0), owner("a", False), owner("b", True), session("done", 1.5)]
    row = found(*PUBLISH, *COMMIT, *moves, *FINAL)
    assert (row["items"], row["processed"], row["sessions"], row["moves"]) == (2, 2, 1, 1)
    assert (row["lost"], row["duplicated"], row["owner_violations"], row["unfinished_sessions"]) == (0, 0, 0, 0)
    assert row["p95_session_s"] == 0.5


@pytest.mark.parametrize(
    ("records", "name", "count"),
    [
        ([*PUBLISH], "lost", 2),
        ([*PUBLISH, {"kind": "commit", "at": 1.0, "node": "a", "slices": {0: [2]}}], "lost", 1),
        ([*PUBLISH, *COMMIT, {"kind": "final", "at": 9.0, "slice": 0, "ids": [1]}], "lost", 1),
        ([*PUBLISH, *COMMIT, {"kind": "final", "at": 9.0, "slice": 0, "ids": []}], "lost", 2),
        ([*PUBLISH, *COMMIT, {"kind": "commit", "at": 2.0, "node": "b", "slices": {0: [2]}}], "duplicated", 1),
        ([*PUBLISH, *COMMIT, *COMMIT, *COMMIT], "duplicated", 4),
        ([*PUBLISH, {"kind": "commit", "at": 1.0, "node": "a", "slices": {0: [1, 1, 2]}}], "duplicated", 1),
        ([*PUBLISH, *COMMIT, {"kind": "final", "at": 9.0, "slice": 0, "ids": [1, 2, 2]}], "duplicated", 1),
        ([*PUBLISH, *COMMIT, *FINAL, *FINAL], "duplicated", 2),  # two owners at the end, each with the effects
        ([owner("a", True), owner("b", True)], "owner_violations", 1),
        ([owner("a", True), owner("b", False), owner("b", True)], "owner_violations", 1),
        ([owner("a", True), owner("b", True), owner("a", True)], "owner_violations", 2),
        ([session("stop", 1.0), session("expect", 2.0)], "unfinished_sessions", 1),
        ([session("stop", 1.0), session("rolled back", 2.0)], "rolled_back_sessions", 1),
        ([*PUBLISH, {**FINAL[0], "ids": [], "stranded": True}], "lost", 0),  # their publisher still keeps them
        ([*PUBLISH, *COMMIT, {**FINAL[0], "ids": [1], "stranded": True}], "lost", 1),  # it was processed, and is gone
        ([*PUBLISH, {**FINAL[0], "slice": 1, "ids": [], "stranded": True}], "lost", 2),  # another slice
    ],
)
def test_each_kind_of_wrong_is_found(records, name, count):
    assert found(*records)[name] == count


def test_what_is_not_wrong():
    assert found(owner("a", True), owner("a", True))["owner_violations"] == 0  # it said so again after a crash
    assert found(owner("a", True), owner("b", True, slice_id=1))["owner_violations"] == 0
    assert found(owner("a", True), owner("a", False), owner("b", True))["owner_violations"] == 0
    assert found(*COMMIT)["processed"] == 0  # an item that nobody published is not counted as processed


def test_the_first_grant_is_no_session():
    row = found(session("grant", 0.0, number=1), session("done", 0.1, number=1))
    assert (row["sessions"], row["moves"], row["unfinished_sessions"]) == (0, 0, 0)


def test_moves_are_slices_of_sessions_that_were_done():
    steps = [session("stop", 0.0, 2, (1, 2)), session("done", 1.0, 2, (1, 2))]
    rolled = [session("stop", 0.0, 3, (4,)), session("rolled back", 2.0, 3, (4,))]
    row = found(*steps, *rolled)
    assert (row["moves"], row["sessions"], row["p95_session_s"]) == (2, 2, 1.0)


def test_faults_count_by_kind_and_step_and_only_real_sessions_are_faulted():
    def fault(kind: str, number: int | None, step: str) -> dict[str, Any]:
        return {"kind": "fault", "at": 1.0, "fault": kind, "session": number, "step": step}

    faults = [fault("loss", 2, "ship"), fault("loss", 2, "ship"), fault("delay", 2, "open"), fault("loss", None, "")]
    row = found(session("stop", 0.0), *faults, fault("loss", 99, "stop"))
    assert row["faults"] == {"delay": {"open": 1}, "loss": {"ship": 2, "stop": 1}}
    assert row["faulted_sessions"] == 1


def test_items_in_flight_are_those_of_the_merged_caches():
    merges = [{"kind": "merge", "at": 1.0, "node": "b", "session": 2, "items": n} for n in (3, 4)]
    assert found(*merges)["items_in_flight"] == 7


WAITING = {"kind": "waiting", "at": 9.0, "node": "publisher-0", "ids": [2]}


@pytest.mark.parametrize(
    ("records", "unprocessed", "lost"),
    [
        ([*PUBLISH, WAITING], 1, 1),  # neither was processed, and one of them is kept
        ([*PUBLISH, *COMMIT, *FINAL, WAITING], 0, 0),  # processed, the acknowledgement is under way
        ([*PUBLISH, *COMMIT, {"kind": "final", "at": 9.0, "slice": 0, "ids": [1]}, WAITING], 1, 0),
        ([*PUBLISH, *COMMIT, {"kind": "final", "at": 9.0, "slice": 0, "ids": [2]}, WAITING], 0, 1),
    ],
)
def test_what_is_still_somewhere_is_not_lost(records, unprocessed, lost):
    row = found(*records)
    assert (row["unprocessed"], row["lost"]) == (unprocessed, lost)


@pytest.mark.parametrize(
    ("expected", "actual", "still_there", "counts"),
    [
        ([1, 2], [2, 1], (), (2, 0, 0, 0, 0)),
        ([1, 2, 3], [1], {2}, (3, 1, 0, 0, 1)),
        ([1, 1], [1], (), (2, 1, 0, 0, 0)),
        ([1], [1, 1, 1], (), (1, 0, 2, 0, 0)),
        ([1], [1, 9, 9], (), (1, 0, 0, 2, 0)),
        ({"a": 5, "b": 0}, {"a": 7}, (), (2, 1, 0, 0, 0)),  # the keys, whatever they stand for
        ({"a": 5}.items(), {"a": 7}.items(), (), (1, 1, 0, 1, 0)),
        ([], [9], (), (0, 0, 0, 1, 0)),
        ([1], [], (), (1, 1, 0, 0, 0)),
    ],
)
def test_a_comparison(expected, actual, still_there, counts):
    compared = compare(expected, actual, still_there).judged("here")
    assert compared == Comparison(*counts)
    assert compared.equal == (sum(counts[1:]) == 0)


def test_parts_of_a_comparison_add_up():
    assert compare([1], [1]) + compare([], []) + compare([2], [3]) == Comparison(2, 1, 0, 1)


def test_nothing_compared_with_nothing_is_no_success():
    nothing = compare([], [])
    with pytest.raises(NothingToCompareError, match=r"^here: given nothing to compare"):
        nothing.judged("here")
    with pytest.raises(NothingToCompareError):
        nothing.equal  # noqa: B018 - to ask is the point


@pytest.mark.parametrize(
    ("experiment", "words", "emptied"),
    [
        ("slices-chaos", ["seconds=2"], "slices.chaos.items"),
        ("slices-skew", ["seconds=20", "nodes=2", "slices=4"], "slices.streams.Sensors.schedule"),
        ("dlber-chaos", ["seconds=1", "pages=4"], "triggers.chaos.effects_in"),
    ],
)
def test_an_experiment_in_which_nothing_happens_fails(experiment, words, emptied, monkeypatch):
    monkeypatch.setattr(f"evenflow.experiments.{emptied}", lambda *_, **__: iter(()))
    chosen = find(experiment)
    with pytest.raises(NothingToCompareError):
        chosen.run(parse_settings(chosen.settings, words), 1, None)


def test_live_trials_and_drills_in_which_nothing_happens_fail():
    with pytest.raises(NothingToCompareError, match="dds-nodes"):
        dds_logs.summary([], [], [], None)
    with pytest.raises(NothingToCompareError, match="dlber-live"):
        dlber_live.l1({}, {})
    with pytest.raises(NothingToCompareError, match="ami-live"):
        operators_live.findings(SimpleNamespace(results=list), [])  # type: ignore[arg-type]
    with pytest.raises(NothingToCompareError, match="padres-live"):
        brokers_live.findings(SimpleNamespace(live_brokers=None, compared=Comparison()), [], 1.0)  # type: ignore[arg-type]
    quiet = SimpleNamespace(
        brokers={}, service=SimpleNamespace(published=0, past_periods=[], periods={}, replays=[]), subscriber_of={}
    )
    with pytest.raises(NothingToCompareError, match="padres"):
        count_deliveries(quiet)  # type: ignore[arg-type]


def test_a_publisher_that_gives_up_has_not_lost_what_it_keeps():
    publish = [{"kind": "publish", "at": 1.0, "id": i, "slice": 0} for i in (1, 2, 3)]
    commit = {"kind": "commit", "at": 1.01, "node": "a", "slices": {"0": [1]}}
    row = dds_logs.summary([*publish, {"kind": "waiting", "at": 9.0, "ids": [2]}], [commit], [], None)
    assert (row["unprocessed"], row["lost"], row["duplicated"]) == (1, 1, 0)


def test_kinds_it_does_not_know_are_passed_over():
    assert found({"kind": "sample", "at": 0.0, "node": "a"}, {"kind": "weather", "at": 1.0})["items"] == 0


def test_items_of_a_slice_that_a_vanished_node_has_wait_with_their_publishers():
    check = SliceCheck().read_all([*PUBLISH, {**FINAL[0], "ids": [], "stranded": True}])
    assert check.stranded_items() == {1, 2}
    assert SliceCheck().read_all([*PUBLISH, *FINAL]).stranded_items() == set()
