"""The local detector decides whether a broker should offload, and to which broker (Cheung 2006, 3.3.2.1, Figure 3.5).

Step 1 checks the broker's own four ratios for overload. Step 2 compares its three load indices with those that other
brokers published. After a session, step 2 waits until the load has settled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from evenflow.brokers.load import Load, delay_difference, smoothed
from evenflow.brokers.offload import Algorithm
from evenflow.brokers.pie import Indices, PieEntry
from evenflow.brokers.settings import BrokerSettings
from evenflow.brokers.status import LOCAL, Cause, Status, next_status

BY_RESOURCE: tuple[Algorithm, Algorithm, Algorithm, Algorithm] = ("input", "output", "match", "match")
BY_INDEX: tuple[Algorithm, Algorithm, Algorithm] = ("input", "output", "match")


class Attempt(NamedTuple):
    """A broker to ask for a session, and the offload algorithm to ask for."""

    broker: str
    algorithm: Algorithm


class Detection(NamedTuple):
    """The result of a detection run: the new status, the brokers to ask, and whether this broker is overloaded."""

    status: Status
    tries: tuple[Attempt, ...]
    overloaded: bool
    why: str


class Detector:
    """Keeps smoothed load indices and their recent history between detection runs."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.smooth: tuple[float, ...] | None = None
        self.since = 0.0  # when the wait for the load to settle began
        self._history: deque[tuple[float, Indices]] = deque()

    def start_settling(self, now: float) -> None:
        """Start waiting for the load to settle."""
        self.since = now

    def reset(self) -> None:
        """Drop the smoothed indices: old measurements no longer describe this broker."""
        self.smooth = None

    def indices(self) -> Indices:
        """Return the smoothed indices."""
        values = self.smooth or (0.0,) * 5
        return Indices(values[0], values[1], values[4])

    def is_calm(self, now: float) -> bool:
        """Return whether the last session is at least ``calm_s`` ago, so that small differences are worth one."""
        return 0.0 < self.settings.calm_s <= now - self.since

    def detect(self, load: Load, status: Status, others: Sequence[PieEntry], now: float) -> Detection:
        """Run one detection; not called while BUSY."""
        self._smooth(load, now)
        assert self.smooth is not None
        ratios, settings = self.smooth[:4], self.settings
        status = next_status(LOCAL, status, Cause.OVERLOADED if max(ratios) > settings.lower else Cause.RELIEVED)
        if max(ratios) > settings.higher:
            algorithm = self._worst(ratios)
            return Detection(
                status, self._acceptors(algorithm, others), overloaded=True, why=f"overloaded, {algorithm}"
            )
        if status is Status.NA and settings.inert == "literal":
            return Detection(status, (), overloaded=False, why="between the thresholds")
        if status is Status.STABILIZING:
            if not self._settled(now):
                return Detection(status, (), overloaded=False, why="load has not settled")
            status = next_status(LOCAL, status, Cause.SETTLED)
        if status is Status.OK and any(other.status is Status.NA for other in others):
            return Detection(status, (), overloaded=False, why="an overloaded broker goes first")  # section 3.3.2.3
        return Detection(status, self._differences(others, calm=self.is_calm(now)), overloaded=False, why="")

    def balanced_with(self, others: Sequence[PieEntry]) -> frozenset[str]:
        """Return the brokers whose indices all differ from ours by at most the thresholds: the balanced set."""
        mine, settings = self.indices(), self.settings
        fine = settings.fine if settings.calm_s else float("inf")
        ratio, delay = min(settings.local_ratio, fine), min(settings.local_delay, fine)
        return frozenset(
            other.name
            for other in others
            if abs(mine.input - other.indices.input) <= ratio
            and abs(mine.output - other.indices.output) <= ratio
            and abs(delay_difference(mine.delay, other.indices.delay, settings.normalization_s)) <= delay
        )

    def _smooth(self, load: Load, now: float) -> None:
        fresh = (*load.ratios(), load.matching_delay)
        old = self.smooth or (None,) * 5
        self.smooth = tuple(smoothed(new, was, self.settings.alpha) for new, was in zip(fresh, old, strict=True))
        self._history.append((now, self.indices()))
        while len(self._history) > 1 and self._history[1][0] <= now - self.settings.stable_window_s:
            self._history.popleft()

    def _worst(self, ratios: Sequence[float]) -> Algorithm:
        """Choose what to offload: input if it is overloaded at all, because less input lowers the other ratios too."""
        if ratios[0] > self.settings.higher:
            return "input"
        return BY_RESOURCE[max(range(4), key=lambda i: ratios[i])]

    def _acceptors(self, algorithm: Algorithm, others: Sequence[PieEntry]) -> tuple[Attempt, ...]:
        index = BY_INDEX.index(algorithm)
        able = [other for other in others if other.status is not Status.NA]
        if self.settings.by_headroom:
            # A ratio does not say how much still fits: a fast broker at 0.4 can take more than a slow one at 0.2.
            able.sort(key=lambda other: (-(self.settings.lower - other.indices[index]) * other.speed, other.name))
        else:
            able.sort(key=lambda other: (other.indices[index], other.name))
        return tuple(Attempt(other.name, algorithm) for other in able)

    def _settled(self, now: float) -> bool:
        if now - self.since < self.settings.stable_s:
            return False
        if not self.settings.stable_rule:
            return True
        mine, settings = self.indices(), self.settings
        if self._history[0][0] > now - settings.stable_window_s:
            return False  # not measured for long enough
        return all(
            abs(mine.input - was.input) < settings.stable_change
            and abs(mine.output - was.output) < settings.stable_change
            and abs(delay_difference(mine.delay, was.delay, settings.normalization_s)) < settings.stable_change
            for _, was in self._history
        )

    def _differences(self, others: Sequence[PieEntry], *, calm: bool) -> tuple[Attempt, ...]:
        """Return the brokers that are lower by more than a threshold, largest difference first."""
        mine, settings = self.indices(), self.settings
        ratio = min(settings.fine, settings.local_ratio) if calm else settings.local_ratio
        delay = min(settings.fine, settings.local_delay) if calm else settings.local_delay
        gaps_found: list[tuple[float, str, Algorithm]] = []
        for other in others:
            if other.status is Status.NA:
                continue
            gaps = (
                (mine.input - other.indices.input, ratio),
                (mine.output - other.indices.output, ratio),
                (delay_difference(mine.delay, other.indices.delay, settings.normalization_s), delay),
            )
            gaps_found += [(-gap, other.name, BY_INDEX[i]) for i, (gap, bound) in enumerate(gaps) if gap > bound]
        return tuple(Attempt(name, algorithm) for _, name, algorithm in sorted(gaps_found))
