"""A negotiation, seen by the unit that began it: ask all neighbours, decide on their replies, rest (Figures 13, 14).

A unit conducts one negotiation of its own at a time, and answers those of others at any time.
A missing row is illegal and changes nothing.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """Where the unit's own negotiation stands."""

    RESTING = "resting"
    OFFERING = "offering"  # requests are out, replies come in
    GRANTING = "granting"  # transfer requests are out, the takers deploy
    DEMANDING = "demanding"


class Event(Enum):
    """What can happen to it."""

    OVERLOADED = "overloaded"
    UNDERLOADED = "underloaded"
    ALL_REPLIED = "all replied"
    ALL_ANSWERED = "all answered"
    TIMED_OUT = "timed out"


class Action(Enum):
    """What the unit then does."""

    OFFER = "offer"
    DEMAND = "demand"
    GRANT = "grant"
    TAKE = "take"
    TAKE_BACK = "take back"


TRANSITIONS: dict[tuple[State, Event], tuple[State, Action | None]] = {
    (State.RESTING, Event.OVERLOADED): (State.OFFERING, Action.OFFER),
    (State.RESTING, Event.UNDERLOADED): (State.DEMANDING, Action.DEMAND),
    (State.OFFERING, Event.ALL_REPLIED): (State.GRANTING, Action.GRANT),
    (State.OFFERING, Event.TIMED_OUT): (State.GRANTING, Action.GRANT),  # with the replies that came
    (State.GRANTING, Event.ALL_ANSWERED): (State.RESTING, None),
    (State.GRANTING, Event.TIMED_OUT): (State.RESTING, Action.TAKE_BACK),  # an answer that comes later is withdrawn
    (State.DEMANDING, Event.ALL_REPLIED): (State.RESTING, Action.TAKE),
    (State.DEMANDING, Event.TIMED_OUT): (State.RESTING, Action.TAKE),
}
