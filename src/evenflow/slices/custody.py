"""What a node does about hand-offs: obeys each action once, ships until there is a receipt, remembers how sessions ended.

The law: an action may come late, twice or out of order, and the node may crash between any two;
the slice is never with two owners, and never with none that will become one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evenflow.actor import Note, Save, Send, Wake
from evenflow.slices.handoff import LITERAL, TABLE, Effect, Event, IllegalTransitionError, State, Table, advance
from evenflow.slices.ledger import Ledger
from evenflow.slices.messages import Action, ActionKind, Cargo, Confirm, Item, Parcel, Receipt, SliceState
from evenflow.slices.session import ACTIONS, Phase
from evenflow.slices.settings import NodeSettings

EVENTS: Mapping[tuple[ActionKind, SliceState | None], Event] = {
    (ActionKind.ADD_SLICE, SliceState.AVAILABLE): Event.GRANTED,
    (ActionKind.ADD_SLICE, SliceState.IN_SESSION): Event.EXPECTED,
    (ActionKind.UPDATE_SLICE_STATE, SliceState.IN_SESSION): Event.STOPPED,
    (ActionKind.UPDATE_SLICE_STATE, SliceState.AVAILABLE): Event.OPENED,
    (ActionKind.REMOVE_SLICE, None): Event.REMOVED,
    (ActionKind.REMOVE_SLICE, SliceState.IN_SESSION): Event.WITHDRAWN,
    (ActionKind.REMOVE_SLICE, SliceState.AVAILABLE): Event.RECEIPTED,  # they are available elsewhere
    (ActionKind.SEND_CACHE_TO_NODE, None): Event.SHIP_ORDERED,
}
REMOVE, SHIP, READMIT, CLEAN, WITHDRAW, DISCARD = (
    ACTIONS[phase].step
    for phase in (
        Phase.REMOVING,
        Phase.SHIPPING,
        Phase.READMITTING,
        Phase.CLEANING,
        Phase.WITHDRAWING,
        Phase.DISCARDING,
    )
)


@dataclass(slots=True)
class Held:
    """One slice on this node. ``cache`` is memory only; the rest is what a crash leaves."""

    phase: State
    session: int
    state: dict[str, Any] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    cache: dict[int, Item] = field(default_factory=dict)
    doubled: list[Item] = field(default_factory=list)  # what a merge should have removed, when that is taken away
    since: float = 0.0  # when it last became or ceased to be this node's


class Custody(ABC):
    """The slices of one node and the sessions they take part in."""

    def __init__(self, name: str, settings: NodeSettings, balancer: str) -> None:
        self.name = name
        self.settings = settings
        self.balancer = balancer
        self.table: Table = TABLE if settings.order == "safe" else LITERAL
        self.held: dict[int, Held] = {}
        self.steps: dict[int, int] = {}  # session → last step done
        self.closed: dict[int, str] = {}  # session → how it ended here
        self.over = 0  # all sessions of this node below it have ended
        self.shipping: dict[int, tuple[str, tuple[int, ...]]] = {}  # session → taker and slices, until the receipt
        self._draining: set[int] = set()

    @abstractmethod
    def hold(self, slices: frozenset[int]) -> None:
        """Put the items of these slices that are taken but not committed into the caches."""

    @abstractmethod
    def accept(self, item: Item, now: float, *, known: bool = True) -> list[Any]:
        """Process an item with the next commit; without ``known`` even if it was processed before."""

    @abstractmethod
    def listen(self, now: float) -> list[Any]:
        """Adjust the readers to the slices that are held."""

    def restore(self, saved: Mapping[str, Any], now: float) -> list[Any]:
        """Take up after a crash."""
        for key, value in saved.items():
            if key.startswith("slice/"):
                phase, session, state, ledger = value
                self.held[int(key.removeprefix("slice/"))] = Held(phase, session, state, ledger, since=now)
        self.steps = dict(saved.get("steps", {}))
        self.closed = dict(saved.get("closed", {}))
        self.shipping = dict(saved.get("shipping", {}))
        self.over = saved.get("over", 0)
        return [Wake(now, ("ship", session)) for session in self.shipping]

    def durable(self, slice_id: int) -> tuple[State, int, Any, Ledger] | None:
        """Return what must survive a crash of a slice; ``None`` if it is not here."""
        held = self.held.get(slice_id)
        return None if held is None else (held.phase, held.session, held.state, held.ledger)

    # -- the balancer's actions -----------------------------------------------------------------

    def act(self, action: Action, now: float) -> list[Any]:
        """Carry out an action of the balancer, or repeat the answer to one that is done."""
        saves = self._forget_ended(action.over)
        session, step = action.session, action.step
        if session < self.over:
            return saves  # a straggler of a session that has ended
        if session in self.closed:
            late = self.closed[session] == "shipped" and step == READMIT
            return [*saves, self._confirm(action, "shipped" if late else "done")]
        if step <= self.steps.get(session, 0):
            return saves if session in self.shipping else [*saves, self._confirm(action)]  # the receipt will confirm
        if session not in self.steps and step in (READMIT, CLEAN, WITHDRAW):
            return [*saves, *self._close(session, "never began"), self._confirm(action)]
        if step == REMOVE and self.settings.order == "safe":
            return [*saves, *self._drain(action, now)]
        return [*saves, *self._apply(action, now)]

    def _forget_ended(self, over: int) -> list[Any]:
        if over <= self.over:
            return []
        self.over = over  # kept, not only used: a straggler brings the older mark of its own time
        self.closed = {s: how for s, how in self.closed.items() if s >= over}
        self.steps = {s: n for s, n in self.steps.items() if s >= over}
        return [Save({"over": over, "closed": dict(self.closed), "steps": dict(self.steps)})]

    def _apply(self, action: Action, now: float) -> list[Any]:
        event = EVENTS[action.kind, action.state]
        try:
            out = self._transit(action.slices, event, action.session, now, taker=action.taker)
        except IllegalTransitionError as refusal:
            return [self._confirm(action, "refused", str(refusal))]
        self.steps[action.session] = action.step
        out.append(Save({"steps": dict(self.steps)}))
        if event is Event.SHIP_ORDERED:
            return out  # confirmed when the receipt is here
        if action.step == DISCARD:
            out += self._close(action.session, "shipped")
        elif event is Event.OPENED and self.settings.order == "safe":
            out += self._close(action.session, "opened")
        return [*out, self._confirm(action)]

    def _close(self, session: int, how: str) -> list[Any]:
        """Remember how a session ended here, so that its late actions find it closed."""
        self.closed[session] = how
        return [Save({"closed": dict(self.closed)})]

    def _confirm(self, action: Action, outcome: str = "done", why: str = "") -> Send:
        return Send(self.balancer, Confirm(action.session, action.step, outcome, why))

    def _drain(self, action: Action, now: float) -> list[Any]:
        """Listen on until everything published before the taker's readers opened has arrived."""
        if action.session in self._draining:
            return []
        self._draining.add(action.session)
        return [Wake(now + self.settings.drain_s, ("drained", action))]

    def drained(self, action: Action, now: float) -> list[Any]:
        """Remove the slices, unless the session was rolled back meanwhile."""
        self._draining.discard(action.session)
        if action.session in self.closed or self.steps.get(action.session, 0) >= action.step:
            return []
        return self._apply(action, now)

    # -- the table ------------------------------------------------------------------------------

    def _transit(
        self,
        slices: tuple[int, ...],
        event: Event,
        session: int,
        now: float,
        *,
        taker: str | None = None,
        cargo: Cargo | None = None,
    ) -> list[Any]:
        """Move a whole collection along the table, or nothing of it."""
        before = {s: self.held[s].phase if s in self.held else State.ABSENT for s in slices}
        rows = {s: advance(phase, event, self.table) for s, phase in before.items()}
        out: list[Any] = []
        effects: dict[Effect, None] = {}
        for s, row in rows.items():
            held = self.held.get(s)
            if held is None:
                held = self.held[s] = Held(row.state, session)
            held.session = session
            held.phase = row.state
            if (row.state is State.OWNING) != (before[s] is State.OWNING):
                held.since = now
                out.append(self._owner_note(s, session, now, owns=row.state is State.OWNING))
            effects.update(dict.fromkeys(row.effects))
        for effect in effects:
            out += self._effect(effect, slices, session, now, taker, cargo)
        return [Save({f"slice/{s}": self.durable(s) for s in slices}), *out]

    def _owner_note(self, slice_id: int, session: int, now: float, *, owns: bool) -> Note:
        return Note(
            {"kind": "owner", "at": now, "node": self.name, "slice": slice_id, "owns": owns, "session": session}
        )

    def _effect(
        self,
        effect: Effect,
        slices: tuple[int, ...],
        session: int,
        now: float,
        taker: str | None,
        cargo: Cargo | None,
    ) -> list[Any]:
        if effect in (Effect.OPEN_READER, Effect.CLOSE_READER):
            return self.listen(now)
        if effect is Effect.HOLD_PENDING:
            self.hold(frozenset(slices))
        elif effect is Effect.SEND_CARGO:
            return self._send_cargo(slices, session, now, taker)
        elif effect is Effect.STOP_SHIPPING:
            self.shipping.pop(session, None)
            return [Save({"shipping": dict(self.shipping)})]
        elif effect is Effect.MERGE and cargo is not None:
            return [self._merge(s, self.held[s], cargo.parcels[s], session, now) for s in slices]
        elif effect is Effect.PROCESS_CACHE:
            return self._process_cache(slices, now)
        elif effect is Effect.FORGET:
            for s in slices:
                del self.held[s]
        return []  # the receipt goes out where the giver is known

    # -- cargo ----------------------------------------------------------------------------------

    def _send_cargo(self, slices: tuple[int, ...], session: int, now: float, taker: str | None) -> list[Any]:
        to = taker if taker is not None else self.shipping[session][0]
        self.shipping[session] = (to, slices)
        parcels = {}
        for s in slices:
            held = self.held[s]
            parcels[s] = Parcel(held.state, held.ledger, tuple(held.cache.values()))
        return [
            Save({"shipping": dict(self.shipping)}),
            Send(to, Cargo(session, parcels)),
            Wake(now + self.settings.resend_s, ("ship", session)),
        ]

    def ship_again(self, session: int, now: float) -> list[Any]:
        """Send the cargo again if there is no receipt yet."""
        if session not in self.shipping:
            return []
        return self._transit(self.shipping[session][1], Event.TIMED_OUT, session, now)

    def receive(self, giver: str, cargo: Cargo, now: float) -> list[Any]:
        """Merge a cargo that is expected; answer again for one that is merged."""
        receipt = Send(giver, Receipt(cargo.session))
        if self.closed.get(cargo.session) == "opened":
            return [receipt]  # the receipt was lost and the session went on
        slices = tuple(cargo.parcels)
        if any(s not in self.held or self.held[s].session != cargo.session for s in slices):
            return []  # not expected: a straggler
        try:
            out = self._transit(slices, Event.ARRIVED, cargo.session, now, cargo=cargo)
        except IllegalTransitionError:
            return []
        if self.settings.order == "literal":
            out += self._close(cargo.session, "opened")
        return [*out, receipt]

    def _merge(self, slice_id: int, held: Held, parcel: Parcel, session: int, now: float) -> Note:
        """Make the merged cache: the items of both caches, without duplicates (section 3.4)."""
        both = (*parcel.cache, *held.cache.values())
        note = {"kind": "merge", "at": now, "node": self.name, "slice": slice_id, "session": session}
        if self.settings.order == "literal":  # as printed, no state travels, and nobody remembers ids after the merge
            held.doubled = list({i.id: i for i in both}.values())
            held.cache = {}
        elif self.settings.ablate == "merge":
            held.state, held.ledger = _copied(parcel.state), parcel.ledger.copy()
            held.doubled = list(both)
            held.cache = {}
        else:
            held.state, held.ledger = _copied(parcel.state), parcel.ledger.copy()
            held.cache = {i.id: i for i in both if i.id not in held.ledger}
        return Note({**note, "giver_items": len(parcel.cache), "items": len(held.cache) + len(held.doubled)})

    def _process_cache(self, slices: tuple[int, ...], now: float) -> list[Any]:
        """Deliver the merged cache to the application."""
        out: list[Any] = []
        for s in slices:
            held = self.held[s]
            cache, held.cache = held.cache, {}
            doubled, held.doubled = held.doubled, []
            for item in cache.values():
                out += self.accept(item, now)
            for item in doubled:
                out += self.accept(item, now, known=False)
        return out

    def receipt(self, session: int, now: float) -> list[Any]:
        """Forget the slices: the taker has the cargo."""
        if session not in self.shipping:
            return []
        out = self._transit(self.shipping[session][1], Event.RECEIPTED, session, now)
        return [*out, *self._close(session, "shipped"), Send(self.balancer, Confirm(session, SHIP))]


def _copied(state: Any) -> Any:
    """Copy plain data, so that giver and taker share nothing."""
    if isinstance(state, dict):
        return {key: _copied(value) for key, value in state.items()}
    if isinstance(state, list):
        return [_copied(part) for part in state]
    return state
