"""The local detector: am I overloaded, and who is loaded less (Cheung 2006, section 3.3.2.1, Figure 3.5).

Step 1 looks at the four ratios of the broker itself, step 2 compares three indices with what PIE says about others.
Between the two lies the wait for load to settle after a session.
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
    """One line of the broker-action list: ask this broker for a session of this kind."""

    broker: str
    algorithm: Algorithm


class Detection(NamedTuple):
    """What a detection run found: the status, whom to ask, and whether this broker is overloaded."""

    status: Status
    tries: tuple[Attempt, ...]
    overloaded: bool
    why: str


class Detector:
    """The state between detection runs: smoothed indices, and what they were."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.smooth: tuple[float, ...] | None = None
        self.since = 0.0  # when the broker began to stabilise
        self._history: deque[tuple[float, Indices]] = deque()

    def start_settling(self, now: float) -> None:
        """Begin to wait for load to settle."""
        self.since = now

    def reset(self) -> None:
        """Smooth no more with what was: the broker is another one now."""
        self.smooth = None

    def indices(self) -> Indices:
        """Give the smoothed indices."""
        values = self.smooth or (0.0,) * 5
        return Indices(values[0], values[1], values[4])

    def is_calm(self, now: float) -> bool:
        """Tell whether there was no session for so long that small differences deserve one."""
        return 0.0 < self.settings.calm_s <= now - self.since

    def detect(self, load: Load, status: Status, others: Sequence[PieEntry], now: float) -> Detection:
        """Run one detection; never while BUSY."""
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
        """Name the brokers from which no index differs by more than its threshold, either way: the balanced set."""
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
        """Choose what to shed: input if it is overloaded at all, for that lowers the others too."""
        if ratios[0] > self.settings.higher:
            return "input"
        return BY_RESOURCE[max(range(4), key=lambda i: ratios[i])]

    def _acceptors(self, algorithm: Algorithm, others: Sequence[PieEntry]) -> tuple[Attempt, ...]:
        index = BY_INDEX.index(algorithm)
        able = [other for other in others if other.status is not Status.NA]
        if self.settings.by_headroom:
            # A ratio says how full a broker is, not how much still fits: a large one at 0.4 takes more than a small at 0.2.
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
            return False  # not seen for long enough
        return all(
            abs(mine.input - was.input) < settings.stable_change
            and abs(mine.output - was.output) < settings.stable_change
            and abs(delay_difference(mine.delay, was.delay, settings.normalization_s)) < settings.stable_change
            for _, was in self._history
        )

    def _differences(self, others: Sequence[PieEntry], *, calm: bool) -> tuple[Attempt, ...]:
        """List who is lower by more than a threshold, the largest difference first."""
        mine, settings = self.indices(), self.settings
        ratio = min(settings.fine, settings.local_ratio) if calm else settings.local_ratio
        delay = min(settings.fine, settings.local_delay) if calm else settings.local_delay
        found: list[tuple[float, str, Algorithm]] = []
        for other in others:
            if other.status is Status.NA:
                continue
            gaps = (
                (mine.input - other.indices.input, ratio),
                (mine.output - other.indices.output, ratio),
                (delay_difference(mine.delay, other.indices.delay, settings.normalization_s), delay),
            )
            found += [(-gap, other.name, BY_INDEX[i]) for i, (gap, bound) in enumerate(gaps) if gap > bound]
        return tuple(Attempt(name, algorithm) for _, name, algorithm in sorted(found))
