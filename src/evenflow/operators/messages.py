"""What units say to their neighbours: Tables 2 and 3, and what a transfer needs that survives loss and crashes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from evenflow.operators.transfers import Transfer

Talk = tuple[str, int, int]
"""A negotiation's name: who began it, in which of its lives, and its number."""

UNSET, NORMAL, HIGH = 0, 1, 2  # Message.urgent of Table 2


class OfferRequest(NamedTuple):
    """An overloaded unit says what it could give (Listing 3)."""

    talk: Talk
    transfers: tuple[Transfer, ...]
    excess: float = 0.0


class OfferReply(NamedTuple):
    """What the neighbour could take (Listing 4)."""

    talk: Talk
    urgent: int
    transfers: tuple[Transfer, ...]


class OfferTransferRequest(NamedTuple):
    """Take these (Listing 5)."""

    talk: Talk
    transfers: tuple[Transfer, ...]


class OfferTransferReply(NamedTuple):
    """These are deployed (Listing 6); what is missing was refused."""

    talk: Talk
    transfers: tuple[Transfer, ...]


class DemandRequest(NamedTuple):
    """An underloaded unit says how much it could take (Listing 3, line 17)."""

    talk: Talk
    size: float


class DemandReply(NamedTuple):
    """What the neighbour would give (Listing 8)."""

    talk: Talk
    urgent: int
    transfers: tuple[Transfer, ...]


class DemandTransferRequest(NamedTuple):
    """These are deployed; let them go (Listing 9)."""

    talk: Talk
    transfers: tuple[Transfer, ...]


class Clear(NamedTuple):
    """The negotiation is over for you."""

    talk: Talk


# What the text leaves to the stream process engine: the transfer itself, which must survive loss and crashes.


class Ship(NamedTuple):
    """The giver has finished what it had: operators with their state. Repeated until the receipt comes."""

    talk: Talk
    ops: tuple[int, ...]
    state: Mapping[int, Any]


class Receipt(NamedTuple):
    """The taker runs them now; the giver may forget."""

    talk: Talk


class Withdrawn(NamedTuple):
    """Nothing will be shipped for this negotiation: stop expecting it."""

    talk: Talk


# What our own protocol says instead of the requests and replies (mode ``even``).


class Hint(NamedTuple):
    """How much a neighbour could take from here: of its own room, and of what it could pass on behind it."""

    room: float
    direct: float


class Ask(NamedTuple):
    """Have you room for so much? ``need`` is what the asker must lose; ``hops`` how far room may be made for it.

    A ``spare`` ask cannot end the asker's overload, and wants only room that nobody else can use better.
    """

    talk: Talk
    want: float
    need: float
    hops: int
    spare: bool


class Space(NamedTuple):
    """So much room is kept for you."""

    talk: Talk
    space: float


PUBLISHED = (
    OfferRequest,
    OfferReply,
    OfferTransferRequest,
    OfferTransferReply,
    DemandRequest,
    DemandReply,
    DemandTransferRequest,
    Clear,
)
