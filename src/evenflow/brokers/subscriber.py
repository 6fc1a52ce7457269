"""A subscriber: one broker serves it, and while it moves two brokers do."""

from __future__ import annotations

from typing import Any, NamedTuple

from evenflow.actor import Received, Send, Wake, Woken
from evenflow.brokers import messages as m

PATIENCE_S = 60.0  # how long a move may take before the subscriber asks its old broker


class Connect(NamedTuple):
    """An event: the subscriber joins a broker, because it is new or because its broker crashed."""

    broker: str


class Broken(NamedTuple):
    """An event: the connection to a broker broke; a moving subscriber continues with its other broker."""

    broker: str


class Depart(NamedTuple):
    """A command: unsubscribe from a broker once everything that it has queued is delivered."""

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
        self.moving: tuple[str, str] | None = None  # session, new broker

    def handle(self, event: Any, now: float) -> list[Any]:
        """Handle one event; orders of other sessions than the current one are ignored."""
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
        """Handle the loss of a broker: the new broker takes over, or the move is cancelled."""
        if self.moving is not None and broker == self.moving[1]:
            self.moving = None
        elif broker == self.home:
            self.home, self.moving = (self.moving[1] if self.moving else None), None
        return []

    def _ask(self, session: str, now: float) -> list[Any]:
        """Ask the old broker how the move ended: its order may be lost."""
        if self.moving is None or self.moving[0] != session or self.home is None:
            return []
        return [Send(self.home, m.AskMove(session)), Wake(now + PATIENCE_S, session)]
