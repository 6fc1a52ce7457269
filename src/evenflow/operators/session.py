"""One transfer of operators from giver to taker: promise, deploy, finish, ship, resume (Figures 4 and 6).

At every moment one side has the operators: the giver until it ships, the shipment until its receipt, then the taker.
Upward the giver holds the readings back while the taker deploys, downward the taker does: they pass it first.
The state of open windows travels in the shipment, so results do not become inaccurate as in section 2.1.3.2.
A missing row is illegal and changes nothing.
"""

from __future__ import annotations

from enum import Enum


class Giver(Enum):
    """Where the giver of a transfer stands."""

    RUNNING = "running"  # no promise, or one that is over
    PROMISED = "promised"  # locked: it still runs here, and nobody else can have it
    SHIPPED = "shipped"  # runs nowhere; the shipment is kept until the receipt


class Taker(Enum):
    """Where the taker of a transfer stands."""

    ABSENT = "absent"
    EXPECTING = "expecting"  # deployed, its memory is counted, readings wait
    RUNNING = "running"


class Event(Enum):
    """What can happen to either."""

    PROMISED = "promised"
    ACCEPTED = "accepted"
    CLEARED = "cleared"
    RECEIVED = "received"  # the receipt came
    AGREED = "agreed"
    SHIPPED = "shipped"
    WITHDRAWN = "withdrawn"
    TIMED_OUT = "timed out"


class Action(Enum):
    """What the side then does."""

    LOCK = "lock"
    UNLOCK = "unlock"
    SHIP = "hold the stream, finish what is there, ship"
    SHIP_AGAIN = "ship again"
    FORGET = "forget"
    WITHDRAW = "withdraw"
    DEPLOY = "deploy and accept"
    ACCEPT_AGAIN = "accept again"
    INSTALL = "install the state, resume the stream, send the receipt"
    RECEIPT_AGAIN = "send the receipt again"
    UNDEPLOY = "undeploy"


GIVING: dict[tuple[Giver, Event], tuple[Giver, Action]] = {
    (Giver.RUNNING, Event.PROMISED): (Giver.PROMISED, Action.LOCK),
    (Giver.RUNNING, Event.ACCEPTED): (Giver.RUNNING, Action.WITHDRAW),  # late: the promise is over
    (Giver.PROMISED, Event.ACCEPTED): (Giver.SHIPPED, Action.SHIP),
    (Giver.PROMISED, Event.CLEARED): (Giver.RUNNING, Action.UNLOCK),
    (Giver.PROMISED, Event.TIMED_OUT): (Giver.RUNNING, Action.UNLOCK),
    (Giver.SHIPPED, Event.ACCEPTED): (Giver.SHIPPED, Action.SHIP_AGAIN),  # the shipment may be lost
    (Giver.SHIPPED, Event.TIMED_OUT): (Giver.SHIPPED, Action.SHIP_AGAIN),
    (Giver.SHIPPED, Event.RECEIVED): (Giver.RUNNING, Action.FORGET),
}

TAKING: dict[tuple[Taker, Event], tuple[Taker, Action]] = {
    (Taker.ABSENT, Event.AGREED): (Taker.EXPECTING, Action.DEPLOY),
    (Taker.EXPECTING, Event.AGREED): (Taker.EXPECTING, Action.ACCEPT_AGAIN),
    (Taker.EXPECTING, Event.TIMED_OUT): (Taker.EXPECTING, Action.ACCEPT_AGAIN),
    (Taker.EXPECTING, Event.SHIPPED): (Taker.RUNNING, Action.INSTALL),
    (Taker.EXPECTING, Event.WITHDRAWN): (Taker.ABSENT, Action.UNDEPLOY),
    (Taker.RUNNING, Event.SHIPPED): (Taker.RUNNING, Action.RECEIPT_AGAIN),  # the receipt was lost
}
