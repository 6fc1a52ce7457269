"""Was every publication delivered to every subscriber once? Counted after the run, from who was served where and when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenflow.sim.federation import Federation, IntArray, Replay, Stay


class Delivery(NamedTuple):
    """Deliveries over all subscribers: missing, let through twice, and doubles that the subscriber removed."""

    expected: int
    lost: int
    duplicated: int
    doubles_removed: int


def count_deliveries(sim: Federation) -> Delivery:
    """Compare what each subscriber received with all publications that match its subscription.

    A publication is expected if the subscriber's first broker was reached by it after the subscriber had joined,
    and if its brokers have matched everything that came before the end of the run.
    """
    popped = {name: np.array(broker.popped, dtype=np.int64) for name, broker in sim.brokers.items()}
    stays: dict[str, list[Stay]] = defaultdict(list)
    for stay in [*sim.past_stays, *sim.stays.values()]:
        stays[stay.subscriber].append(stay)
    replays: dict[str, list[Replay]] = defaultdict(list)
    for replay in sim.replays:
        replays[replay.subscriber].append(replay)
    total = Delivery(0, 0, 0, 0)
    for name in sorted(stays):
        found = _of_one(sim, popped, sorted(stays[name], key=lambda s: s.since), replays[name])
        total = Delivery(*(a + b for a, b in zip(total, found, strict=True)))
    return total


def _of_one(sim: Federation, popped: dict[str, IntArray], stays: Sequence[Stay], replays: Sequence[Replay]) -> Delivery:
    orders = sim.orders_of(stays[0].key)
    parts = [_served(popped[stay.broker], stay, orders) for stay in stays]
    parts += [orders[slice(*np.searchsorted(orders, (r.after + 1, r.until + 1)))] for r in replays]
    if not len(orders):
        return Delivery(0, 0, 0, 0)
    everything = np.concatenate(parts)
    unique = np.unique(everything)
    first, last = stays[0].path, _seen_until(sim, popped, stays)
    expected = orders[slice(*np.searchsorted(orders, (first, last + 1)))]
    lost = len(np.setdiff1d(expected, unique, assume_unique=True))
    removed = len(everything) - len(unique)
    return Delivery(len(expected), lost, _let_through(parts[: len(stays)], stays), removed)


def _served(popped: IntArray, stay: Stay, orders: IntArray) -> IntArray:
    """Give what a broker matched for a subscriber while it served it."""
    mine = popped[stay.first : stay.last]
    if not len(mine):
        return mine
    return np.intersect1d(mine, orders, assume_unique=True)


def _seen_until(sim: Federation, popped: dict[str, IntArray], stays: Sequence[Stay]) -> int:
    """Give the last publication that must have been delivered: the last that the present home has matched."""
    home = sim.subscriber_of[stays[0].subscriber].home
    if home is None or not len(popped[home]):
        return -1
    return int(popped[home][-1])


def _let_through(parts: Sequence[IntArray], stays: Sequence[Stay]) -> int:
    """Count doubles between brokers that never served the subscriber at the same time: its inbox has forgotten those."""
    passed = 0
    for i, one in enumerate(stays):
        for j in range(i + 1, len(stays)):
            other = stays[j]
            apart = one.until is not None and one.until < other.since
            if apart and len(parts[i]) and len(parts[j]):
                passed += len(np.intersect1d(parts[i], parts[j], assume_unique=True))
    return passed
