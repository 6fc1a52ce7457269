"""From samples to events: smooth a value, say which range it is in, notify when a condition has held for its time.

These are the monitoring service and the local event service of MAPE-SDDL (DPSLB thesis, section 4.1).
There is no clock here: every observation brings its time along.
NaN always means "not measured" and leaves what is known as it was.
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

    The first value is taken as it is. ``value`` is NaN until then.

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
        """Take in one sample and return the smoothed value."""
        if not isfinite(x):
            return self.value if isnan(x) else _refuse_sample(x, "Smoothed")
        self.value = float(x) if isnan(self.value) else self.alpha * x + (1.0 - self.alpha) * self.value
        return self.value


class SmoothedRows:
    """Exponential smoothing of many values at once, one row each; bit for bit what `Smoothed` gives.

    Parameters
    ----------
    alpha
        Weight of the newest sample, above 0 and at most 1.
    rows
        How many there are; `resize` adds rows or drops the last ones.

    Examples
    --------
    >>> loads = SmoothedRows(0.5, 3)
    >>> loads.update([80.0, 10.0, float("nan")]).tolist()
    [80.0, 10.0, nan]
    >>> loads.update([40.0, float("nan"), 7.0]).tolist()
    [60.0, 10.0, 7.0]
    >>> loads.update_rows([1], [20.0]).tolist()
    [60.0, 15.0, 7.0]
    """

    __slots__ = ("alpha", "values")

    def __init__(self, alpha: float, rows: int) -> None:
        self.alpha = _checked_alpha(alpha)
        self.values: NDArray[np.float64] = np.full(rows, nan)

    def update(self, samples: ArrayLike) -> NDArray[np.float64]:
        """Take in one sample per row (NaN: none) and return the smoothed values, which the next update changes."""
        new = np.asarray(samples, np.float64)
        if new.shape != self.values.shape:
            raise BadInput(f"samples of shape {new.shape}", f"one per row, {self.values.shape}", "SmoothedRows.update")
        self.values[:] = self._smooth(self.values, new)
        return self.values

    def update_rows(self, rows: ArrayLike, samples: ArrayLike) -> NDArray[np.float64]:
        """Take in samples of some rows, each at most once, and return all smoothed values."""
        index = np.asarray(rows, np.intp)
        self.values[index] = self._smooth(self.values[index], np.asarray(samples, np.float64))
        return self.values

    def resize(self, rows: int) -> None:
        """Change the number of rows; new ones have no value yet."""
        kept = self.values[:rows]
        self.values = np.concatenate([kept, np.full(rows - len(kept), nan)])

    def _smooth(self, old: NDArray[np.float64], new: NDArray[np.float64]) -> NDArray[np.float64]:
        infinite = np.isinf(new)
        if infinite.any():
            _refuse_sample(float(new[infinite][0]), f"SmoothedRows, sample {int(infinite.argmax())}")
        smoothed = self.alpha * new + (1.0 - self.alpha) * old
        return np.where(np.isnan(old), new, np.where(np.isnan(new), old, smoothed))


class TrendedRows:
    """Exponential smoothing with a linear trend (Holt 1957) of many values at once, one row each: follows what drifts.

    Plain smoothing lags behind a steady drift for ever; a level and a slope do not.

    Parameters
    ----------
    alpha, beta
        Weights of the newest sample in the level, above 0, and of the newest change in the slope; 0 means no slope.
    rows
        How many there are.

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
        """Take in one sample per row."""
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
        """Return what is expected so many samples from now, and nothing below zero; zeros as long as nothing is known."""
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
    So a value on a bound does not leave the range it came from; without one before, it counts to the upper range.
    A value beyond the outer bounds counts to the nearest range: 100.2 % is a rounding matter, not an error.

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
        """Return a range as a person writes it."""
        return f"[{self.bounds[index]:g}, {self.bounds[index + 1]:g}]"


# -- conditions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Condition:
    """An event: an expression over properties that must stay true for a time before it notifies.

    Parameters
    ----------
    expression
        Over the properties and, for those with ranges, their range: ``cpu > 70 AND memory.range = 2``.
    for_s
        How long it must hold, in seconds; 0 notifies at the first sample that makes it true.
    name
        What notifications call it; the expression itself by default.

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


_ROUNDING = 1e-9  # 4.1 - 0.1 is a little less than 4: without it, a sample exactly on time would come too early


class Held:
    """Follows one condition: notifies once when it has held for its time, again only after it has been false.

    Examples
    --------
    >>> hot = Held(Condition("cpu > 70", for_s=4))
    >>> [hot.observe({"cpu": cpu}, now) for now, cpu in enumerate([80, 80, 60, 80, 80, 80, 80, 80, 80])]
    [False, False, False, False, False, False, False, True, False]
    """

    __slots__ = ("condition", "notified", "since")

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self.since: float | None = None  # since when it is true
        self.notified = False

    def observe(self, values: Mapping[str, Any], now: float) -> bool:
        """Take in the values at a time; return whether to notify."""
        if not self.condition.parsed.test(values):
            self.since, self.notified = None, False
            return False
        if self.since is None or now < self.since:  # a clock that was set back: count anew
            self.since = now
        if self.notified or now - self.since < self.condition.for_s - _ROUNDING:
            return False
        self.notified = True
        return True


# -- the monitor --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Notification:
    """What the monitor reports: what happened, why, and all monitored data at that moment.

    Parameters
    ----------
    name
        The condition's name, or ``cpu.range`` for a change of the range of ``cpu``.
    kind
        ``range`` or ``condition``.
    at
        When.
    why
        A sentence for a person.
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
    """Observes the samples of one node and says what is worth telling (DPSLB thesis, sections 4.1 and 4.3.1).

    Parameters
    ----------
    ranges
        Operation ranges by property, as `Ranges` or their bounds.
        A change of range notifies, and so does the first sample: before it, the range was unknown.
    conditions
        Events over the properties.
    alpha
        Smoothing (Cheung 2006, Eq. 3.4) before anything else: one weight for all properties, or a weight by property;
        a property without one is taken as it is.
    keep
        How many notifications stay in ``last`` (the thesis keeps five).

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
        self._held = [Held(condition) for condition in self.conditions]
        self._values: dict[str, float] = {}  # what conditions see: data and ranges

    def observe(self, sample: Mapping[str, float], now: float) -> list[Notification]:
        """Take in a sample; return what is worth telling: changes of range first, then conditions in their order.

        A property that is missing from the sample, or NaN in it, keeps its last known value.
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
            for condition, held in zip(self.conditions, self._held, strict=True)
            if held.observe(self._values, now)
        ]
