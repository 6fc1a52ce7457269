"""A metering unit: it watches its memory, and negotiates with parent and children when a threshold is crossed.

It knows only its own state and what its neighbours tell it (section 3.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from evenflow.actor import Note, Received, Save, Started, Wake
from evenflow.operators import rules
from evenflow.operators.carrier import Carrier, Runs
from evenflow.operators.custody import Custody, Key
from evenflow.operators.graph import Graph
from evenflow.operators.messages import (
    UNSET,
    Clear,
    DemandReply,
    DemandRequest,
    DemandTransferRequest,
    OfferReply,
    OfferRequest,
    OfferTransferReply,
    OfferTransferRequest,
    Receipt,
    Ship,
    Talk,
    Withdrawn,
)
from evenflow.operators.negotiation import TRANSITIONS, Action, Event, State
from evenflow.operators.session import Event as Happened
from evenflow.operators.session import Giver
from evenflow.operators.settings import UnitSettings
from evenflow.operators.sizes import Sizes
from evenflow.operators.transfers import Transfer
from evenflow.operators.tree import Tree

MONITOR = "monitor"


class MeteringUnit(Carrier):
    """One unit of the tree, with the published protocol.

    Parameters
    ----------
    unit, graph, tree
        Its name, the operator graph, and the tree of units.
    sizes
        The current memory of every operator.
    ops
        The operators that it runs at the start.
    settings
        Thresholds, period, and the reading of the listings.
    """

    def __init__(
        self,
        unit: str,
        graph: Graph,
        tree: Tree,
        sizes: Sizes,
        ops: Iterable[int] = (),
        settings: UnitSettings | None = None,
    ) -> None:
        self.settings = settings or UnitSettings()
        self.rules = self.settings.rules
        super().__init__(unit, Custody(graph, tree, unit, sizes, self.rules.walk))
        self.parent = tree.parent[unit]
        self.neighbours = tree.neighbours(unit)
        self.state = State.RESTING
        self.reserved: dict[Key, tuple[float, float]] = {}  # room that is promised to offering units, and since when
        self._first = tuple(ops)
        self._life = 0
        self._number = 0
        self._talk: Talk = (unit, 0, 0)
        self._began = 0.0
        self._waiting: set[str] = set()
        self._replies: list[tuple[str, Any]] = []
        self._read = {
            OfferRequest: self._on_offer,
            OfferReply: self._on_reply,
            OfferTransferRequest: self._on_offer_transfer,
            OfferTransferReply: self._on_offer_answer,
            DemandRequest: self._on_demand,
            DemandReply: self._on_reply,
            DemandTransferRequest: self._on_demand_transfer,
            Clear: self._on_clear,
            Ship: self._on_ship,
            Receipt: self._on_receipt,
            Withdrawn: self._on_withdrawn,
        }
        self._do = {
            Action.OFFER: self._offer,
            Action.DEMAND: self._demand,
            Action.GRANT: self._grant,
            Action.TAKE: self._take,
            Action.TAKE_BACK: self._take_back,
        }

    def handle(self, event: Any, now: float) -> list[Any]:
        """Handle one event and return the commands."""
        self._out = []
        if type(event) is Received:
            self._read[type(event.message)](event.sender, event.message, now)
        elif type(event) is Started:
            self._start(event.saved, now)
        else:
            self._monitor(now)
        return self._out

    # -- start and timer ------------------------------------------------------------------------

    def _start(self, saved: Mapping[str, Any], now: float) -> None:
        self._life = saved.get("life", 0) + 1
        self._out.append(Save({"life": self._life}))
        if "owned" in saved:
            self.custody.restore(saved, now)
        else:
            self.custody.load(self._first)
            self._save()
        self._out.append(Runs(tuple(self.custody.owned)))
        period = self.settings.period_s
        behind = max(0.0, now - self.settings.first_s)
        ticks = -(-behind // period)  # a unit that restarts keeps its phase
        self._out.append(Wake(self.settings.first_s + ticks * period, MONITOR))

    def _monitor(self, now: float) -> None:
        """End what has timed out, then follow Listing 3."""
        self._expire(now)
        memory = self.memory()
        if memory > self.settings.upper:
            self._on(Event.OVERLOADED, now)
        elif memory < self.settings.lower:
            self._on(Event.UNDERLOADED, now)
        self._out.append(Wake(now + self.settings.period_s, MONITOR))

    def _expire(self, now: float) -> None:
        late = now - self.settings.timeout_s
        if self.state is not State.RESTING and self._began <= late:
            self._on(Event.TIMED_OUT, now)
        if self.reserved:
            self.reserved = {key: kept for key, kept in self.reserved.items() if kept[1] > late}
        for key, parcel in list(self.custody.giving.items()):
            if parcel.at <= late and not (parcel.state is Giver.PROMISED and parcel.offered):
                self._giver(key, Happened.TIMED_OUT, now)
        for key, parcel in list(self.custody.taking.items()):
            if parcel.at <= late:
                self._taker(key, Happened.TIMED_OUT, now)

    def _on(self, event: Event, now: float) -> None:
        row = TRANSITIONS.get((self.state, event))
        if row is None:
            return
        self.state, action = row
        if action is not None:
            self._began = now
            self._do[action](now)

    def _new_talk(self) -> None:
        self._number += 1
        self._talk = (self.unit, self._life, self._number)
        self._replies = []

    # -- the unit that started the negotiation --------------------------------------------------

    def _offer(self, now: float) -> None:
        self._new_talk()
        memory = self.memory()
        self._waiting = set(self.neighbours)
        for neighbour in self.neighbours:
            if self.rules.one_message_per_child or neighbour == self.parent:
                toward = self.custody.transfers(neighbour)
            else:  # one message for all children, as printed
                toward = [t for t in self.custody.transfers() if t.to != self.parent]
            part = tuple(rules.offered(toward, memory, self.settings))
            self._send(neighbour, OfferRequest(self._talk, part, memory - self.settings.target))
        if not self._waiting:
            self._on(Event.ALL_REPLIED, now)

    def _demand(self, now: float) -> None:
        self._new_talk()
        size = self.settings.target - self.memory()
        self._waiting = set(self.neighbours)
        for neighbour in self.neighbours:
            self._send(neighbour, DemandRequest(self._talk, size))
        if not self._waiting:
            self._on(Event.ALL_REPLIED, now)

    def _on_reply(self, sender: str, message: Any, now: float) -> None:
        awaited = OfferReply if self.state is State.OFFERING else DemandReply
        if self.state not in (State.OFFERING, State.DEMANDING) or type(message) is not awaited:
            return self._late(sender, message)
        if message.talk != self._talk or sender not in self._waiting:
            return self._late(sender, message)
        self._waiting.discard(sender)
        self._replies.append((sender, message))
        if not self._waiting:
            self._on(Event.ALL_REPLIED, now)
        return None

    def _late(self, sender: str, message: Any) -> None:
        """Release a neighbour whose reply came too late, unless the reply repeats one of this negotiation."""
        if message.talk != self._talk:
            self._send(sender, Clear(message.talk))

    def _grant(self, now: float) -> None:
        """Follow Listing 5."""
        excess = self.memory() - self.settings.target
        grants = rules.granted(self._replies, excess, self.custody.available, self.rules)
        unanswered, self._waiting = self._waiting, set()
        for neighbour, transfers in grants.items():
            self._request(neighbour, transfers, now)
        for neighbour in sorted(unanswered):
            self._send(neighbour, Clear(self._talk))
        if not self._waiting:
            self._on(Event.ALL_ANSWERED, now)

    def _request(self, neighbour: str, transfers: list[Transfer], now: float) -> None:
        if not transfers:
            self._send(neighbour, Clear(self._talk))
            return
        if self.rules.sessions:
            self.custody.promise((self._talk, neighbour), transfers, now, offered=True)
        else:
            for transfer in transfers:
                self.custody.drop(transfer)
        self._waiting.add(neighbour)
        self._send(neighbour, OfferTransferRequest(self._talk, tuple(transfers)))

    def _take_back(self, now: float) -> None:
        for neighbour in sorted(self._waiting):
            self._giver((self._talk, neighbour), Happened.TIMED_OUT, now)
        self._waiting = set()

    def _take(self, now: float) -> None:
        """Follow Listing 9."""
        space = self.settings.target - self.memory() - self._reserved()
        for sender, reply in sorted(self._replies, key=lambda r: -r[1].urgent):
            welcome = list(reply.transfers)
            if self.rules.sessions:  # the taker measures again, because an operator may have grown since the reply
                measured = [t._replace(size=self.custody.size(t.ops)) for t in reply.transfers]
                welcome = [t for t in measured if self.custody.welcome(t, sender)]
            chosen = rules.taken(welcome, space, self.rules) if space >= 0 else []
            space -= sum(t.size for t in chosen)
            if not chosen:
                self._send(sender, Clear(self._talk))
            elif self.rules.sessions:
                self._expect((self._talk, sender), chosen, now, offered=False)
            else:
                self._load(sender, chosen)
                self._send(sender, DemandTransferRequest(self._talk, tuple(chosen)))
        for neighbour in sorted(self._waiting):
            self._send(neighbour, Clear(self._talk))
        self._waiting = set()

    # -- the unit that was asked ----------------------------------------------------------------

    def _on_offer(self, sender: str, message: OfferRequest, now: float) -> None:
        """Follow Listing 4."""
        # This unit's own demand is on its way to the sender and locks the same operators there.
        # Reserving room for the offer as well would waste it.
        crossed = self.rules.lock and self.state is State.DEMANDING and sender in self._waiting
        if self.memory() > self.settings.upper or crossed:
            self._send(sender, OfferReply(message.talk, UNSET, ()))
            return
        memory = self.memory() + (self._reserved() if self.rules.reserve else 0.0)
        offer = message.transfers
        if self.rules.sessions and self.custody.locked:  # checked again when the transfer comes
            offer = tuple(t for t in offer if self.custody.welcome(t, sender))
        urgent, chosen = rules.accepted(offer, memory, rules.room(memory, self.settings), self.settings)
        if self.rules.reserve and chosen:
            self.reserved[message.talk, sender] = (sum(t.size for t in chosen), now)
        self._send(sender, OfferReply(message.talk, urgent, tuple(chosen)))

    def _reserved(self) -> float:
        return sum(size for size, _ in self.reserved.values()) if self.reserved else 0.0

    def _on_offer_transfer(self, sender: str, message: OfferTransferRequest, now: float) -> None:
        """Follow Listing 6; with sessions, refuse transfers that no longer fit or would invert a chain."""
        key = (message.talk, sender)
        self.reserved.pop(key, None)
        if not self.rules.sessions:
            self._load(sender, message.transfers)
            self._send(sender, OfferTransferReply(message.talk, message.transfers))
            return
        if key in self.custody.taking or key in self.custody.done:
            self._taker(key, Happened.AGREED, now)
            return
        chosen: list[Transfer] = []
        space = self._space_for_commit()
        for transfer in message.transfers:
            size = self.custody.size(transfer.ops)  # measured at deployment
            if size <= space + rules.EPSILON and self.custody.welcome(transfer, sender):
                chosen.append(transfer)
                space -= size
        if chosen:
            self._expect(key, chosen, now, offered=True)
        else:
            self._out.append(_refusal(now, sender, self.unit, "no room or chain crossed"))
            self._send(sender, OfferTransferReply(message.talk, ()))

    def _space_for_commit(self) -> float:
        return self.settings.upper - self.memory() - self._reserved()

    def _on_offer_answer(self, sender: str, message: OfferTransferReply, now: float) -> None:
        """Follow Listing 7."""
        if not self.rules.sessions:
            self._unload(op for t in message.transfers for op in t.ops)
        elif message.transfers:
            self._giver((message.talk, sender), Happened.ACCEPTED, now, message.transfers)
        else:
            self._giver((message.talk, sender), Happened.CLEARED, now)
        if self.state is State.GRANTING and message.talk == self._talk:
            self._waiting.discard(sender)
            if not self._waiting:
                self._on(Event.ALL_ANSWERED, now)

    def _on_demand(self, sender: str, message: DemandRequest, now: float) -> None:
        """Follow Listing 8."""
        memory = self.memory()
        if memory < self.settings.target:
            self._send(sender, DemandReply(message.talk, UNSET, ()))
            return
        urgent, chosen = rules.given_to(self.custody.transfers(sender), memory, message.size, self.settings)
        key = (message.talk, sender)
        if chosen and self.rules.lock and key not in self.custody.giving:
            self.custody.promise(key, chosen, now, offered=False)
        self._send(sender, DemandReply(message.talk, urgent, tuple(chosen)))

    def _on_demand_transfer(self, sender: str, message: DemandTransferRequest, now: float) -> None:
        """Follow Listing 10."""
        if self.rules.sessions:
            self._giver((message.talk, sender), Happened.ACCEPTED, now, message.transfers)
        else:
            self._unload(op for t in message.transfers for op in t.ops)

    def _on_clear(self, sender: str, message: Clear, now: float) -> None:
        self.reserved.pop((message.talk, sender), None)
        self._giver((message.talk, sender), Happened.CLEARED, now)


def _refusal(now: float, giver: str, taker: str, why: str) -> Note:
    return Note({"kind": "refusal", "at": now, "why": why, "giver": giver, "taker": taker})
