"""Skewed and drifting streams: sensors that publish at their own rates through gateways."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenflow.slices.assignment import parse_assignment
from evenflow.slices.publisher import Due

Rates = NDArray[np.float64]
Drift = Literal["none", "jump", "slow"]


def zipf(sensors: int, exponent: float) -> Rates:
    """Return the shares of the sensors by rank, summing to 1."""
    shares: Rates = np.arange(1, sensors + 1, dtype=np.float64) ** -exponent
    shares /= shares.sum()
    return shares


class Sensors:
    """Sensors with Zipf rates whose ranking may jump or drift.

    Parameters
    ----------
    count, slices
        How many; a sensor's slice is the hash of its id.
    rate
        Items per second of all of them.
    exponent
        Of the Zipf law.
    drift
        ``jump``: at ``change_at`` other sensors become the hot ones, at once;
        ``slow``: from ``change_at`` on to the end, gradually.
    chance
        Ranks and phases are drawn from it.
    """

    def __init__(
        self,
        count: int,
        slices: int,
        rate: float,
        exponent: float,
        chance: random.Random,
        drift: Drift = "none",
        change_at: float = math.inf,
        end: float = math.inf,
    ) -> None:
        self.slices = slices
        self.drift = drift
        self.change_at = change_at
        self.end = end
        shares = zipf(count, exponent)
        ranks = list(range(count))
        chance.shuffle(ranks)
        self.before: Rates = rate * shares[ranks]
        chance.shuffle(ranks)
        self.after: Rates = rate * shares[ranks] if drift != "none" else self.before
        hashed = parse_assignment("hash:sensor", slices)
        offset = chance.randrange(1 << 30)  # other ids, another placement
        self.slice_of = np.array([hashed.assign({"sensor": offset + i}) for i in range(count)], np.int64)

    def rates(self, now: float) -> Rates:
        """Return the true rate of every sensor at a time: what the experimenter knows and no policy sees."""
        if self.drift == "slow":
            part = min(1.0, max(0.0, (now - self.change_at) / (self.end - self.change_at)))
            return self.before * (1.0 - part) + self.after * part
        return self.before if now < self.change_at else self.after

    def slice_rates(self, now: float) -> Rates:
        """Return the true rate of every slice at a time."""
        rates: Rates = np.bincount(self.slice_of, weights=self.rates(now), minlength=self.slices).astype(np.float64)
        return rates

    def schedule(self, gateway: int, gateways: int, chance: random.Random, *, poisson: bool) -> Iterator[Due]:
        """Write the items of every ``gateways``-th sensor: at regular intervals with jitter, or at random."""
        mine = range(gateway, len(self.before), gateways)
        before, after = self.before.tolist(), self.after.tolist()
        slice_of = self.slice_of.tolist()
        rate_at = self._rate_at()
        queue = [(chance.random() / before[i], i) for i in mine]
        heapq.heapify(queue)
        draw = chance.random
        while queue and queue[0][0] < self.end:
            at, sensor = queue[0]
            yield Due(at, slice_of[sensor])
            wait = chance.expovariate(1.0) if poisson else 0.9 + 0.2 * draw()
            following = at + wait / rate_at(at, before[sensor], after[sensor])
            if at < self.change_at < following:  # a sensor that wakes up does not first finish its long old interval
                rate = rate_at(self.change_at, before[sensor], after[sensor])
                following = min(following, self.change_at + draw() / rate)
            heapq.heapreplace(queue, (following, sensor))

    def _rate_at(self) -> Callable[[float, float, float], float]:
        change, end = self.change_at, self.end
        if self.drift == "slow":
            span = end - change
            return lambda now, old, new: old + (new - old) * min(1.0, max(0.0, (now - change) / span))
        return lambda now, old, new: old if now < change else new
