"""A metering unit with our protocol: it asks neighbours that have room, and units on the way make room for it.

A unit sends each neighbour a hint: how much memory the neighbour could move through it. A hint is one total for a
whole side of the tree. An overloaded unit sheds only enough to get below the upper threshold, not down to the target.
It asks one neighbour at a time. A neighbour serves the smallest need first. If it lacks room, it first passes some of
its own operators on, one hop further. The transfers use the same sessions as the published protocol.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from evenflow.actor import Received, Started, Wake
from evenflow.operators.central import best_fit
from evenflow.operators.graph import Graph
from evenflow.operators.messages import Ask, Clear, Hint, OfferTransferReply, OfferTransferRequest, Space, Talk
from evenflow.operators.rules import EPSILON
from evenflow.operators.session import Event as Happened
from evenflow.operators.settings import UnitSettings
from evenflow.operators.sizes import Sizes
from evenflow.operators.transfers import Transfer
from evenflow.operators.tree import Tree
from evenflow.operators.unit import MONITOR, MeteringUnit

ACT, GATHER = "act", "gather"


@dataclass(slots=True)
class Errand:
    """An attempt of a unit to shed memory, for itself or to make room for a neighbour."""

    need: float
    hops: int
    spare: bool
    since: float
    left: list[str]  # neighbours still to ask
    asker: tuple[str, Ask] | None = None  # the neighbour that waits for the room
    talk: Talk = ("", 0, 0)
    asked: str | None = None
    granting: bool = False
    promised: float = 0.0


@dataclass(slots=True)
class Known:
    """A unit's record of its neighbours' hints, the hints it sent, and its own memory."""

    hints: dict[str, Hint] = field(default_factory=dict)
    told: dict[str, Hint] = field(default_factory=dict)
    memory: float | None = None  # at the last check
    growth: float = 0.0  # between the last two checks, without transfers


class EvenUnit(MeteringUnit):
    """One unit of the tree, with our protocol; parameters as in :class:`MeteringUnit`."""

    def __init__(
        self,
        unit: str,
        graph: Graph,
        tree: Tree,
        sizes: Sizes,
        ops: Iterable[int] = (),
        settings: UnitSettings | None = None,
    ) -> None:
        super().__init__(unit, graph, tree, sizes, ops, settings)
        self.errand: Errand | None = None
        self.known = Known()
        self._asks: list[tuple[str, Ask]] = []
        self._share = max(1.0, len(graph) / len(tree.units))  # operators per unit on average
        self._looks = 0
        self._moved = 0.0  # memory gained or lost by transfers since the last check
        self._read.update({Hint: self._on_hint, Ask: self._on_ask, Space: self._on_space})

    def handle(self, event: Any, now: float) -> list[Any]:
        """Handle one event and return the commands."""
        if type(event) in (Received, Started) or event.name == MONITOR:
            return super().handle(event, now)
        self._out = []
        if event.name == ACT:
            self._act(now)
        else:
            self._answer(now)
        return self._out

    # -- monitoring and hints -------------------------------------------------------------------

    def _monitor(self, now: float) -> None:
        self._expire(now)
        memory = self.memory()
        if self.known.memory is not None:
            self.known.growth = max(0.0, memory - self.known.memory - self._moved)
        self.known.memory, self._moved = memory, 0.0
        self._looks += 1
        if self._looks % self.settings.hint_refresh == 0:
            self.known.told.clear()  # send all hints again, because one may be lost
        self._tell()
        if memory + self._forecast() > self.settings.upper:
            self._out.append(Wake(now + self.settings.lag_s, ACT))
        self._out.append(Wake(now + self.settings.period_s, MONITOR))

    def _expire(self, now: float) -> None:
        super()._expire(now)
        if self.errand is not None and self.errand.since <= now - self.settings.timeout_s:
            errand, self.errand = self.errand, None
            if errand.asked is not None:
                self._give_up(errand, now)
            self._report(errand, now)

    def _give_up(self, errand: Errand, now: float) -> None:
        assert errand.asked is not None
        if errand.granting:
            self._giver((errand.talk, errand.asked), Happened.TIMED_OUT, now)
        else:
            self._send(errand.asked, Clear(errand.talk))

    def _forecast(self) -> float:
        return self.settings.forecast * self.known.growth

    def _direct(self) -> float:
        """Return the memory that this unit could take now."""
        if len(self.custody.owned) >= self.settings.crowd * self._share:
            return 0.0  # any operator may surge, so a unit with many operators has the highest risk
        return max(
            0.0, self.settings.upper - self.memory() - self._reserved() - self.settings.caution * self.known.growth
        )

    def _tell(self, but: str | None = None) -> None:
        """Send each neighbour, except ``but``, a hint of how much could move this way, if that has changed."""
        direct = self._direct()
        over = self.memory() > self.settings.upper
        ways = {} if over else {n: self._passable(n) for n in self.neighbours}
        for neighbour in self.neighbours:
            if neighbour == but:
                continue
            behind = sum(size for n, size in ways.items() if n != neighbour)
            hint = Hint(round(direct + behind, 3), round(direct, 3))
            told = self.known.told.get(neighbour, Hint(0.0, 0.0))
            step = self.settings.hint_step
            news = abs(hint.room - told.room) >= step or abs(hint.direct - told.direct) >= step
            if news or neighbour not in self.known.told or (hint.room == 0.0) != (told.room == 0.0):
                self.known.told[neighbour] = hint
                self._send(neighbour, hint)

    def _passable(self, neighbour: str) -> float:
        """Return how much of a neighbour's room this unit's operators could fill."""
        hint = self.known.hints.get(neighbour)
        if hint is None or hint.room <= 0.0:
            return 0.0
        return min(hint.room, self.custody.movable(neighbour))

    def _on_hint(self, sender: str, message: Hint, now: float) -> None:
        self.known.hints[sender] = message
        if self.memory() <= self.settings.upper:  # an overloaded unit passes nothing on, so its own hints do not change
            self._tell(but=sender)

    # -- asking ---------------------------------------------------------------------------------

    def _act(self, now: float) -> None:
        """Start to shed the memory that is above the upper threshold now or by the forecast."""
        need = self.memory() + self._forecast() - self.settings.upper
        if self.errand is not None or need <= EPSILON:
            return
        reach = sum(min(self._room_at(n), self.custody.movable(n)) for n in self.neighbours)
        spare = reach < need - EPSILON
        dire = need > self.settings.dire
        hops = 1 if spare and not dire else self.settings.hops
        self._begin(Errand(need, hops, spare, now, self._order()), now)

    def _order(self, barred: str | None = None) -> list[str]:
        """Return the neighbours that have room, those with the most room of their own first."""
        hints = self.known.hints
        found = [n for n in self.neighbours if n != barred and self._room_at(n) > 0.0]
        return sorted(found, key=lambda n: (-hints[n].direct, -hints[n].room, n))

    def _room_at(self, neighbour: str) -> float:
        hint = self.known.hints.get(neighbour)
        return hint.room if hint is not None else 0.0

    def _wanted(self, neighbour: str, need: float) -> float:
        """Return the room that would cover a need; operators cannot be split, so it may be a little more."""
        sizes = [t.size for t in self.custody.transfers(neighbour) if t.size > EPSILON]
        covering = min((size for size in sizes if size >= need - EPSILON), default=None)
        if covering is not None:
            return covering
        return min(self.custody.movable(neighbour), need + min(sizes)) if sizes else 0.0

    def _picked(self, neighbour: str, need: float, space: float) -> list[Transfer]:
        """Choose transfers that fit and cover a need: the smallest one that covers it, else the largest ones first."""
        transfers, chosen = self.custody.transfers(neighbour), []
        while need > EPSILON:
            best = best_fit(transfers, need, space)
            if best is None:
                break
            chosen.append(best)
            need -= best.size
            space -= best.size
            transfers = [t for t in transfers if not t.overlaps(best)]
        return chosen

    def _begin(self, errand: Errand, now: float) -> None:
        self.errand = errand
        self._next(now)

    def _next(self, now: float) -> None:
        """Ask the next neighbour, or end the errand."""
        errand = self.errand
        assert errand is not None
        errand.asked, errand.granting = None, False
        while errand.need > EPSILON and errand.left:
            neighbour = errand.left.pop(0)
            want = self._wanted(neighbour, errand.need)
            if want > EPSILON:
                self._new_talk()
                errand.talk, errand.asked, errand.since = self._talk, neighbour, now
                self._send(neighbour, Ask(self._talk, want, errand.need, errand.hops, errand.spare))
                return
        self.errand = None
        self._report(errand, now)
        self._tell()

    def _report(self, errand: Errand, now: float) -> None:
        """Answer the neighbour that waits with the room that is free now."""
        if errand.asker is not None:
            self._keep(*errand.asker, now)

    def _on_space(self, sender: str, message: Space, now: float) -> None:
        errand = self.errand
        if errand is None or errand.granting or message.talk != errand.talk:
            self._send(sender, Clear(message.talk))
            return
        chosen = self._picked(sender, errand.need, message.space) if message.space > EPSILON else []
        if not chosen:
            if message.space > EPSILON:
                self._send(sender, Clear(message.talk))
            self._next(now)
            return
        errand.granting, errand.since = True, now
        errand.promised = sum(t.size for t in chosen)
        self.custody.promise((errand.talk, sender), chosen, now, offered=True)
        self._send(sender, OfferTransferRequest(errand.talk, tuple(chosen)))

    def _on_offer_answer(self, sender: str, message: OfferTransferReply, now: float) -> None:
        super()._on_offer_answer(sender, message, now)
        errand = self.errand
        if errand is None or message.talk != errand.talk or not errand.granting:
            return
        gone = sum(t.size for t in message.transfers)
        self._moved -= gone
        errand.need -= gone
        self._next(now)

    # -- being asked ----------------------------------------------------------------------------

    def _on_ask(self, sender: str, message: Ask, now: float) -> None:
        if self.memory() > self.settings.upper:
            self._send(sender, Space(message.talk, 0.0))
            return
        if not self._asks:
            self._out.append(Wake(now + self.settings.gather_s, GATHER))
        self._asks.append((sender, message))

    def _answer(self, now: float) -> None:
        """Answer the gathered asks in order of rank; for one of them the unit may first make room."""
        asks, self._asks = sorted(self._asks, key=self._rank), []
        for sender, ask in asks:
            lacking = ask.want - self._direct()
            behind = ask.hops > 1 and self.errand is None and lacking > EPSILON
            order = self._order(barred=sender) if behind else []
            if order:
                self._begin(Errand(lacking, ask.hops - 1, ask.spare, now, order, (sender, ask)), now)
            else:
                self._keep(sender, ask, now)

    def _rank(self, ask: tuple[str, Ask]) -> tuple[int, float, str]:
        """Return the sort key of an ask.

        Units in dire need come first, the largest need first. Then come units whose overload can end, the smallest need
        first, and then the others.
        """
        sender, message = ask
        if message.need > self.settings.dire:
            return 0, -message.need, sender
        return (2 if message.spare else 1), message.need, sender

    def _keep(self, sender: str, ask: Ask, now: float) -> None:
        margin = self.settings.spare_margin if ask.spare and ask.need <= self.settings.dire else 0.0
        space = min(ask.want, max(0.0, self._direct() - margin))
        if self.memory() > self.settings.upper:
            space = 0.0
        if space > EPSILON:
            self.reserved[ask.talk, sender] = (space, now)
        self._send(sender, Space(ask.talk, space))

    def _on_offer_transfer(self, sender: str, message: OfferTransferRequest, now: float) -> None:
        before = self.memory()
        super()._on_offer_transfer(sender, message, now)
        self._moved += self.memory() - before
        self._tell()
