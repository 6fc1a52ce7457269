"""Counts after a run whether every publication reached every subscriber once, from which broker served whom and when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.experiments.brokers.data_path import Broker
from evenflow.experiments.brokers.overlay import Overlay
from evenflow.experiments.brokers.service import IntArray, Replay, ServicePeriod
from evenflow.invariants import Comparison

REPLAY_S = 60.0  # seconds after a replay for which a subscriber keeps single sequence numbers


class DeliveryCount(NamedTuple):
    """Deliveries to all subscribers: expected, missing, accepted twice, duplicates removed by the subscriber, still queued."""

    expected: int
    lost: int
    duplicated: int
    doubles_removed: int
    unprocessed: int


class Popped(NamedTuple):
    """The sequence numbers that a broker matched, in order; as a mask; and a mask of those that are still queued there."""

    orders: IntArray
    mask: npt.NDArray[np.bool_]
    waiting: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, broker: Broker, size: int) -> Popped:
        """Return the arrays of one broker."""
        mask, waiting = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
        array = np.array(broker.popped, dtype=np.int64)
        mask[array] = True
        waiting[[order for _, order, _, _ in broker.queue]] = True
        return cls(array, mask, waiting)


def count_deliveries(overlay: Overlay) -> DeliveryCount:
    """Compare what each subscriber received with all publications that match its subscription.

    A publication is expected from when the subscriber's first path is set up until the last one that its present broker
    has matched. One that is still in the queue of a broker that serves the subscriber is not lost.
    """
    popped = {name: Popped.of(broker, overlay.service.published) for name, broker in overlay.brokers.items()}
    periods: dict[str, list[ServicePeriod]] = defaultdict(list)
    for period in [*overlay.service.past_periods, *overlay.service.periods.values()]:
        periods[period.subscriber].append(period)
    replays: dict[str, list[Replay]] = defaultdict(list)
    for replay in overlay.service.replays:
        replays[replay.subscriber].append(replay)
    total = DeliveryCount(0, 0, 0, 0, 0)
    for name in sorted(periods):
        found = _of_one(overlay, popped, sorted(periods[name], key=lambda s: s.since), replays[name])
        total = DeliveryCount(*(a + b for a, b in zip(total, found, strict=True)))
    Comparison(total.expected, total.lost, total.duplicated, 0, total.unprocessed).judged("padres")
    return total


def _of_one(
    overlay: Overlay, popped: dict[str, Popped], periods: Sequence[ServicePeriod], replays: Sequence[Replay]
) -> DeliveryCount:
    """Count one subscriber's deliveries, part by part in order of time.

    The subscriber accepts each sequence number once. While two brokers serve it, or a replay is still to come, it keeps
    single numbers; otherwise it keeps only the newest one, because a broker forwards in order.
    """
    orders = overlay.service.orders_of(periods[0].key)
    if not len(orders):
        return DeliveryCount(0, 0, 0, 0, 0)
    passed = np.zeros(len(orders), dtype=np.int16)
    seen = np.zeros(len(orders), dtype=bool)
    floor, busy_until, came = 0, -1.0, 0
    for begins, ends, part in sorted(
        [*_periods(popped, periods, orders), *_replays(replays, orders)], key=lambda p: p[:2]
    ):
        if begins > busy_until and seen.any():
            floor = int(np.flatnonzero(seen)[-1]) + 1
            seen[:] = False
        busy_until = max(busy_until, ends)
        came += len(part)
        fresh = part[(part >= floor) & ~seen[part]]
        passed[fresh] += 1
        seen[fresh] = True
    path = next((period.path for period in periods if period.path >= 0), overlay.service.published)
    first, last = np.searchsorted(orders, (path, _seen_until(overlay, popped, periods) + 1)).tolist()
    missing = passed[first:last] == 0
    waiting = np.zeros_like(missing)
    for period in periods:
        if period.until is None:
            waiting |= popped[period.broker].waiting[orders[first:last]]
    lost, unprocessed = int((missing & ~waiting).sum()), int((missing & waiting).sum())
    twice = int(np.maximum(passed - 1, 0).sum())
    return DeliveryCount(max(0, last - first), lost, twice, came - int(passed.sum()), unprocessed)


Part = tuple[float, float, IntArray]  # start, end, and positions of the publications


def _periods(popped: dict[str, Popped], periods: Sequence[ServicePeriod], orders: IntArray) -> Iterator[Part]:
    for period in periods:
        begin, end = _range(popped[period.broker], period, orders)
        places = begin + np.flatnonzero(popped[period.broker].mask[orders[begin:end]])
        yield period.since, float("inf") if period.until is None else period.until, places


def _replays(replays: Sequence[Replay], orders: IntArray) -> Iterator[Part]:
    for replay in replays:
        begin, end = np.searchsorted(orders, (replay.after + 1, replay.until + 1)).tolist()
        yield replay.owed_since, replay.at + REPLAY_S, np.arange(begin, end)


def _range(popped: Popped, period: ServicePeriod, orders: IntArray) -> tuple[int, int]:
    """Return the range of positions that a broker may have matched while it served a subscriber."""
    mine = popped.orders[period.first : period.last]
    if not len(mine):
        return 0, 0
    begin, end = np.searchsorted(orders, (mine[0], mine[-1] + 1)).tolist()
    return begin, end


def _seen_until(overlay: Overlay, popped: dict[str, Popped], periods: Sequence[ServicePeriod]) -> int:
    """Return the last publication that must have been delivered: the last one that the present broker has matched."""
    home = overlay.subscriber_of[periods[0].subscriber].home
    if home is None or not len(popped[home].orders):
        return -1
    return int(popped[home].orders[-1])
