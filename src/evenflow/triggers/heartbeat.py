"""When a worker tells its master of its load, and what it has heard of others: books only, nothing is sent from here.

Law: nobody is told again of a load as it is expected to be by now, nor while an answer may still come.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import nlargest

from evenflow.triggers.messages import NO_NUMBER, Heartbeat, Number
from evenflow.triggers.settings import WorkerSettings

MOST_HEARD = 16  # heartbeats of others that go to the master when asking: the fullest
NEVER = float("-inf")


@dataclass(slots=True)
class Pulse:
    """What one worker has told and heard; it is not saved: after a crash a worker tells and hears anew."""

    settings: WorkerSettings
    told_s: float = 0.0  # the load that others count with, and since when
    told_at: float = 0.0
    asked: float = NEVER
    heard: dict[str, Heartbeat] = field(default_factory=dict)

    def due(self, load_s: float, now: float, *, idle: bool) -> bool:
        """Say whether to tell the master now: of little to do here and more elsewhere, or of much that is news."""
        since = now - self.told_at
        believed_s = self.told_s if since < self.settings.patience_s else max(0.0, self.told_s - since)
        if load_s > 2 * believed_s + self.settings.worth_s:
            return True
        return self.low(load_s, idle=idle) and self._may_ask(load_s, now)

    def low(self, load_s: float, *, idle: bool) -> bool:
        """Say whether it wants work."""
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
        """Return the heartbeat of this moment."""
        self.told_s, self.told_at = load_s, now
        settings = self.settings
        asking = self.low(load_s, idle=idle)
        return Heartbeat(load_s, waiting, settings.trigroup_s, settings.speed, now, asking, gave, took)

    def with_heard(self, beat: Heartbeat) -> Heartbeat:
        """Return it as it goes to the master: with the fullest of the others."""
        if beat.asking:
            self.asked = beat.at
        heard = nlargest(MOST_HEARD, self.heard.items(), key=lambda item: item[1].load_s)
        return beat._replace(heard=tuple(heard))

    def gave(self, seconds: float) -> None:
        """Note a transfer from here: the master counts with it."""
        self.told_s = max(0.0, self.told_s - seconds)

    def took(self, number: Number, load_s: float, now: float) -> None:
        """Note a group that came, if it was the last part of it: who asked was served."""
        if number != NO_NUMBER:
            self.asked = NEVER
            self.told_s, self.told_at = load_s, now
