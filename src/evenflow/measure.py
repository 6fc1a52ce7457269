"""Smooth samples, classify them into ranges, and notify when a condition has held long enough.

These are the monitoring service and the local event service of MAPE-SDDL (DPSLB thesis, section 4.1).
There is no clock here: every observation carries its time.
NaN always means "not measured" and changes nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite, isnan, nan
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenflow.errors import BadInput
from evenflow.expression import Expression, parse

# -- smoothing ----------------------------------------------------------------------------------


class Smoothed:
    """Exponential smoothing of one value: ``y = alpha * x + (1 - alpha) * y`` (Cheung 2006, Eq. 3.4).

    The first sample is the first value; before it, ``value`` is NaN.

    Examples
    --------
    >>> load = Smoothed(0.5)
    >>> [load.update(x) for x in (80.0, 40.0, 40.0)]
    [80.0, 60.0, 50.0]
    """

    __slots__ = ("alpha", "value")

    def __init__(self, alpha: float) -> None:
        self.alpha = _checked_alpha(alpha)
        self.value = nan

    def update(self, x: float) -> float:
        """Add one sample and return the smoothed value."""
        if not isfinite(x):
            return self.value if isnan(x) else _refuse_sample(x, "Smoothed")
        self.value = float(x) if isnan(self.value) else self.alpha * x + (1.0 - self.alpha) * self.value
        return self.value


class SmoothedRows:
    """Exponential smoothing of many values at once, one row each, with the same results as `Smoothed`, bit for bit.

    Parameters
    ----------
    alpha
        Weight of the newest sample, above 0 and at most 1.
    rows
        How many values there are.

    Examples
    --------
    >>> loads = SmoothedRows(0.5, 3)
    >>> loads.update([80.0, 10.0, float("nan")]).tolist()
    [80.0, 10.0, nan]
    >>> loads.update([40.0, float("nan"), 7.0]).tolist()
    [60.0, 10.0, 7.0]
    """

    __slots__ = ("alpha", "values")

    def __init__(self, alpha: float, rows: int) -> None:
        self.alpha = _checked_alpha(alpha)
        self.values: NDArray[np.float64] = np.full(rows, nan)

    def update(self, samples: ArrayLike) -> NDArray[np.float64]:
        """Add one sample per row (NaN: none) and return the smoothed values; the next update changes the returned array."""
        new = np.asarray(samples, np.float64)
        if new.shape != self.values.shape:
            raise BadInput(f"samples of shape {new.shape}", f"one per row, {self.values.shape}", "SmoothedRows.update")
        infinite = np.isinf(new)
        if infinite.any():
            _refuse_sample(float(new[infinite][0]), f"SmoothedRows, sample {int(infinite.argmax())}")
        old = self.values
        smoothed = self.alpha * new + (1.0 - self.alpha) * old
        self.values[:] = np.where(np.isnan(old), new, np.where(np.isnan(new), old, smoothed))
        return self.values


class TrendedRows:
    """Exponential smoothing with a linear trend (Holt 1957) of many values at once, one row each.

    Plain smoothing always lags behind a steady drift; a level with a slope does not.

    Parameters
    ----------
    alpha, beta
        Weights of the newest sample in the level, above 0, and of the newest change in the slope; 0 means no slope.
    rows
        How many values there are.

    Examples
    --------
    >>> loads = TrendedRows(0.5, 0.5, 2)
    >>> for x in range(40):
    ...     loads.update([10.0 + x, 7.0])
    >>> loads.ahead(1.0).round(2).tolist()
    [50.0, 7.0]
    """

    __slots__ = ("_level", "_slope", "alpha", "beta")

    def __init__(self, alpha: float, beta: float, rows: int) -> None:
        if not 0.0 <= beta <= 1.0:
            raise BadInput(f"{beta!r}", "a number between 0 and 1", "beta")
        self.alpha, self.beta = _checked_alpha(alpha), beta
        self._level: NDArray[np.float64] = np.zeros(0)
        self._slope: NDArray[np.float64] = np.zeros(rows)

    def update(self, samples: ArrayLike) -> None:
        """Add one sample per row."""
        new = np.asarray(samples, np.float64)
        if new.shape != self._slope.shape or not np.isfinite(new).all():
            raise BadInput(f"{new.tolist()!r}", f"{len(self._slope)} finite numbers", "TrendedRows.update")
        if not len(self._level):
            self._level = new.copy()
            return
        level = self.alpha * new + (1.0 - self.alpha) * (self._level + self._slope)
        self._slope += self.beta * (level - self._level - self._slope)
        self._level = level

    def ahead(self, steps: float) -> NDArray[np.float64]:
        """Return the values expected ``steps`` samples from now, at least 0; zeros before the first sample."""
        return np.maximum(self._level + steps * self._slope, 0.0) if len(self._level) else np.zeros_like(self._slope)


def _checked_alpha(alpha: float) -> float:
    if not 0.0 < alpha <= 1.0:
        raise BadInput(f"{alpha!r}", "a number above 0 and at most 1", "alpha")
    return float(alpha)


def _refuse_sample(x: float, where: str) -> float:
    raise BadInput(f"{x!r}", "a finite number, or NaN for not measured", where)


# -- operation ranges ---------------------------------------------------------------------------


class Ranges:
    """Operation ranges of a property, given by their bounds: ``Ranges([0, 30, 70, 100])`` has three.

    The ranges are closed and share their bounds, as in the thesis: [0, 30], [30, 70], [70, 100].
    So a value on a bound stays in the range it came from; without an earlier range, it belongs to the upper one.
    A value beyond the outer bounds belongs to the nearest range: 100.2 % is rounding, not an error.

    Examples
    --------
    >>> cpu = Ranges([0, 30, 70, 100])
    >>> cpu.index(10), cpu.index(50), cpu.index(100)
    (0, 1, 2)
    >>> cpu.index(30), cpu.index(30, before=0), cpu.index(30, before=2)
    (1, 0, 1)
    >>> cpu.label(1)
    '[30, 70]'
    """

    __slots__ = ("bounds",)

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        rising = all(isfinite(b) for b in self.bounds) and all(a < b for a, b in pairwise(self.bounds))
        if len(self.bounds) < 2 or not rising:
            raise BadInput(f"{list(bounds)}", "at least two finite, rising bounds such as [0, 30, 70, 100]", "ranges")

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __repr__(self) -> str:
        return f"Ranges({list(self.bounds)})"

    def index(self, value: float, before: int | None = None) -> int:
        """Return the range of a value that was in the range ``before``."""
        if isnan(value):
            raise BadInput("NaN", "a number", "ranges")
        upper = min(max(bisect_right(self.bounds, value) - 1, 0), len(self) - 1)
        return upper - 1 if before == upper - 1 and value == self.bounds[upper] else upper

    def label(self, index: int) -> str:
        """Return a range as text, such as ``[30, 70]``."""
        return f"[{self.bounds[index]:g}, {self.bounds[index + 1]:g}]"


# -- conditions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression over properties that must stay true for a time before it notifies.

    Parameters
    ----------
    expression
        Over the properties and, for those with ranges, their range: ``cpu > 70 AND memory.range = 2``.
    for_s
        How long it must hold, in seconds; with 0, the first sample that makes it true notifies.
    name
        Its name in notifications; by default the expression.

    Examples
    --------
    >>> Condition("cpu > 70", for_s=4).name
    'cpu > 70'
    """

    expression: str
    for_s: float = 0.0
    name: str = ""
    parsed: Expression = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parsed = parse(self.expression)
        if not parsed.is_condition:
            raise BadInput(f"'{self.expression}', which gives {parsed.kind}", "a test such as cpu > 70", "condition")
        if not (isfinite(self.for_s) and self.for_s >= 0):
            raise BadInput(f"for_s={self.for_s!r}", "a number of seconds of at least 0", f"condition '{self.name}'")
        object.__setattr__(self, "parsed", parsed)
        object.__setattr__(self, "name", self.name or self.expression)


