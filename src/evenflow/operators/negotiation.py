"""The state table of a negotiation, for the unit that starts it: ask all neighbours, decide, rest (Figures 13, 14).

A unit runs one negotiation of its own at a time, and answers those of others at any time.
An event without a row for the current state is illegal and changes nothing.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """States of the unit's own negotiation."""

    RESTING = "resting"
    OFFERING = "offering"  # requests are sent, replies come in
    GRANTING = "granting"  # transfer requests are sent, the takers deploy
    DEMANDING = "demanding"


class Event(Enum):
    """Events of a negotiation."""

    OVERLOADED = "overloaded"
    UNDERLOADED = "underloaded"
    ALL_REPLIED = "all replied"
    ALL_ANSWERED = "all answered"
    TIMED_OUT = "timed out"


class Action(Enum):
    """Actions of the unit on an event."""

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
