"""Decides when a worker reports its load to the master, and records the loads of others; this module sends nothing.

Invariant: a worker does not report a load that the master already expects, nor ask while an answer may still come.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import nlargest

from evenflow.triggers.messages import NO_NUMBER, Heartbeat, Number
from evenflow.triggers.settings import WorkerSettings

MOST_HEARD = 16  # at most this many heartbeats of others go to the master: those with the largest loads
NEVER = float("-inf")


@dataclass(slots=True)
class Pulse:
    """What one worker has reported and heard. It is not saved: after a crash it starts empty."""

    settings: WorkerSettings
    told_s: float = 0.0  # the load that the master expects here, and since when
    told_at: float = 0.0
    asked: float = NEVER
    heard: dict[str, Heartbeat] = field(default_factory=dict)

    def due(self, load_s: float, now: float, *, idle: bool) -> bool:
        """Return whether to report now: the load is far above the expected one, or it is low and others have more."""
        since = now - self.told_at
        believed_s = self.told_s if since < self.settings.patience_s else max(0.0, self.told_s - since)
        if load_s > 2 * believed_s + self.settings.worth_s:
            return True
        return self.low(load_s, idle=idle) and self._may_ask(load_s, now)

    def low(self, load_s: float, *, idle: bool) -> bool:
        """Return whether the worker wants work."""
        return self.settings.asks and (idle or load_s < self.settings.ask_below_s)

    def _may_ask(self, load_s: float, now: float) -> bool:
        if self.asked == NEVER and not self.heard:
            return True
        if now < self.asked + self.settings.patience_s:
            return False
        left = max((beat.load_s - (now - beat.at) for beat in self.heard.values()), default=0.0)
        return left > 2 * load_s + self.settings.worth_s

    def beat(
        self, load_s: float, waiting: int, now: float, gave: tuple[Number, float], took: Number, *, idle: bool
    ) -> Heartbeat:
        """Return the current heartbeat, and remember it as reported."""
        self.told_s, self.told_at = load_s, now
        settings = self.settings
        asking = self.low(load_s, idle=idle)
        return Heartbeat(load_s, waiting, settings.trigroup_s, settings.speed, now, asking, gave, took)

    def with_heard(self, beat: Heartbeat) -> Heartbeat:
        """Return the heartbeat for the master, with the largest loads of other workers attached."""
        if beat.asking:
            self.asked = beat.at
        heard = nlargest(MOST_HEARD, self.heard.items(), key=lambda item: item[1].load_s)
        return beat._replace(heard=tuple(heard))

    def gave(self, seconds: float) -> None:
        """Subtract a transfer from the reported load, because the master already expects it."""
        self.told_s = max(0.0, self.told_s - seconds)

    def took(self, number: Number, load_s: float, now: float) -> None:
        """Record the last part of a group, which answers the worker's request; earlier parts have no number."""
        if number != NO_NUMBER:
            self.asked = NEVER
            self.told_s, self.told_at = load_s, now
