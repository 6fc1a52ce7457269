"""Messages between brokers, heads and subscribers; all have priority over data (section 3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from evenflow.brokers.load import Load
from evenflow.brokers.offload import Algorithm
from evenflow.brokers.pie import Pie
from evenflow.brokers.status import Status


class Measured(NamedTuple):
    """From the driver, before every event that needs it: the broker's load, or None if it is unknown."""

    load: Load | None


class Request(NamedTuple):
    """Asks another edge broker to take load."""

    session: str
    algorithm: Algorithm


class Reply(NamedTuple):
    """Answers a request with the status; with OK also load and covering subscription set (section 3.4.1)."""

    session: str
    status: Status
    load: Load | None = None
    css: frozenset[int] = frozenset()


class Cancel(NamedTuple):
    """To the taker: the session ends without a move."""

    session: str


class Announce(NamedTuple):
    """To the taker: this number of subscribers will arrive."""

    session: str
    total: int


class Done(NamedTuple):
    """To the giver: these subscribers have arrived, the session is over (section 3.4.2)."""

    session: str
    arrived: frozenset[str]


class AskDone(NamedTuple):
    """Asks a silent taker whether the session is over."""

    session: str


class MoveOrder(NamedTuple):
    """To a subscriber: also subscribe at that broker, and name the session."""

    session: str
    total: int
    to: str


class LeaveOrder(NamedTuple):
    """To a subscriber: the other broker serves you; unsubscribe here once everything queued is delivered."""

    session: str


class StayOrder(NamedTuple):
    """To a subscriber: the move is cancelled, stay."""

    session: str


class AskMove(NamedTuple):
    """From a subscriber whose move takes too long: asks whether to leave or to stay."""

    session: str


class Subscribe(NamedTuple):
    """From a subscriber: serve me. A moving one names its session and how many subscribers the session moves."""

    key: int
    session: str = ""
    total: int = 0


class Unsubscribe(NamedTuple):
    """From a subscriber: stop serving me."""


class Refused(NamedTuple):
    """To a subscriber that arrived too late: the session is over."""

    session: str


class GlobalRequest(NamedTuple):
    """From an overloaded edge broker to its head: no broker of our cluster can help me (section 3.3.2.2)."""

    broker: str


class Progress(NamedTuple):
    """From an edge broker to its head during a global session: this number of subscribers moved."""

    moved: int


class ClusterRequest(NamedTuple):
    """From head to head: asks for a global session."""

    session: str
    cluster: str


class ClusterReply(NamedTuple):
    """From head to head: answers a request."""

    session: str
    status: Status
    cluster: str


class ClusterDone(NamedTuple):
    """From head to head: the global session is over."""

    session: str


class Watch(NamedTuple):
    """From a head to its edge brokers: subscribe to that cluster's load information."""

    cluster: str
    session: str


class Unwatch(NamedTuple):
    """From a head to its edge brokers: forget that cluster."""

    cluster: str


class Listen(NamedTuple):
    """A command: subscribe to the load information of a cluster's brokers."""

    cluster: str


class Unlisten(NamedTuple):
    """A command: unsubscribe from the load information of a cluster's brokers."""

    cluster: str


PIE_LOCAL, PIE_GLOBAL = "pie:", "global-pie:"  # + cluster = the address of all who listen to it

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
    """Return the class under which a message is counted."""
    if isinstance(message, Pie):
        return "global_pie" if to.startswith(PIE_GLOBAL) else "local_pie"
    return _CLASSES[type(message)]
