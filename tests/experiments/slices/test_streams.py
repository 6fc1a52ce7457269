"""The experiments with slices, each small: what they claim holds, and the trace says the same as the row."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evenflow.errors import BadInput
from evenflow.experiments.registry import find
from evenflow.experiments.settings import parse_settings
from evenflow.experiments.slices import rounds as slices_rounds
from evenflow.experiments.slices import scale as slices_scale
from evenflow.experiments.slices import streams as slices
from evenflow.experiments.slices.summary import Summary, is_even
from evenflow.experiments.slices.workload import Sensors, zipf
from evenflow.invariants import SliceCheck
from evenflow.sim import Simulation
from evenflow.trace import MemoryTrace, line, read

SMALL = ("nodes=4", "slices=48", "sensors=300", "gateways=3", "rate=200", "seconds=60")


def run(name: str, *words: str, seed: int = 1, trace: Any = None) -> dict[str, Any]:
    experiment = find(name)
    return dict(experiment.run(parse_settings(experiment.settings, words), seed, trace))


def unharmed(row: dict[str, Any]) -> bool:
    counts = ("unprocessed", "lost", "duplicated", "owner_violations", "unfinished_sessions")
    return row["items"] == row["processed"] > 0 and not any(row[name] for name in counts)


def test_a_run_that_is_cut_off_has_lost_nothing():
    """One sensor sends more than its node can process: at the end items wait, at publishers and in queues."""
    row = run("slices-skew", "zipf=3", "sensors=50", "slices=16", "gateways=2", "rate=60", "seconds=40")
    assert (row["lost"], row["duplicated"]) == (0, 0)
    assert row["unprocessed"] > 100
    assert row["processed"] + row["unprocessed"] == row["items"]


class TestJoin:
    def test_the_example_of_section_4_4(self):
        """A and B have five slices each, C joins: two movements of two, and it ends 3/3/4."""
        trace = MemoryTrace()
        row = run("slices-join", "rate=50", "sensors=100", trace=trace)
        assert row["slices_per_node"] == [3, 3, 4]
        done = [r for r in trace.of("session") if r["step"] == "done" and r["taker"] == "node-2"]
        assert [(r["giver"], len(r["slices"])) for r in done] == [("node-0", 2), ("node-1", 2)]
        assert unharmed(row)

    def test_nodes_that_join_one_after_the_other_all_get_their_share(self):
        row = run(
            "slices-join", "rate=50", "sensors=100", "slices=40", "joins=3", "policy=least_moves", "plan_every_s=2"
        )
        assert len(row["slices_per_node"]) == 5
        assert sum(row["slices_per_node"]) == 40
        assert min(row["slices_per_node"]) > 0
        assert unharmed(row)


class TestStreams:
    @pytest.mark.parametrize("where", ["reader", "node"])
    def test_skew_is_evened_out(self, where):
        row = run("slices-skew", *SMALL, "zipf=0.8", f"filter={where}")
        assert unharmed(row)
        assert row["floor"] == 1.0
        assert row["max_over_mean"] <= 1.05
        assert row["steady_moves"] == 0
        assert row["moves"] > 10

    def test_one_hot_slice_is_the_floor(self):
        row = run("slices-skew", *SMALL, "zipf=1.4")
        assert row["floor"] > 1.3
        assert row["floor"] <= row["max_over_mean"] <= 1.02 * row["floor"]

    def test_without_a_policy_that_measures_skew_stays(self):
        even = run("slices-skew", *SMALL, "zipf=1.0")
        counts = run("slices-skew", *SMALL, "zipf=1.0", "policy=even_counts")
        assert unharmed(counts)
        assert counts["max_over_mean"] > even["max_over_mean"] + 0.1

    def test_a_jump_is_caught(self):
        row = run("slices-drift", *SMALL[:-1], "seconds=100")
        assert unharmed(row)
        assert row["rounds_to_even"] is not None
        assert row["max_over_mean"] <= 1.06
        assert row["thrash_pct"] < 10
        assert row["steady_moves"] == 0

    def test_slow_drift_is_followed(self):
        followed = run("slices-drift", *SMALL[:-1], "seconds=100", "drift=slow")
        ignored = run("slices-drift", *SMALL[:-1], "seconds=100", "drift=slow", "policy=even_counts")
        assert unharmed(followed)
        assert followed["max_over_mean"] < 1.15 < ignored["max_over_mean"]

    def test_uneven_nodes_get_shares_that_fit(self):
        row = run("slices-hetero", *SMALL)
        assert unharmed(row)
        assert row["max_over_mean"] <= 1.05  # of load over capacity
        bench = slices.Bench(slices.Hetero(nodes=4), 1, None)
        assert bench.speeds[-1] == pytest.approx(10 * bench.speeds[0])

    def test_nodes_are_drained_on_request_and_because_they_idle(self):
        trace = MemoryTrace()
        row = run("slices-drain", "rate=100", "sensors=200", "slices=32", "gateways=2", trace=trace)
        assert unharmed(row)
        gone = [(r["node"], r["why"]) for r in trace.of("node") if r["step"] == "draining"]
        assert gone[0] == ("node-1", "asked for")
        assert gone[1][1].startswith("idle: cpu below 40 %")
        assert row["nodes_left"] == 4 - len(gone)
        left = {r["node"] for r in trace.of("node") if r["step"] == "left"}
        assert left == {node for node, _ in gone}
        owners = SliceCheck().read_all(trace.records).owners
        assert len(owners) == 32
        assert not left & set(owners.values())


class TestTheTrace:
    def test_the_same_seed_writes_the_same_bytes(self):
        def written(seed: int) -> str:
            trace = MemoryTrace()
            run("slices-drift", *SMALL[:-2], "rate=50", "seconds=60", seed=seed, trace=trace)
            return "\n".join(line(record) for record in trace.records)

        assert written(3) == written(3) != written(4)

    @pytest.mark.parametrize(
        ("name", "words"),
        [("slices-join", ["rate=50", "sensors=100"]), ("slices-skew", SMALL), ("slices-chaos", ["seconds=8"])],
    )
    def test_a_run_directory_is_judged_as_the_row(self, evenflow, tmp_path, name, words):
        settings = [part for word in words for part in ("--set", word)]
        ended = evenflow("experiment", name, "--seed", "2", *settings, "--run", tmp_path / "run", "--json")
        assert ended.code == 0
        (row,) = json.loads(ended.out)["rows"]
        found = json.loads(json.dumps(SliceCheck().read_all(read(tmp_path / "run" / "trace.jsonl")).findings()))
        in_both = found.keys() & row.keys()
        assert {"items", "lost", "duplicated", "owner_violations", "sessions", "moves"} <= in_both
        assert {name: found[name] for name in in_both} == {name: row[name] for name in in_both}


class TestRounds:
    def test_plans_are_within_the_published_figures(self):
        row = run("slices-rounds", "rounds=40")
        assert row["rounds"] == 40
        assert row["imbalance_p50_pct"] <= 2.0
        assert row["imbalance_p95_pct"] <= 4.0
        assert row["moves"] > 0

    def test_a_policy_that_only_counts_is_not(self):
        row = run("slices-rounds", "rounds=40", "policy=even_counts")
        assert row["imbalance_p50_pct"] > 10.0

    def test_the_slices_of_a_lost_node_are_adopted(self):
        import numpy as np

        owner = slices_rounds._adopted(np.array([0, 1, 2, 2]), np.array([0, 1]), np.array([5.0, 1.0, 2.0, 3.0]))
        assert owner.tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("name", ["slices-join", "slices-skew", "slices-rounds", "slices-scale"])
def test_an_unknown_policy_leaves_an_older_run_alone(evenflow, tmp_path, name):
    for file in ("run.json", "trace.jsonl"):
        (tmp_path / file).write_text("older")
    ended = evenflow("experiment", name, "--set", "policy=least_move", "--run", tmp_path)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "'least_moves' (nearest)" in ended.err
    assert {(tmp_path / file).read_text() for file in ("run.json", "trace.jsonl")} == {"older"}


def test_more_nodes_at_least_than_at_most_are_refused():
    with pytest.raises(BadInput, match="fewest 6 and nodes 4, allowed is fewest <= nodes"):
        parse_settings(slices_rounds.RoundsSettings, ["nodes=4"])


class TestScale:
    WORDS = ("nodes=40", "slices=400", "publishers=4000", "gbit_s=0.3", "seconds=200")

    def test_the_same_actors_even_out_rates(self):
        row = run("slices-scale", *self.WORDS)
        assert row["owner_violations"] == 0
        assert row["max_over_mean"] <= 1.1
        assert row["moves"] > 400 * 0.9  # the first node had everything
        assert row["items"] == int(0.3e9 / 8 / 1000 * 200)

    def test_the_balancers_traffic_does_not_depend_on_the_rate(self):
        slow = run("slices-scale", *self.WORDS, "policy=even_counts")
        fast = run("slices-scale", *self.WORDS[:3], "gbit_s=3", *self.WORDS[4:], "policy=even_counts")
        assert fast["items"] == 10 * slow["items"]
        assert fast["balancer_messages_per_s"] == pytest.approx(slow["balancer_messages_per_s"], rel=0.05)

    def test_a_meter_measures_every_slice_once_per_period(self):
        meter = slices_scale.Meter(slices_scale.ScaleSettings(slices=10, publishers=100, gbit_s=0.1), seed=1)
        first = meter([3], 0.0, 5.0)
        assert meter([3], 0.0, 5.0) == first
        assert meter([3], 5.0, 10.0) != first
        assert meter([3], 7.5, 10.0)[3] == pytest.approx(meter([3], 5.0, 10.0)[3] / 2)
        assert first[3] == pytest.approx(5.0 * meter.rates[3], rel=0.2)


class TestSensors:
    def sensors(self, drift: Any = "none", exponent: float = 1.0) -> Sensors:
        return Sensors(50, 16, 100.0, exponent, Simulation(1).chance("x"), drift, change_at=20.0, end=40.0)

    def test_shares_follow_the_law(self):
        shares = zipf(4, 1.0)
        assert shares.sum() == pytest.approx(1.0)
        assert shares[0] / shares[3] == pytest.approx(4.0)
        assert zipf(5, 0.0).tolist() == pytest.approx([0.2] * 5)

    @pytest.mark.parametrize("poisson", [False, True])
    def test_items_come_at_the_true_rates(self, poisson):
        sensors = self.sensors("jump")
        due = list(sensors.schedule(0, 1, Simulation(2).chance("y"), poisson=poisson))
        assert [d.at for d in due] == sorted(d.at for d in due)
        for begin, end in ((0.0, 20.0), (20.0, 40.0)):
            rates = sensors.slice_rates(begin)
            hottest = int(rates.argmax())
            seen = sum(begin <= d.at < end and d.slice == hottest for d in due)
            assert seen == pytest.approx(20.0 * rates[hottest], rel=0.15)
        assert len(due) == pytest.approx(4000, rel=0.05)

    def test_gateways_share_the_sensors(self):
        sensors = self.sensors()
        parts = [len(list(sensors.schedule(g, 3, Simulation(g).chance("z"), poisson=False))) for g in range(3)]
        assert sum(parts) == pytest.approx(4000, rel=0.05)
        assert min(parts) > 0

    def test_a_jump_is_sudden_and_a_drift_is_gradual(self):
        jump, slow = self.sensors("jump"), self.sensors("slow")
        assert (jump.rates(19.9) == jump.before).all()
        assert (jump.rates(20.1) == jump.after).all()
        assert slow.rates(30.0).tolist() == pytest.approx(((slow.before + slow.after) / 2).tolist())
        assert slow.rates(99.0).tolist() == pytest.approx(slow.after.tolist())
        assert slow.rates(30.0).sum() == pytest.approx(100.0)


class TestSummary:
    def read(self, summary: Summary, *records: dict[str, Any]) -> Summary:
        for record in records:
            summary.read(record)
        return summary

    def nodes(self, **capacity: float) -> list[dict[str, Any]]:
        return [{"kind": "node", "at": 0.0, "node": n, "step": "joined", "capacity": c} for n, c in capacity.items()]

    def test_imbalance_is_of_load_over_capacity_against_what_a_hot_slice_allows(self):
        owners = [{"kind": "owner", "at": 0.0, "node": n, "slice": s, "owns": True} for s, n in enumerate("aab")]
        summary = self.read(Summary(), *self.nodes(a=2.0, b=1.0), *owners)
        assert summary.imbalance([1.0, 3.0, 2.0]) == pytest.approx((1.0, 1.0))
        assert summary.imbalance([0.0, 8.0, 1.0]) == pytest.approx((4.0 / 3.0, 4.0 / 3.0))  # on the fastest node
        assert summary.imbalance([0.0, 0.0, 0.0]) == (1.0, 1.0)

    def test_evenness_is_judged_over_the_last_fifth(self):
        commits = [
            {"kind": "commit", "at": float(at), "node": "a", "slices": {0: list(range(count))}}
            for at, count in ((5, 90), (85, 6), (95, 6))
        ] + [{"kind": "commit", "at": float(at), "node": "b", "slices": {1: list(range(4))}} for at in (85, 95)]
        found = self.read(Summary(), *self.nodes(a=1.0, b=1.0), *commits).findings(100.0)
        assert found["max_over_mean"] == pytest.approx(1.2)
        assert found["floor"] == pytest.approx(1.2)
        assert found["gap"] == pytest.approx(0.0)

    def test_a_short_run_is_judged_by_its_last_whole_window(self):
        commits = [
            {"kind": "commit", "at": 25.0, "node": "a", "slices": {0: [1, 2, 3], 1: [4]}},
            {"kind": "commit", "at": 25.0, "node": "b", "slices": {2: [5]}},
        ]
        found = self.read(Summary(), *self.nodes(a=1.0, b=1.0), *commits).findings(30.0)
        assert found["max_over_mean"] == pytest.approx(1.6)

    def test_thrash_is_what_was_moved_in_vain_within_one_phase(self):
        summary = Summary(phases=[10.0])
        summary.moved = [(1.0, 0, "a", "b"), (2.0, 0, "b", "a"), (3.0, 1, "a", "b"), (4.0, 1, "b", "c")]
        assert summary.thrash_pct() == pytest.approx(75.0)  # slice 0 is back, slice 1 needed one move
        summary.moved = [(1.0, 0, "a", "b"), (11.0, 0, "b", "a")]  # the world changed in between
        assert summary.thrash_pct() == 0.0

    def test_even_means_five_per_cent_or_two_above_the_floor(self):
        assert is_even(1.05, 1.0)
        assert not is_even(1.051, 1.0)
        assert is_even(1.529, 1.5)
        assert not is_even(1.54, 1.5)
        assert not is_even(1.049, 1.01)


class TestFigures:
    @pytest.mark.parametrize(
        ("name", "words", "titles"),
        [
            ("slices-join", ["rate=50", "sensors=100"], ["How even", "Load of each node", "How long sessions"]),
            ("slices-drift", [*SMALL[:4], "rate=50"], ["How even", "Load of each node", "How long sessions"]),
            ("slices-scale", TestScale.WORDS, ["How even", "How long sessions"]),
            ("slices-rounds", ["rounds=200"], ["How even each plan"]),
            ("slices-chaos", ["seconds=5"], ["Faults by kind and step", "Sessions"]),
        ],
    )
    def test_a_report_shows_them(self, name, words, titles):
        experiment = find(name)
        settings = parse_settings(experiment.settings, words)
        rows = [{"seed": seed, **experiment.run(settings, seed, None)} for seed in (1, 2)]
        assert experiment.figures is not None
        parts = experiment.figures(rows, settings)
        assert [part.title for part in parts if part.title not in {"Every seed", "Published numbers"}] == [
            next(part.title for part in parts if part.title.startswith(title)) for title in titles
        ]
        assert any("No published figures exist" in part.caption for part in parts)
        for part in parts:
            for series in getattr(part, "series", ()):
                assert 0 < len(series.x) == len(series.y) <= 100

    def test_the_curves_say_what_happened(self):
        row = run("slices-join", "rate=50", "sensors=100")
        curves = row["series"]
        assert curves["changes"] == [20.0]
        assert curves["at"] == [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]
        assert curves["load_pct"]["node-2"][:2] == [None, None]  # it was not there
        assert curves["load_pct"]["node-2"][-1] > 10.0
        assert [count for _, count in curves["moves"]] == [5, 4]
        assert len(curves["session_s"]) == row["sessions"]

    def test_the_faults_of_all_seeds_are_in_one_table(self):
        experiment = find("slices-chaos")
        faults = [{"loss": {"ship": 2}}, {"loss": {"ship": 1, "clean": 4}, "delay": {"stop": 5}}]
        rows = [
            {"seed": n, "faults": f, "lost": 0, "duplicated": 0, "owner_violations": 0} for n, f in enumerate(faults)
        ]
        assert experiment.figures is not None
        table = next(figure for figure in experiment.figures(rows, None) if "fault" in getattr(figure, "columns", ()))
        assert table.columns == [
            "fault",
            "stop",
            "expect",
            "remove",
            "ship",
            "open",
            "readmit",
            "resume",
            "clean",
            "withdraw",
            "discard",
            "all",
        ]
        assert table.rows == [["delay", 5, *[0] * 9, 5], ["loss", 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 7]]
