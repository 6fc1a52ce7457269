"""The hand-off of a slice: hold, expect, release, ship, install, open; nobody owns it in between, nobody owns it twice.

One table for every driver.
The virtual-time and the DDS nodes reach it through the actions of the DPSLB thesis (section 3.4), sent by a balancer;
the Spark plane reaches it through its control log.
A pair of state and event without a row is illegal and changes nothing.

The states refine Figure 20 of the thesis: ``ABSENT`` is its *not in use*, ``OWNING`` its *available*,
and everything between is its *in load balancing session*.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple


class State(Enum):
    """What one node has to do with one slice."""

    ABSENT = "absent"
    OWNING = "owning"  # processes the slice's items
    HOLDING = "holding"  # giver: caches the items, processes nothing, still has the state
    RELEASED = "released"  # giver: receives no more items, keeps state and cache for shipping
    SHIPPED = "shipped"  # giver: state and cache are on the way, the receipt is not here yet
    AWAITING = "awaiting"  # taker: caches the items until the giver's state arrives
    INSTALLED = "installed"  # taker: state and both caches are merged, not yet processing


class Event(Enum):
    """What can happen to a slice on a node."""

    GRANTED = "granted"  # the first node receives the slice without a session
    STOPPED = "stopped"
    EXPECTED = "expected"
    REMOVED = "removed"
    SHIP_ORDERED = "ship ordered"
    TIMED_OUT = "timed out"
    ARRIVED = "arrived"  # the giver's state and cache
    RECEIPTED = "receipted"
    OPENED = "opened"
    WITHDRAWN = "withdrawn"  # taker: what has not arrived by now is not accepted any more


class Effect(Enum):
    """What the node does on a transition, in this order."""

    OPEN_READER = "open reader"
    CLOSE_READER = "close reader"
    HOLD_PENDING = "hold pending"  # items taken but not committed go to the cache
    SEND_CARGO = "send cargo"
    STOP_SHIPPING = "stop shipping"
    MERGE = "merge"
    SEND_RECEIPT = "send receipt"
    FORGET = "forget"
    PROCESS_CACHE = "process cache"


class Row(NamedTuple):
    """Where a transition leads and what it does."""

    state: State
    effects: tuple[Effect, ...] = ()


Table = Mapping[tuple[State, Event], Row]

TABLE: Table = {
    # bootstrap: the first node owns everything
    (State.ABSENT, Event.GRANTED): Row(State.OWNING, (Effect.OPEN_READER,)),
    # the session, giver and taker in turn
    (State.OWNING, Event.STOPPED): Row(State.HOLDING, (Effect.HOLD_PENDING,)),
    (State.ABSENT, Event.EXPECTED): Row(State.AWAITING, (Effect.OPEN_READER,)),
    (State.HOLDING, Event.REMOVED): Row(State.RELEASED, (Effect.CLOSE_READER,)),
    (State.RELEASED, Event.SHIP_ORDERED): Row(State.SHIPPED, (Effect.SEND_CARGO,)),
    (State.AWAITING, Event.ARRIVED): Row(State.INSTALLED, (Effect.MERGE, Effect.SEND_RECEIPT)),
    (State.SHIPPED, Event.RECEIPTED): Row(State.ABSENT, (Effect.STOP_SHIPPING, Effect.FORGET)),
    (State.INSTALLED, Event.OPENED): Row(State.OWNING, (Effect.PROCESS_CACHE,)),
    # cargo or receipt can be lost: ship again, and answer again whatever has happened since
    (State.SHIPPED, Event.TIMED_OUT): Row(State.SHIPPED, (Effect.SEND_CARGO,)),
    (State.INSTALLED, Event.ARRIVED): Row(State.INSTALLED, (Effect.SEND_RECEIPT,)),
    # rollback, possible until the giver has the receipt: without the last action the taker has processed nothing
    (State.HOLDING, Event.EXPECTED): Row(State.HOLDING),
    (State.RELEASED, Event.EXPECTED): Row(State.HOLDING, (Effect.OPEN_READER,)),
    (State.SHIPPED, Event.EXPECTED): Row(State.HOLDING, (Effect.STOP_SHIPPING, Effect.OPEN_READER)),
    (State.HOLDING, Event.OPENED): Row(State.OWNING, (Effect.PROCESS_CACHE,)),
    (State.AWAITING, Event.REMOVED): Row(State.ABSENT, (Effect.FORGET, Effect.CLOSE_READER)),
    (State.INSTALLED, Event.REMOVED): Row(State.ABSENT, (Effect.FORGET, Effect.CLOSE_READER)),
    # the giver is silent: a taker that has the slices refuses to be withdrawn, and the giver forgets when it is back
    (State.AWAITING, Event.WITHDRAWN): Row(State.ABSENT, (Effect.FORGET, Effect.CLOSE_READER)),
    (State.HOLDING, Event.RECEIPTED): Row(State.ABSENT, (Effect.FORGET, Effect.CLOSE_READER)),
}

LITERAL: Table = {
    # as printed in section 3.4: the taker processes before the giver's cache is there, and merges later; no rollback
    (State.ABSENT, Event.GRANTED): Row(State.OWNING, (Effect.OPEN_READER,)),
    (State.OWNING, Event.STOPPED): Row(State.HOLDING, (Effect.HOLD_PENDING,)),
    (State.ABSENT, Event.EXPECTED): Row(State.AWAITING, (Effect.OPEN_READER,)),
    (State.HOLDING, Event.REMOVED): Row(State.RELEASED, (Effect.CLOSE_READER,)),
    (State.AWAITING, Event.OPENED): Row(State.OWNING),
    (State.RELEASED, Event.SHIP_ORDERED): Row(State.SHIPPED, (Effect.SEND_CARGO,)),
    (State.SHIPPED, Event.TIMED_OUT): Row(State.SHIPPED, (Effect.SEND_CARGO,)),
    (State.OWNING, Event.ARRIVED): Row(State.OWNING, (Effect.MERGE, Effect.PROCESS_CACHE, Effect.SEND_RECEIPT)),
    (State.SHIPPED, Event.RECEIPTED): Row(State.ABSENT, (Effect.STOP_SHIPPING, Effect.FORGET)),
}


class IllegalTransitionError(Exception):
    """The table has no row for this state and event; nothing was changed."""

    def __init__(self, state: State, event: Event) -> None:
        super().__init__(f"a slice that is {state.value} cannot be {event.value}")


def advance(state: State, event: Event, table: Table = TABLE) -> Row:
    """Look up where an event leads.

    Examples
    --------
    >>> advance(State.OWNING, Event.STOPPED).state
    <State.HOLDING: 'holding'>
    """
    try:
        return table[state, event]
    except KeyError:
        raise IllegalTransitionError(state, event) from None
