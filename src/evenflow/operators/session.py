"""The state tables of one transfer from giver to taker: promise, deploy, finish, ship, resume (Figures 4 and 6).

The operators are always in one place: at the giver until it ships, in the shipment until the receipt, then at the
taker. During an upward transfer the giver holds the readings back while the taker deploys. During a downward transfer
the taker does, because readings pass it first. The shipment contains the state of open windows, so results do not
become inaccurate as in section 2.1.3.2. An event without a row for the current state is illegal and changes nothing.
"""

from __future__ import annotations

from enum import Enum


class Giver(Enum):
    """States of a transfer at the giver."""

    RUNNING = "running"  # no promise, or one that has ended
    PROMISED = "promised"  # locked: still runs here, and cannot be promised to another unit
    SHIPPED = "shipped"  # no longer runs here; the shipment is kept until the receipt


class Taker(Enum):
    """States of a transfer at the taker."""

    ABSENT = "absent"
    EXPECTING = "expecting"  # deployed, its memory is counted, readings wait
    RUNNING = "running"


class Event(Enum):
    """Events at either side."""

    PROMISED = "promised"
    ACCEPTED = "accepted"
    CLEARED = "cleared"
    RECEIVED = "received"  # the receipt came
    AGREED = "agreed"
    SHIPPED = "shipped"
    WITHDRAWN = "withdrawn"
    TIMED_OUT = "timed out"


class Action(Enum):
    """Actions of a side on an event."""

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
    (Giver.RUNNING, Event.ACCEPTED): (Giver.RUNNING, Action.WITHDRAW),  # too late: the promise has ended
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
