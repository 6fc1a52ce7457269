"""Small runs of the experiments with brokers; the published sizes are campaigns."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest

from evenflow.brokers.load import Load
from evenflow.errors import BadInput
from evenflow.experiments.brokers import micro as padres_micro
from evenflow.experiments.brokers.chaos import ChaosSettings
from evenflow.experiments.brokers.chaos import run as run_chaos
from evenflow.experiments.brokers.micro import VALUES, MicroSettings, point
from evenflow.experiments.brokers.micro import run as run_micro
from evenflow.experiments.brokers.padres_global import GlobalSettings, falls, specs_of
from evenflow.experiments.brokers.padres_global import run as run_global
from evenflow.experiments.brokers.padres_local import LocalSettings
from evenflow.experiments.brokers.padres_local import run as run_local
from evenflow.experiments.brokers.scale import ScaleSettings
from evenflow.experiments.brokers.scale import run as run_scale
from evenflow.experiments.brokers.summary import convergence
from evenflow.experiments.brokers.verdicts import VERDICTS

SMALL = {"subscribers": 500, "publishers": 12, "seconds": 900.0, "change_at": 700.0, "join_until": 200.0}


@pytest.fixture(scope="module")
def small():
    return {name: run_local(LocalSettings(balancer=name, **SMALL), 3, None) for name in ("none", "default", "even")}


def test_subscribers_are_spread_and_nothing_is_lost(small):
    for name in ("default", "even"):
        row = small[name]
        assert row["moved"] > 0
        assert (row["lost"], row["duplicated"]) == (0, 0)
        assert sum(row["shares"].values()) == pytest.approx(100.0)
        assert row["shares"]["B1"] < 40.0
        assert row["std_input"] < small["none"]["std_input"]


def test_without_balancing_everybody_stays_and_no_control_message_is_sent(small):
    row = small["none"]
    assert (row["sessions"], row["moved"], row["shares"]["B1"]) == (0, 0, 100.0)
    assert "local_pie" not in row["messages_by_class"]
    assert row["lost"] == 0


def test_messages_are_counted_by_class(small):
    classes = small["default"]["messages_by_class"]
    assert {"publication", "local_pie", "request", "reply", "done", "subscription", "unsubscription"} <= set(classes)
    assert classes["advertisement"] == 12 * 5  # each publisher's, at every broker


def test_the_same_seed_gives_the_same_row(small):
    again = run_local(LocalSettings(balancer="default", **SMALL), 3, None)
    assert again == small["default"]


def test_our_balancer_evens_all_indices(small):
    assert small["even"]["std_input"] < 0.05
    assert small["even"]["std_output"] < 0.05


def test_a_broker_without_memory_crashes():
    settings = LocalSettings(balancer="none", subscribers=4500, publishers=5, seconds=600.0, join_until=100.0)
    assert run_local(settings, 1, None)["b1_crashed_s"] is not None  # 4500 subscriptions do not fit into 16 MB


def test_settings_that_do_not_go_together_are_refused():
    with pytest.raises(BadInput, match="join_until"):
        run_local(LocalSettings(join_from=100.0, join_until=50.0), 1, None)
    with pytest.raises(BadInput, match="global thresholds"):
        run_local(LocalSettings(local_threshold=0.1, global_threshold=0.05), 1, None)


def test_clusters_share_and_sessions_end():
    settings = GlobalSettings(subscribers=900, publishers=30, seconds=1200.0, change_at=1100.0, join_until=300.0)
    row = run_global(settings, 1, None)
    assert row["cluster_shares"]["B20"] > 5.0
    assert row["global_sessions"] > 0
    assert (row["lost"], row["duplicated"]) == (0, 0)


def test_layouts():
    specs, links = specs_of(GlobalSettings(topology="star"))
    assert [s.name for s in specs if s.head == "B30"] == ["B31", "B32"]
    assert links == [("B10", "B20"), ("B10", "B30"), ("B10", "B40")]
    assert specs_of(GlobalSettings())[1] == [("B10", "B20"), ("B20", "B30"), ("B30", "B40")]


@pytest.mark.parametrize("seed", [3, 25])
def test_faults_neither_lose_nor_double_anything(seed):
    row = run_chaos(ChaosSettings(seconds=250.0, subscribers=80), seed, None)
    assert row["violations"] == 0, row
    assert row["faults"]["loss"] > 0


def test_convergence_must_hold():
    def column(*ratios):
        return [Load(1, 1.0, ratio, 0.0, 1.0) for ratio in ratios]

    at = [500.0 * n for n in range(1, 9)]
    flat = column(*[0.5] * 8)
    assert convergence(at, [flat, column(0.9, 0.9, 0.55, 0.5, 0.5, 0.5, 0.5, 0.5)], 4000.0) == 1500.0
    assert convergence(at, [flat, column(*[0.9] * 8)], 4000.0) is None


def test_falling_load():
    assert falls([0.4, 0.3, 0.3, 0.2])
    assert not falls([0.2, 0.3])


def test_every_study_has_a_verdict_that_can_fail():
    assert set(VERDICTS) == set(VALUES)
    points = [{"value": v, "convergence_s": 1000.0, "sessions": 99.0, "b1_max_input": 1.0} for v in (0.08, 0.1)]
    assert [holds for _, holds, _ in VERDICTS["local-threshold"](points)] == [False, False]
    rising = [{"value": v, "convergence_s": 500.0 + v / 2, "std_input": 0.03} for v in (2000.0, 4000.0)]
    assert [holds for _, holds, _ in VERDICTS["subscribers"](rising)] == [True, True]


def test_a_broken_study_goes_on_where_it_stopped(tmp_path, monkeypatch):
    small = {"subscribers": 60, "publishers": 4, "seconds": 600.0, "join_until": 50.0, "press_samples": 5}
    settings = MicroSettings(study="local-pie", values="20,60", keep=str(tmp_path), **small)
    first = run_micro(settings, 1, None)
    assert len(list(tmp_path.rglob("*.json"))) == 2
    next(tmp_path.rglob("20-*.json")).unlink()
    ran = []
    monkeypatch.setattr(padres_micro, "point", lambda *words: ran.append(words[2]) or point(*words))
    assert run_micro(settings, 1, None) == first
    assert ran == [20.0]
    run_micro(replace(settings, zero_traffic=0.5), 1, None)  # other settings are another study
    assert ran == [20.0, 20.0, 60.0]


def test_what_waits_in_a_queue_at_the_end_is_not_lost():
    # The first broker has a long backlog and subscribers that are leaving it; until they have left it serves them.
    row = run_local(LocalSettings(seconds=300.0, change_at=290.0, join_until=150.0), 1, None)
    assert row["b1_queue"] > 1000
    assert row["moved"] > 0
    assert (row["lost"], row["duplicated"]) == (0, 0)


def test_a_large_federation_by_rates():
    settings = ScaleSettings(brokers=8, clusters=2, subscribers=2400, seconds=900.0, join_until=200.0, rate=60.0)
    row = run_scale(settings, 1, None)
    assert (row["homes"], row["astray"], row["overloaded_end"]) == (2400, 0, 0)
    assert row["moved"] > 100
    assert row["cluster_spread_mean"] < 0.15


@pytest.mark.long
def test_bands_of_the_published_experiment():
    rows = [run_local(LocalSettings(), seed, None) for seed in range(101, 108)]

    def middle(name):
        return statistics.median(row[name] for row in rows if row[name] is not None)

    assert 0.015 <= middle("std_input") <= 0.040
    assert 0.010 <= middle("std_output") <= 0.040
    assert 1150 <= middle("convergence_s") <= 2000
    assert 3000 <= middle("last_move_after_change_s") <= 3600
    assert 11 <= middle("input_sessions") <= 20
    assert 0.2 <= middle("overhead_steady_pct") <= 0.4
    assert 0.14 <= middle("overhead_end_pct") <= 0.3
    assert sum(row["lost"] + row["duplicated"] for row in rows) == 0
