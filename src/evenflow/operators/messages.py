"""Messages between neighbouring units: Tables 2 and 3, and those that make a transfer survive loss and crashes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from evenflow.operators.transfers import Transfer

Talk = tuple[str, int, int]
"""The key of a negotiation: the unit that began it, how often that unit had been started by then, and a number."""

UNSET, NORMAL, HIGH = 0, 1, 2  # Message.urgent of Table 2


class OfferRequest(NamedTuple):
    """An overloaded unit offers transfers (Listing 3)."""

    talk: Talk
    transfers: tuple[Transfer, ...]
    excess: float = 0.0


class OfferReply(NamedTuple):
    """The offered transfers that the neighbour could take (Listing 4)."""

    talk: Talk
    urgent: int
    transfers: tuple[Transfer, ...]


class OfferTransferRequest(NamedTuple):
    """Request to take these transfers (Listing 5)."""

    talk: Talk
    transfers: tuple[Transfer, ...]


class OfferTransferReply(NamedTuple):
    """These transfers are deployed (Listing 6); missing ones were refused."""

    talk: Talk
    transfers: tuple[Transfer, ...]


class DemandRequest(NamedTuple):
    """An underloaded unit tells how much memory it could take (Listing 3, line 17)."""

    talk: Talk
    size: float


class DemandReply(NamedTuple):
    """The transfers that the neighbour would give (Listing 8)."""

    talk: Talk
    urgent: int
    transfers: tuple[Transfer, ...]


class DemandTransferRequest(NamedTuple):
    """These transfers are deployed; the receiver may stop them (Listing 9)."""

    talk: Talk
    transfers: tuple[Transfer, ...]


class Clear(NamedTuple):
    """The negotiation is over for the receiver."""

    talk: Talk


# The publication leaves the transfer itself to the stream processing engine. Ours must survive loss and crashes.


class Ship(NamedTuple):
    """The giver has stopped the operators and sends them with their state; repeated until the receipt comes."""

    talk: Talk
    ops: tuple[int, ...]
    state: Mapping[int, Any]


class Receipt(NamedTuple):
    """The taker runs the operators now; the giver may drop the shipment."""

    talk: Talk


class Withdrawn(NamedTuple):
    """Nothing will be shipped for this negotiation; the taker stops expecting it."""

    talk: Talk


# Messages of our own protocol, instead of the requests and replies (mode ``even``).


class Hint(NamedTuple):
    """Memory that the sender could take from the receiver: ``room`` in total, ``direct`` of it in its own memory."""

    room: float
    direct: float


class Ask(NamedTuple):
    """A request for room of size ``want``.

    ``need`` is how much the asking unit must lose, and ``hops`` how many units may make room for it.
    A ``spare`` request cannot end the asking unit's overload. It gets only room that no other unit can use better.
    """

    talk: Talk
    want: float
    need: float
    hops: int
    spare: bool


class Space(NamedTuple):
    """Room that the sender keeps free for the receiver."""

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
