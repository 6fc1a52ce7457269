"""A subscriber: lives at one broker, and while it moves is served by two; what comes twice is taken once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from evenflow.actor import Received, Send
from evenflow.federation import messages as m


class Connect(NamedTuple):
    """An event: the subscriber comes to a broker, as new or because its own broken one left it without."""

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
        if not isinstance(event, Received):
            return []
        match event.message:
            case m.MoveOrder(session, total, to) if event.sender == self.home and to != self.home:
                given_up = [Send(self.moving[1], m.Unsubscribe())] if self.moving and self.moving[1] != to else []
                self.moving = (session, to)
                return [*given_up, Send(to, m.Subscribe(self.key, session, total))]
            case m.LeaveOrder(session) if self.moving and self.moving[0] == session and self.home is not None:
                old, self.home, self.moving = self.home, self.moving[1], None
                return [Depart(old)]
            case m.StayOrder(session) if self.moving and self.moving[0] == session:
                other, self.moving = self.moving[1], None
                return [Send(other, m.Unsubscribe())]
            case m.Refused(session) if self.moving and self.moving[0] == session:
                self.moving = None
        return []


class Inbox:
    """What a subscriber has received, by the order numbers of each source: lets every publication pass once.

    Brokers forward in order, so from one broker the numbers of a source ascend.
    While two brokers serve the subscriber, the numbers that only the newer one brought are kept;
    afterwards one number per source is enough.

    Examples
    --------
    >>> inbox = Inbox()
    >>> inbox.take("B0", [1, 2]), inbox.take("B0", [2, 3])
    ([1, 2], [3])
    """

    def __init__(self) -> None:
        self._seen: dict[str, set[int]] = {}
        self._upto: dict[str, int] = {}

    def take(self, source: str, numbers: Iterable[int]) -> list[int]:
        """Give the numbers that are new."""
        seen, floor = self._seen.setdefault(source, set()), self._upto.get(source, -1)
        fresh = [n for n in numbers if n > floor and n not in seen]
        seen.update(fresh)
        return fresh

    def close(self, source: str) -> None:
        """Forget single numbers: only one broker serves the subscriber, and all below its newest has come."""
        seen = self._seen.get(source)
        if seen:
            self._upto[source] = max(seen)
            seen.clear()
