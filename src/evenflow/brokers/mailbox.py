"""Runs all brokers, heads and subscribers in one process: messages arrive immediately, wake-ups in order of time.

For drivers without per-message queues: on Spark the brokers negotiate between two batches, and `padres-scale` computes
with rates instead of publications. No publication is in flight then, so a subscriber can leave as soon as it is told to.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evenflow.actor import Note, Received, Send, Started, Wake, Woken
from evenflow.brokers import messages as m
from evenflow.brokers.edge import EdgeBroker
from evenflow.brokers.head import HeadActor
from evenflow.brokers.load import Load
from evenflow.brokers.subscriber import Connect, Depart, Subscriber
from evenflow.subscriptions.press import Arrived

TRACED = (m.Request, m.Reply, m.Announce, m.Done, m.Cancel, m.ClusterRequest, m.ClusterReply, m.ClusterDone)


@dataclass
class BrokerMailbox:
    """All brokers and subscribers, the messages between them, and their timers.

    Parameters
    ----------
    edges, heads
        The brokers' actors, by name.
    listeners
        Address of a cluster's load information -> brokers subscribed to it; actors change it.
    note
        Called with every trace record.
    """

    edges: Mapping[str, EdgeBroker]
    heads: Mapping[str, HeadActor]
    listeners: dict[str, set[str]]
    note: Callable[[Mapping[str, Any]], object]
    load: Callable[[str], Load] | None = None  # measures a broker before each event that needs its load
    subscribers: dict[str, Subscriber] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)  # subscribers that may have another broker now
    now: float = 0.0
    messages: int = 0
    _wakes: list[tuple[float, int, str, Any]] = field(default_factory=list)
    _events: deque[tuple[str, Any]] = field(default_factory=deque)
    _order: int = 0

    def start(self) -> None:
        """Start every broker."""
        self._events.extend((name, Started({})) for name in (*self.edges, *self.heads))
        self._drain()

    # -- called by the driver -------------------------------------------------------------------

    def set_load(self, broker: str, load: Load | None) -> None:
        """Tell a broker its load; with None (unknown) it neither starts nor accepts sessions."""
        self.edges[broker].handle(m.Measured(load), self.now)

    def add_sample(self, broker: str, publications: list[tuple[int, ...]]) -> None:
        """Give a sampling broker matched publications, each as the subscription numbers that it matches."""
        self._events.append((broker, Arrived(publications)))
        self._drain()

    def run(self, until: float) -> None:
        """Handle every wake-up that is due by ``until``."""
        while self.step(until):
            pass

    def step(self, until: float) -> bool:
        """Handle the next wake-up due by ``until`` and all messages that follow from it; return whether there was one."""
        if not self._wakes or self._wakes[0][0] > until:
            self._advance_clock(until)
            return False
        at, _, name, event = heapq.heappop(self._wakes)
        self._advance_clock(at)
        self._events.append((name, event))
        self._drain()
        return True

    def join(self, subscriber: str, key: int, broker: str) -> None:
        """Add a subscriber with subscription number ``key`` at a broker."""
        self.subscribers[subscriber] = Subscriber(key)
        self._events.append((subscriber, Connect(broker)))
        self._drain()

    def leave(self, subscriber: str) -> None:
        """Remove a subscriber from its broker, and from the one that it may be moving to."""
        gone = self.subscribers.pop(subscriber)
        for broker in (gone.home, gone.moving[1] if gone.moving else None):
            if broker is not None:
                self._events.append((broker, Received(subscriber, m.Unsubscribe())))
        self.changed.add(subscriber)
        self._drain()

    def home_of(self, subscriber: str) -> str | None:
        """Return the broker that serves a subscriber, or None."""
        actor = self.subscribers.get(subscriber)
        return None if actor is None else actor.home

    # -- events ---------------------------------------------------------------------------------

    def _advance_clock(self, now: float) -> None:
        self.now = max(self.now, now)

    def _drain(self) -> None:
        while self._events:
            name, event = self._events.popleft()
            edge = self.edges.get(name)
            actor: Any = edge or self.heads.get(name) or self.subscribers.get(name)
            if actor is None:
                continue  # the subscriber has left in the meantime
            if edge is not None and self.load is not None and _needs_load(event):
                edge.handle(m.Measured(self.load(name)), self.now)
            for command in actor.handle(event, self.now):
                self._execute(name, command)
            if isinstance(actor, Subscriber):
                self.changed.add(name)

    def _execute(self, name: str, command: Any) -> None:
        kind = type(command)
        if kind is Send:
            self._send(name, command.to, command.message)
        elif kind is Wake:
            self._order += 1
            heapq.heappush(self._wakes, (command.at, self._order, name, Woken(command.name)))
        elif kind is Note:
            self.note(command.record)
        elif kind is Depart:
            self._events.append((command.broker, Received(name, m.Unsubscribe())))
        elif kind is m.Listen:
            self.listeners.setdefault(m.PIE_LOCAL + command.cluster, set()).add(name)
        elif kind is m.Unlisten:
            self.listeners.setdefault(m.PIE_LOCAL + command.cluster, set()).discard(name)
        else:
            raise TypeError(f"{command!r} is not a command of brokers")

    def _send(self, sender: str, to: str, message: Any) -> None:
        self.messages += 1
        if to.startswith((m.PIE_LOCAL, m.PIE_GLOBAL)):
            for listener in sorted(self.listeners.get(to, ())):
                if listener != sender:
                    self._events.append((listener, Received(sender, message)))
            return
        if isinstance(message, TRACED):
            self.note(self._message_record(sender, to, message))
        self._events.append((to, Received(sender, message)))

    def _message_record(self, sender: str, to: str, message: Any) -> dict[str, Any]:
        record: dict[str, Any] = {
            "kind": "broker_message",
            "at": self.now,
            "from": sender,
            "to": to,
            "what": type(message).__name__,
            "session": message.session,
        }
        if isinstance(message, m.Reply | m.ClusterReply):
            record["status"] = message.status.value
        if isinstance(message, m.Reply) and message.load is not None:
            record["load"] = {"input": message.load.input_ratio, "output": message.load.output_ratio}
        if isinstance(message, m.Request):
            record["algorithm"] = message.algorithm
        return record


def _needs_load(event: Any) -> bool:
    """Return whether a broker needs its load for an event; joining and leaving subscribers do not need it."""
    return not (isinstance(event, Received) and isinstance(event.message, m.Subscribe | m.Unsubscribe | m.AskMove))