_ROUNDING = 1e-9  # 4.1 - 0.1 is slightly less than 4: without this, a sample exactly on time would count as too early


class ConditionTimer:
    """Times one condition: notifies once when it has held long enough, and again only after it was false.

    Examples
    --------
    >>> hot = ConditionTimer(Condition("cpu > 70", for_s=4))
    >>> [hot.observe({"cpu": cpu}, now) for now, cpu in enumerate([80, 80, 60, 80, 80, 80, 80, 80, 80])]
    [False, False, False, False, False, False, False, True, False]
    """

    __slots__ = ("condition", "notified", "since")

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self.since: float | None = None  # when it became true
        self.notified = False

    def observe(self, values: Mapping[str, Any], now: float) -> bool:
        """Add the values at a time; return whether to notify."""
        if not self.condition.parsed.test(values):
            self.since, self.notified = None, False
            return False
        if self.since is None or now < self.since:  # a clock that was set back: start again
            self.since = now
        if self.notified or now - self.since < self.condition.for_s - _ROUNDING:
            return False
        self.notified = True
        return True


# -- the monitor --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Notification:
    """What the monitor reports: what happened, why, and the values of all properties at that time.

    Parameters
    ----------
    name
        The condition's name, or ``cpu.range`` for a change of the range of ``cpu``.
    kind
        ``range`` or ``condition``.
    at
        The time.
    why
        The reason, in words.
    data
        The last known value of every property, smoothed where the monitor smooths.
    ranges
        The range of every property that has ranges and a value.
    """

    name: str
    kind: Literal["range", "condition"]
    at: float
    why: str
    data: Mapping[str, float]
    ranges: Mapping[str, int]


