"""A network has the faults it was asked for, as often as it was asked, and no others."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from evenflow.sim import Network, Partition, Simulation

MESSAGES = 20_000


def bound(**settings) -> tuple[Network, Counter]:
    faults: Counter = Counter()
    network = Network(**settings, on_fault=lambda kind, *_: faults.update([kind]))
    network.bind(random.Random(1))
    return network, faults


def sent(network: Network, count: int = MESSAGES) -> list[list[float]]:
    return [network.copies("a", "b", n, 0.0) for n in range(count)]


def close(count: int, share: float) -> bool:
    """Within five standard deviations."""
    return abs(count - MESSAGES * share) <= 5 * (MESSAGES * share * (1 - share)) ** 0.5


def test_a_network_without_faults_brings_everything_once_in_order_after_its_delay():
    network, faults = bound(delay=0.5)
    assert sent(network, 100) == [[0.5]] * 100
    assert not faults


@pytest.mark.parametrize("share", [0.01, 0.3])
def test_losses(share):
    network, faults = bound(delay=0.1, loss=share)
    fates = sent(network)
    assert close(fates.count([]), share)
    assert faults == {"loss": fates.count([])}


@pytest.mark.parametrize("share", [0.01, 0.3])
def test_duplicates_come_after_the_first_copy(share):
    network, faults = bound(delay=0.1, duplication=share, late=2.0)
    doubled = [fate for fate in sent(network) if len(fate) == 2]
    assert close(len(doubled), share)
    assert faults == {"duplication": len(doubled)}
    assert all(first == 0.1 and 0.1 <= second <= 2.1 for first, second in doubled)


@pytest.mark.parametrize("share", [0.01, 0.3])
def test_reordered_messages_come_late(share):
    network, faults = bound(delay=0.1, reordering=share, late=2.0)
    late = [fate for fate in sent(network) if fate[0] > 0.1]
    assert close(len(late), share)
    assert faults == {"reordering": len(late)}
    assert max(late) > [1.9]  # the whole range is used
    assert max(late) <= [2.1]


def test_faults_of_different_kinds_do_not_hide_each_other():
    network, faults = bound(loss=0.2, duplication=0.3, reordering=0.4)
    sent(network)
    assert close(faults["loss"], 0.2)
    assert close(faults["duplication"], 0.3)
    assert close(faults["reordering"], 0.4)


def test_jitter_spreads_the_delay_and_reorders():
    network, _ = bound(delay=1.0, jitter=0.5)
    delays = [fate[0] for fate in sent(network)]
    assert 1.0 <= min(delays) < 1.01
    assert 1.49 < max(delays) <= 1.5
    assert sum(delays) / MESSAGES == pytest.approx(1.25, abs=0.01)
    assert sum(after < before for before, after in pairwise(delays)) == pytest.approx(MESSAGES / 2, rel=0.05)


def test_a_partition_cuts_its_side_off_until_it_ends():
    network, faults = bound(delay=0.1)
    network.partitions.append(Partition(frozenset({"a", "b"}), until=10.0))
    assert network.copies("a", "c", "x", 9.9) == []
    assert network.copies("c", "b", "x", 9.9) == []
    assert network.copies("a", "b", "x", 9.9) == [0.1]  # the same side
    assert network.copies("c", "d", "x", 9.9) == [0.1]
    assert faults == {"partition": 2}
    assert network.copies("a", "c", "x", 10.0) == [0.1]
    assert network.partitions == []


def test_two_partitions_cut_independently():
    network, _ = bound()
    network.partitions += [Partition(frozenset({"a"}), 5.0), Partition(frozenset({"b"}), 10.0)]
    assert network.copies("a", "c", "x", 1.0) == []
    assert network.copies("a", "c", "x", 6.0) == [0.0]
    assert network.copies("b", "c", "x", 6.0) == []


def test_an_interceptor_decides_first_and_may_have_no_opinion():
    network, _ = bound(delay=0.1)
    network.intercept = lambda sender, to, message, now: {"lose": [], "late": [5.0]}.get(message)
    assert network.copies("a", "b", "lose", 0.0) == []
    assert network.copies("a", "b", "late", 0.0) == [5.0]
    assert network.copies("a", "b", "other", 0.0) == [0.1]


def test_healing_ends_every_fault_but_delay_and_jitter_stay():
    network, faults = bound(delay=0.1, jitter=0.1, loss=0.3, duplication=0.3, reordering=0.3)
    network.intercept = lambda *_: []
    network.partitions.append(Partition(frozenset({"a"}), 1e9))
    network.heal()
    fates = sent(network, 1000)
    assert all(len(fate) == 1 and 0.1 <= fate[0] <= 0.2 for fate in fates)
    assert len({fate[0] for fate in fates}) > 900
    assert not faults


def test_a_simulation_gives_its_network_chance_of_its_own():
    fates = [sent(Simulation(seed, Network(jitter=1.0)).network, 5) for seed in (1, 1, 2)]
    assert fates[0] == fates[1] != fates[2]
