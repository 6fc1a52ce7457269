"""What publishers, processing nodes and the balancer say to each other."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from evenflow.slices.ledger import Ledger


class Item(NamedTuple):
    """One data item; ``settled`` is its publisher's low-water mark (see :mod:`evenflow.slices.ledger`)."""

    id: int
    slice: int
    topic: str = "data"
    settled: int = 0
    cost: float = 1.0
    value: Any = None


class Ack(NamedTuple):
    """These items are committed (or, with ``acks=receipt``, merely received)."""

    items: tuple[int, ...]


class SliceState(IntEnum):
    """The states of Figure 12, as actions name them."""

    AVAILABLE = 1
    IN_SESSION = 2


class ActionKind(IntEnum):
    """The four actions of section 4.3.2, each with its id."""

    ADD_SLICE = 1
    REMOVE_SLICE = 2
    UPDATE_SLICE_STATE = 3
    SEND_CACHE_TO_NODE = 4


class Action(NamedTuple):
    """An order of the balancer to one node about a collection of slices.

    ``over`` says that all sessions of this node below it have ended, so that it may forget them.
    """

    session: int
    step: int
    kind: ActionKind
    slices: tuple[int, ...]
    state: SliceState | None = None
    taker: str | None = None
    over: int = 0


class Confirm(NamedTuple):
    """A node's answer to an action: ``done``, ``shipped`` (too late to roll back) or ``refused``."""

    session: int
    step: int
    outcome: str = "done"
    why: str = ""


class Parcel(NamedTuple):
    """What travels of one slice: its state, what was processed of it, what was cached."""

    state: Any
    ledger: Ledger
    cache: tuple[Item, ...]


class Cargo(NamedTuple):
    """The caches and states of a session's slices, from giver to taker (Figure 21's topic, plus state)."""

    session: int
    parcels: Mapping[int, Parcel]


class Receipt(NamedTuple):
    """The taker has the cargo and will not forget it."""

    session: int


class Notification(NamedTuple):
    """A node's monitoring event: all monitored data, and the measured load of each slice it processes."""

    node: str
    slice_count: int
    properties: Mapping[str, float]
    slice_loads: Mapping[int, float]
    capacity: float = 1.0
    why: str = "sample"


class Leave(NamedTuple):
    """The balancer lets an empty node go."""


class Refused(NamedTuple):
    """The balancer will not work with this node."""

    why: str
