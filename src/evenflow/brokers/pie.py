"""PIE, the publication of load information: when a broker publishes, and what readers keep (Cheung 2006, 3.3.1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from evenflow.brokers.load import Load
from evenflow.brokers.status import Status


class Indices(NamedTuple):
    """The three load indices: input ratio, output ratio, matching delay in seconds."""

    input: float
    output: float
    delay: float

    @classmethod
    def of(cls, load: Load) -> Indices:
        """Return the indices of a load."""
        return cls(load.input_ratio, load.output_ratio, load.matching_delay)


class Pie(NamedTuple):
    """A PIE message; an index that hardly changed is left out (None)."""

    broker: str
    cluster: str
    status: Status
    indices: tuple[float | None, float | None, float | None]
    balanced: frozenset[str] = frozenset()
    speed: float = 0.0  # subscriptions per second that the engine compares; 0 = unknown
    scope: Literal["broker", "cluster"] = "broker"


@dataclass(slots=True)
class PieWriter:
    """Decides in each period whether a message is worth publishing.

    It is if the status changed, or if the status is OK and an index moved by more than its threshold.
    Every ``refresh`` periods a message is published anyway, because entries expire at their readers.
    """

    broker: str
    cluster: str
    ratio: float
    delay: float
    period_s: float
    speed: float = 0.0
    scope: Literal["broker", "cluster"] = "broker"
    refresh: int = 2
    _last: Indices | None = None
    _status: Status | None = None
    _at: float = 0.0

    def generate(self, indices: Indices, status: Status, balanced: Iterable[str], now: float) -> Pie | None:
        """Return the message of this period, or None."""
        moved = self._moved(indices)
        refresh = self._last is None or now - self._at >= self.refresh * self.period_s - 1e-6
        if not (refresh or status is not self._status or (status is Status.OK and any(moved))):
            return None
        news = [value if refresh or new else None for value, new in zip(indices, moved, strict=True)]
        last = self._last or indices
        self._last = Indices(*(old if new is None else new for old, new in zip(last, news, strict=True)))
        self._status, self._at = status, now
        shown = (news[0], news[1], news[2])
        return Pie(self.broker, self.cluster, status, shown, frozenset(balanced), self.speed, self.scope)

    def _moved(self, indices: Indices) -> list[bool]:
        if self._last is None:
            return [True, True, True]
        bounds = (self.ratio, self.ratio, self.delay)
        return [abs(new - old) > bound for new, old, bound in zip(indices, self._last, bounds, strict=True)]


class PieEntry(NamedTuple):
    """The newest load information about another broker or cluster."""

    name: str
    cluster: str
    status: Status
    indices: Indices
    balanced: frozenset[str]
    speed: float
    at: float


@dataclass(slots=True)
class PieBoard:
    """Keeps the newest load information of each sender for ``keep_s`` seconds."""

    keep_s: float
    entries: dict[str, PieEntry] = field(default_factory=dict)

    def read(self, pie: Pie, now: float) -> None:
        """Store a message; indices that it leaves out keep their values."""
        old = self.entries.get(pie.broker)
        known = old.indices if old else Indices(0.0, 0.0, 0.0)
        indices = Indices(*(old if new is None else new for old, new in zip(known, pie.indices, strict=True)))
        self.entries[pie.broker] = PieEntry(
            pie.broker, pie.cluster, pie.status, indices, pie.balanced, pie.speed or (old.speed if old else 0.0), now
        )

    def current(self, now: float) -> list[PieEntry]:
        """Remove expired entries and return the others, by name."""
        for name in [name for name, entry in self.entries.items() if now - entry.at > self.keep_s]:
            del self.entries[name]
        return [self.entries[name] for name in sorted(self.entries)]

    def forget(self, cluster: str) -> None:
        """Remove the entries of a cluster."""
        self.entries = {name: entry for name, entry in self.entries.items() if entry.cluster != cluster}
