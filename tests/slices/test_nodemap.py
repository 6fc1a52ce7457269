"""What the balancer learns: jumps quickly, noise never, drift without lagging behind."""

from __future__ import annotations

import random
from collections import deque
from statistics import fmean, pstdev

import pytest

from evenflow.slices.nodemap import WARM, Estimate, NodeMap, NodeView

ALPHA = 0.2
SEEDS = range(100)


def learned(seed: int, level: float = 10.0, samples: int = 30) -> tuple[Estimate, random.Random]:
    """Return an estimate that has seen samples around a level, with a standard deviation of 1."""
    chance, estimate = random.Random(seed), Estimate()
    for _ in range(samples):
        estimate.update(chance.gauss(level, 1.0), ALPHA)
    return estimate, chance


class TestEstimate:
    def test_the_first_samples_count_alike(self):
        estimate = Estimate()
        for sample in (4.0, 8.0, 6.0):
            estimate.update(sample, ALPHA)
        assert estimate.mean == pytest.approx(6.0)
        assert estimate.samples == 3

    @pytest.mark.parametrize("level", [20.0, 30.0, 2.0])
    def test_a_jump_is_found_within_two_or_three_samples(self, level):
        off = {2: [], 3: []}
        for seed in SEEDS:
            estimate, chance = learned(seed)
            for number in range(1, 4):
                estimate.update(chance.gauss(level, 1.0), ALPHA)
                if number in off:
                    off[number].append(abs(estimate.mean - level))
        jump = abs(level - 10.0)
        assert fmean(off[2]) < 0.25 * jump
        assert fmean(off[3]) < 1.0  # as good as one sample
        assert max(off[3]) < 0.45 * jump  # also for the unluckiest seed
        smoothed = jump * (1 - ALPHA) ** 3  # what plain smoothing would still be off by
        assert fmean(off[3]) < 0.3 * smoothed

    def test_a_jump_without_noise_is_exact_at_once(self):
        estimate = Estimate()
        for sample in [10.0] * 20 + [25.0] * 2:
            estimate.update(sample, ALPHA)
        assert estimate.mean == pytest.approx(25.0)

    def test_noise_does_not_trigger(self):
        errors = []
        for seed in SEEDS:
            estimate, chance = learned(seed)
            for _ in range(100):
                before = estimate.samples
                estimate.update(chance.gauss(10.0, 1.0), ALPHA)
                assert estimate.samples == before + 1  # it never starts again
                errors.append(estimate.mean - 10.0)
        assert abs(fmean(errors)) < 0.05
        assert pstdev(errors) < 0.5  # plain smoothing with this weight has a third; one sample has 1

    @pytest.mark.parametrize("slope", [0.2, 0.5, 1.0])
    def test_drift_is_followed(self, slope):
        lag, plain_lag = [], []
        for seed in SEEDS:
            estimate, chance = learned(seed)
            level = plain = 10.0
            for number in range(60):
                level += slope
                sample = chance.gauss(level, 1.0)
                estimate.update(sample, ALPHA)
                plain += ALPHA * (sample - plain)
                if number >= 20:
                    lag.append(level - estimate.mean)
                    plain_lag.append(level - plain)
        assert fmean(plain_lag) == pytest.approx(slope * (1 - ALPHA) / ALPHA, rel=0.1)
        assert fmean(lag) < 0.4 * fmean(plain_lag)
        assert fmean(lag) < 0.5  # half a standard deviation, however fast it drifts


class TestNodeMap:
    def known(self, seed: int, slices: int = 40) -> tuple[NodeMap, random.Random]:
        chance, nodes = random.Random(seed), NodeMap(slices)
        for _ in range(20):
            nodes.measured("A", {s: chance.gauss(10.0, 1.0) for s in range(slices)})
        return nodes, chance

    def test_a_jump_that_hides_in_many_slices_shows_in_their_sum(self):
        for seed in range(20):
            nodes, chance = self.known(seed)
            for _ in range(2):
                nodes.measured("A", {s: chance.gauss(11.5, 1.0) for s in range(40)})
            assert nodes.estimates[0].samples < WARM  # all start again
            assert fmean(nodes.load(s) for s in range(40)) == pytest.approx(11.5, abs=0.6)

    def test_noise_in_many_slices_hardly_ever_does(self):
        restarts = 0
        for seed in range(20):
            nodes, chance = self.known(seed)
            for _ in range(50):
                before = nodes.estimates[0].samples
                nodes.measured("A", {s: chance.gauss(10.0, 1.0) for s in range(40)})
                restarts += nodes.estimates[0].samples < before
        assert restarts <= 2  # of 1,000

    def test_far_samples_of_two_nodes_are_not_two_in_a_row(self):
        nodes, _ = self.known(1)
        nodes.measured("A", dict.fromkeys(range(20), 13.0))
        nodes.measured("B", dict.fromkeys(range(20, 40), 13.0))
        assert nodes.estimates[0].samples > WARM
        assert nodes.estimates[30].samples > WARM

    def test_doubt_falls_with_samples_and_rises_with_noise(self):
        def doubt(noise: float, samples: int) -> float:
            chance, nodes = random.Random(3), NodeMap(20)
            nodes.owner = ["A"] * 20
            for _ in range(samples):
                nodes.measured("A", {s: chance.gauss(10.0, noise) for s in range(20)})
            return nodes.doubt(["A"])

        assert doubt(1.0, 20) < doubt(1.0, 3)
        assert doubt(0.1, 20) < 0.2 * doubt(1.0, 20)
        # twenty slices of 10 ± 1: the sum's standard error is √20 · √(0.2/1.8) over 200
        assert doubt(1.0, 20) == pytest.approx(20**0.5 * (ALPHA / (2 - ALPHA)) ** 0.5 / 200, rel=0.3)

    def test_a_snapshot_counts_a_moving_slice_at_its_taker(self):
        nodes = NodeMap(4)
        for name in "ABC":
            nodes.nodes[name] = NodeView(name, 0.0, 2.0, deque(maxlen=5))
        nodes.owner = ["A", "B", "C", None]
        nodes.moving = {1: "A"}  # from A, B has it as good as already
        nodes.pinned = {0}
        for s in range(4):
            nodes.estimates[s].update(1.0 + s, ALPHA)
        snapshot = nodes.snapshot(["A", "B"])
        assert snapshot.node_ids == ["A", "B"]
        assert snapshot.unit_ids == ["0", "1"]  # C takes no part, 3 has no owner
        assert snapshot.owner.tolist() == [0, 1]
        assert snapshot.load[:, 0].tolist() == [1.0, 2.0]
        assert snapshot.capacity[:, 0].tolist() == [2.0, 2.0]
        assert snapshot.pinned.tolist() == [True, False]
        assert snapshot.leaving == {1: 0}
