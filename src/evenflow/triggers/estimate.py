"""Estimators of how long a waiting trigger takes, learnt from completed ones (*DLBer*, section 2.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class WorkloadEstimator(Protocol):
    """An estimator of execution times by trigger type.

    A prediction is linear in the size, so the total of a queue follows from counts and sums of sizes, without a loop.
    """

    def learn(self, trigger: str, size: float, seconds: float) -> None:
        """Learn from the time of one completed execution."""
        ...

    def line(self, trigger: str) -> tuple[float, float]:
        """Return the predicted seconds of a trigger of size 0, and the seconds that each unit of size adds."""
        ...


@dataclass(slots=True)
class MeanPerType:
    """The published estimate: the mean time of the completed triggers of the same type.

    Parameters
    ----------
    first_s
        Predicted seconds of a type before one of its triggers has completed; *DLBer* does not specify this.

    Examples
    --------
    >>> estimate = MeanPerType()
    >>> for seconds in (0.2, 0.4):
    ...     estimate.learn("PageRankSum", 3, seconds)
    >>> round(estimate.line("PageRankSum")[0], 6)
    0.3
    """

    first_s: float = 0.1
    known: dict[str, tuple[int, float]] = field(default_factory=dict)

    def learn(self, trigger: str, size: float, seconds: float) -> None:
        """Update the mean of the type."""
        count, total = self.known.get(trigger, (0, 0.0))
        self.known[trigger] = (count + 1, total + seconds)

    def line(self, trigger: str) -> tuple[float, float]:
        """Return the mean and a slope of 0: the size does not matter."""
        count, total = self.known.get(trigger, (0, 0.0))
        return (total / count if count else self.first_s), 0.0


@dataclass(slots=True)
class LinePerType:
    """Ours: a straight line of time over size per type, so that hubs are recognised before they run.

    Examples
    --------
    >>> estimate = LinePerType()
    >>> for size in (1.0, 2.0, 4.0):
    ...     estimate.learn("PageRankSum", size, 0.05 + 0.01 * size)
    >>> [round(x, 6) for x in estimate.line("PageRankSum")]
    [0.05, 0.01]
    """

    first_s: float = 0.1
    known: dict[str, list[float]] = field(default_factory=dict)  # n, Σx, Σy, Σxx, Σxy

    def learn(self, trigger: str, size: float, seconds: float) -> None:
        """Add one point."""
        sums = self.known.setdefault(trigger, [0.0] * 5)
        for i, term in enumerate((1.0, size, seconds, size * size, size * seconds)):
            sums[i] += term

    def line(self, trigger: str) -> tuple[float, float]:
        """Return the least-squares line; the slope is never negative, and is 0 if all sizes are equal."""
        n, x, y, xx, xy = self.known.get(trigger, (0.0,) * 5)
        if not n:
            return self.first_s, 0.0
        spread = n * xx - x * x
        slope = max(0.0, (n * xy - x * y) / spread) if spread > 1e-9 * n * n else 0.0
        at_zero = (y - slope * x) / n
        return (at_zero, slope) if at_zero >= 0 else (0.0, y / x)


ESTIMATORS: dict[str, type[MeanPerType | LinePerType]] = {"mean": MeanPerType, "line": LinePerType}
"""The estimators by the names used in settings."""
