"""What brokers, heads and subscribers tell each other; every message is a publication with priority over data (section 3.4).

``class_of`` names the class by which messages are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from evenflow.brokers.load import Load
from evenflow.brokers.offload import Algorithm
from evenflow.brokers.pie import Pie
from evenflow.brokers.status import Status


class Measured(NamedTuple):
    """The driver measured the broker; comes before every event that may need it. Without a load nothing is known of it."""

    load: Load | None


class Request(NamedTuple):
    """Asks whether the other takes load."""

    session: str
    algorithm: Algorithm


class Reply(NamedTuple):
    """My status; with OK also my load and my covering set (section 3.4.1)."""

    session: str
    status: Status
    load: Load | None = None
    css: frozenset[int] = frozenset()


class Cancel(NamedTuple):
    """The session ends without a move."""

    session: str


class Announce(NamedTuple):
    """So many subscribers will come."""

    session: str
    total: int


class Done(NamedTuple):
    """These subscribers have come; the session is over (section 3.4.2)."""

    session: str
    arrived: frozenset[str]


class AskDone(NamedTuple):
    """Is the session over? Asked when nothing was heard for too long."""

    session: str


class MoveOrder(NamedTuple):
    """To a subscriber: subscribe at that broker too, and say which session sent you."""

    session: str
    total: int
    to: str


class LeaveOrder(NamedTuple):
    """To a subscriber: the other broker serves you; unsubscribe here when all that was queued has been delivered."""

    session: str


class StayOrder(NamedTuple):
    """To a subscriber: the move is off, stay."""

    session: str


class AskMove(NamedTuple):
    """From a subscriber in the middle of a move: nothing was heard for long, asks whether to leave or to stay."""

    session: str


class Subscribe(NamedTuple):
    """From a subscriber: serve me. A migrating one names its session and the session's total."""

    key: int
    session: str = ""
    total: int = 0


class Unsubscribe(NamedTuple):
    """From a subscriber: I am gone."""


class Refused(NamedTuple):
    """To a subscriber: this session is over here, you came too late."""

    session: str


class GlobalRequest(NamedTuple):
    """From an overloaded edge broker to its head: nobody here can help me (section 3.3.2.2)."""

    broker: str


class Progress(NamedTuple):
    """From an edge broker to its head during a global session: so many subscribers moved."""

    moved: int


class ClusterRequest(NamedTuple):
    """From head to head: asks whether the clusters shall balance."""

    session: str
    cluster: str


class ClusterReply(NamedTuple):
    """From head to head."""

    session: str
    status: Status
    cluster: str


class ClusterDone(NamedTuple):
    """From head to head: the global session is over."""

    session: str


class Watch(NamedTuple):
    """From a head to its edge brokers: subscribe to that cluster's local PIE."""

    cluster: str
    session: str


class Unwatch(NamedTuple):
    """From a head to its edge brokers: forget that cluster."""

    cluster: str


class Listen(NamedTuple):
    """A command: subscribe to a cluster's local PIE, or to its global one."""

    cluster: str
    scope: str = "local"


class Unlisten(NamedTuple):
    """A command: unsubscribe from it."""

    cluster: str


PIE_LOCAL, PIE_GLOBAL = "pie:", "global-pie:"  # addresses: everybody who listens to this cluster

_CLASSES: Mapping[type[Any], str] = {
    Request: "request",
    Reply: "reply",
    Cancel: "request",
    Announce: "request",
    Done: "done",
    AskDone: "request",
    MoveOrder: "migration",
    LeaveOrder: "migration",
    StayOrder: "migration",
    Refused: "migration",
    AskMove: "migration",
    Subscribe: "subscription",
    Unsubscribe: "unsubscription",
    GlobalRequest: "global_request",
    Progress: "global_request",
    ClusterRequest: "global_request",
    ClusterReply: "reply",
    ClusterDone: "done",
    Watch: "global_request",
    Unwatch: "global_request",
}


def class_of(to: str, message: object) -> str:
    """Name the class of a message."""
    if isinstance(message, Pie):
        return "global_pie" if to.startswith(PIE_GLOBAL) else "local_pie"
    return _CLASSES[type(message)]