class Monitor:
    """Turns the samples of one node into notifications (DPSLB thesis, sections 4.1 and 4.3.1).

    Parameters
    ----------
    ranges
        Operation ranges by property, as `Ranges` or their bounds.
        A change of range notifies, and so does the first sample, because the range was unknown before.
    conditions
        Conditions over the properties.
    alpha
        Smoothing (Cheung 2006, Eq. 3.4) before anything else: one weight for all properties, or a weight by property;
        a property without a weight is not smoothed.
    keep
        How many notifications ``last`` keeps (five in the thesis).

    Examples
    --------
    >>> monitor = Monitor(ranges={"cpu": [0, 30, 70, 100]}, conditions=[Condition("cpu > 70", for_s=4)])
    >>> for now, cpu in ((0, 20.0), (2, 75.0), (4, 80.0), (6, 90.0), (8, 90.0)):
    ...     for event in monitor.observe({"cpu": cpu, "memory": 10.0}, now):
    ...         print(event.at, event.name, "-", event.why)
    0 cpu.range - cpu is in [0, 30]
    2 cpu.range - cpu went from [0, 30] to [70, 100]
    6 cpu > 70 - cpu > 70 for 4 s
    >>> monitor.last[-1].data
    {'cpu': 90.0, 'memory': 10.0}
    """

    def __init__(
        self,
        ranges: Mapping[str, Ranges | Sequence[float]] | None = None,
        conditions: Sequence[Condition] = (),
        alpha: float | Mapping[str, float] | None = None,
        keep: int = 5,
    ) -> None:
        self.ranges = {name: r if isinstance(r, Ranges) else Ranges(r) for name, r in (ranges or {}).items()}
        self.conditions = tuple(conditions)
        names = [condition.name for condition in self.conditions]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise BadInput(f"{len(names)} conditions, several named '{doubled[0]}'", "one name each", "conditions")
        if keep < 1:
            raise BadInput(f"keep={keep}", "at least 1", "Monitor")
        self.data: dict[str, float] = {}
        self.in_range: dict[str, int] = {}
        self.last: deque[Notification] = deque(maxlen=keep)
        self._alpha = alpha
        for weight in alpha.values() if isinstance(alpha, Mapping) else () if alpha is None else (alpha,):
            _checked_alpha(weight)
        self._smoothed: dict[str, Smoothed] = {}
        self._timers = [ConditionTimer(condition) for condition in self.conditions]
        self._values: dict[str, float] = {}  # what conditions see: data and ranges

    def observe(self, sample: Mapping[str, float], now: float) -> list[Notification]:
        """Add a sample; return its notifications: changes of range first, then conditions in their order.

        A property that is missing from the sample, or NaN, keeps its last value.
        """
        for name, x in sample.items():
            if isfinite(x):
                self.data[name] = self._values[name] = self._smooth(name, x)
            elif not isnan(x):
                _refuse_sample(x, f"sample, {name}")
        happened = [*self._changes_of_range(), *self._conditions_held(now)]
        if not happened:
            return []
        data, ranges = dict(self.data), dict(self.in_range)
        notifications = [Notification(name, kind, now, why, data, ranges) for name, kind, why in happened]
        self.last.extend(notifications)
        return notifications

    def _smooth(self, name: str, x: float) -> float:
        if self._alpha is None:
            return float(x)
        smoothed = self._smoothed.get(name)
        if smoothed is None:
            alpha = self._alpha.get(name, 1.0) if isinstance(self._alpha, Mapping) else self._alpha
            smoothed = self._smoothed[name] = Smoothed(alpha)
        return smoothed.update(x)

    def _changes_of_range(self) -> list[tuple[str, Literal["range", "condition"], str]]:
        changes: list[tuple[str, Literal["range", "condition"], str]] = []
        for name, ranges in self.ranges.items():
            if name not in self.data:
                continue
            before = self.in_range.get(name)
            after = ranges.index(self.data[name], before)
            if after == before:
                continue
            self.in_range[name] = self._values[f"{name}.range"] = after
            was = "is in" if before is None else f"went from {ranges.label(before)} to"
            changes.append((f"{name}.range", "range", f"{name} {was} {ranges.label(after)}"))
        return changes

    def _conditions_held(self, now: float) -> list[tuple[str, Literal["range", "condition"], str]]:
        return [
            (condition.name, "condition", f"{condition.expression} for {condition.for_s:g} s")
            for condition, timer in zip(self.conditions, self._timers, strict=True)
            if timer.observe(self._values, now)
        ]
