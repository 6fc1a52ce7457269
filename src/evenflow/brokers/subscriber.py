"""A subscriber: lives at one broker, and while it moves is served by two; what comes twice is taken once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from evenflow.actor import Received, Send, Wake, Woken
from evenflow.brokers import messages as m

PATIENCE_S = 60.0  # how long a move may take before the subscriber asks


class Connect(NamedTuple):
    """An event: the subscriber comes to a broker, as new or because its own broken one left it without."""

    broker: str


class Broken(NamedTuple):
    """An event: the connection to a broker broke; the subscriber goes on with another broker that serves it, if any."""

    broker: str


class Depart(NamedTuple):
    """A command: unsubscribe from a broker once everything it had queued until now is delivered."""

    broker: str


class Subscriber:
    """One subscriber with one subscription.

    Parameters
    ----------
    key
        The number of its subscription.
    """

    __slots__ = ("home", "key", "moving")

    def __init__(self, key: int) -> None:
        self.key = key
        self.home: str | None = None
        self.moving: tuple[str, str] | None = None  # session, broker that will be home

    def handle(self, event: Any, now: float) -> list[Any]:
        """Take one event; orders of another session than the one under way change nothing."""
        if isinstance(event, Connect):
            self.home, self.moving = event.broker, None
            return [Send(event.broker, m.Subscribe(self.key))]
        if isinstance(event, Broken):
            return self._broken(event.broker)
        if isinstance(event, Woken):
            return self._ask(event.name, now)
        if not isinstance(event, Received):
            return []
        match event.message:
            case m.MoveOrder(session, total, to) if event.sender == self.home and to != self.home:
                given_up = [Send(self.moving[1], m.Unsubscribe())] if self.moving and self.moving[1] != to else []
                self.moving = (session, to)
                wake = Wake(now + PATIENCE_S, session)
                return [*given_up, Send(to, m.Subscribe(self.key, session, total)), wake]
            case m.LeaveOrder(session) if self.moving and self.moving[0] == session and self.home is not None:
                old, self.home, self.moving = self.home, self.moving[1], None
                return [Depart(old)]
            case m.StayOrder(session) if self.moving and self.moving[0] == session:
                other, self.moving = self.moving[1], None
                return [Send(other, m.Unsubscribe())]
            case m.Refused(session) if self.moving and self.moving[0] == session:
                self.moving = None
                return [Send(event.sender, m.Unsubscribe())]
        return []

    def _broken(self, broker: str) -> list[Any]:
        """Lose a broker: the one moved to takes over at once, or the move is off."""
        if self.moving is not None and broker == self.moving[1]:
            self.moving = None
        elif broker == self.home:
            self.home, self.moving = (self.moving[1] if self.moving else None), None
        return []

    def _ask(self, session: str, now: float) -> list[Any]:
        """Ask the old broker how the move ended: its order to leave or to stay may be lost."""
        if self.moving is None or self.moving[0] != session or self.home is None:
            return []
        return [Send(self.home, m.AskMove(session)), Wake(now + PATIENCE_S, session)]


class Inbox:
    """What a subscriber has received, by the order numbers of each source: lets every publication pass once.

    Brokers forward in order, so from one broker the numbers of a source ascend.
    While two brokers serve the subscriber, or a broker has stopped serving it and what that one had not matched
    is still to be replayed, single numbers are kept; otherwise one number per source is enough.
    A replay may come long after newer numbers: a cut delays it, and meanwhile the next broker may crash too.

    Examples
    --------
    >>> inbox = Inbox()
    >>> inbox.take("B0", [1, 2]), inbox.take("B0", [2, 3])
    ([1, 2], [3])
    """

    def __init__(self) -> None:
        self._seen: dict[str, set[int]] = {}
        self._upto: dict[str, int] = {}
        self._gaps: dict[str, int] = {}

    def take(self, source: str, numbers: Iterable[int]) -> list[int]:
        """Give the numbers that are new."""
        seen, floor = self._seen.setdefault(source, set()), self._upto.get(source, -1)
        fresh = [n for n in numbers if n > floor and n not in seen]
        seen.update(fresh)
        return fresh

    def gap(self, source: str) -> None:
        """Take note that a broker stopped serving: what it had not matched will be replayed."""
        self._gaps[source] = self._gaps.get(source, 0) + 1

    def filled(self, source: str) -> None:
        """Take note that a replay has come."""
        self._gaps[source] = max(0, self._gaps.get(source, 0) - 1)

    def close(self, source: str) -> bool:
        """Forget single numbers if all below the newest has come: only one broker serves, and no gap is open."""
        if self._gaps.get(source):
            return False
        seen = self._seen.get(source)
        if seen:
            self._upto[source] = max(seen)
            seen.clear()
        return True
