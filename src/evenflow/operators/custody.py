"""What a unit has, has promised, has shipped and expects; nothing here speaks to anybody.

An operator that is expected counts as present, one that is promised as not free.
So a chain is never inverted: whatever is decided here already knows what is under way on every link of the unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from evenflow.operators.graph import Graph
from evenflow.operators.messages import Talk
from evenflow.operators.session import GIVING, TAKING, Action, Event, Giver, Taker
from evenflow.operators.sizes import Sizes
from evenflow.operators.transfers import Selection, Transfer, Walk
from evenflow.operators.tree import Tree

Key = tuple[Talk, str]
"""A transfer's name: the negotiation, and the other side of the transfer."""

REMEMBERED = 4096  # finished sessions that a unit can still tell from new ones


@dataclass(slots=True)
class Parcel:
    """One side's part in one transfer."""

    state: Giver | Taker
    transfers: tuple[Transfer, ...]
    at: float  # when something last happened
    offered: bool = True  # the negotiation was an offer, not a demand

    @property
    def ops(self) -> tuple[int, ...]:
        """Return every operator of the parcel once."""
        return tuple(dict.fromkeys(op for t in self.transfers for op in t.ops))


class Custody:
    """The operators of one unit.

    Parameters
    ----------
    graph, tree, unit
        What feeds what, and where this unit stands.
    sizes
        Memory of every operator as it is measured now, in per cent of a unit.
    walk
        How transfers are selected.
    """

    def __init__(self, graph: Graph, tree: Tree, unit: str, sizes: Sizes, walk: Walk = "meant") -> None:
        self.graph = graph
        self.unit = unit
        self.parent = tree.parent[unit]
        self.sizes = sizes
        self.owned: dict[int, None] = {}
        self.giving: dict[Key, Parcel] = {}
        self.taking: dict[Key, Parcel] = {}
        self.done: dict[Key, None] = {}
        self.locked: dict[int, Key] = {}
        self.selection = Selection(graph, tree, unit, walk)
        self._memory: float | None = None  # None, or a sum that still holds
        self._resized = True  # since the transfers were measured
        self._transfers: dict[str, list[Transfer]] | None = None  # None, or those that are free, as measured

    # -- what it comes to -----------------------------------------------------------------------

    def memory(self) -> float:
        """Return the memory in use; an operator under way counts on both sides."""
        if self._memory is None:
            size = self.sizes.__getitem__
            self._memory = sum(map(size, self.owned), 0.0)
            if self.taking or self.giving:
                self._memory += sum(map(size, self.under_way()))
        return self._memory

    def resized(self) -> None:
        """Form sums anew: an operator that is counted here has another size now."""
        self._memory = self._transfers = None
        self._resized = True

    def under_way(self) -> Iterable[int]:
        """Return the operators that are counted here although they do not run here."""
        return chain(self.shipped(), chain.from_iterable(p.ops for p in self.taking.values()))

    def shipped(self) -> Iterable[int]:
        """Return the operators that left here and have not arrived, as far as this unit knows."""
        return chain.from_iterable(p.ops for p in self.giving.values() if p.state is Giver.SHIPPED)

    def size(self, ops: Iterable[int]) -> float:
        """Return the memory of these operators."""
        return sum(map(self.sizes.__getitem__, ops))

    def transfers(self, to: str | None = None) -> list[Transfer]:
        """Return the available transfers whose operators are all free, measured now."""
        if self._transfers is None:
            self._transfers = self._measure()
        if to is not None:
            return self._transfers.get(to, [])
        return [t for found in self._transfers.values() for t in found]

    def _measure(self) -> dict[str, list[Transfer]]:
        sizes, by_taker = self.sizes, self.selection.by_taker()
        if self._resized or not self.selection.measured:
            for to, transfers in by_taker.items():
                for number, (ops, _, known) in enumerate(transfers):
                    size = sizes[ops[0]] if len(ops) == 1 else sum([sizes[op] for op in ops])
                    if size != known:  # few operators change from one look to the next
                        transfers[number] = Transfer(ops, to, size)
            self._resized, self.selection.measured = False, True
        taken = {op for op in self.locked if op in self.selection.present}
        taken.update(op for parcel in self.taking.values() for op in parcel.ops if op not in self.owned)
        if not taken:
            return {to: list(transfers) for to, transfers in by_taker.items()}
        return {to: [t for t in transfers if taken.isdisjoint(t.ops)] for to, transfers in by_taker.items()}

    def movable(self, to: str) -> float:
        """Return the memory of all operators that could go to a neighbour, together with others or alone."""
        return self.size(self.selection.movable(to))

    def free(self, op: int) -> bool:
        """Say whether an operator runs here and is promised to nobody."""
        return op in self.owned and op not in self.locked

    def available(self, transfer: Transfer) -> bool:
        """Say whether a transfer is still possible."""
        return self.selection.holds(transfer) and all(self.free(op) for op in transfer.ops)

    def welcome(self, transfer: Transfer, sender: str) -> bool:
        """Say whether a transfer may come in: it must not pass an operator of its own chain on the link.

        What comes up from a child may not feed an operator that is promised downward;
        what comes down from the parent may not be fed by one that is promised upward.
        """
        for op in transfer.ops:
            operator = self.graph[op]
            if op in self.selection.present:
                return False
            if sender == self.parent:
                if any(up in self.locked and self.locked[up][1] == sender for up in operator.ups):
                    return False
            elif operator.down in self.locked and self.locked[operator.down][1] != self.parent:
                return False
        return True

    # -- without sessions: the listings as they are ---------------------------------------------

    def load(self, ops: Iterable[int]) -> list[int]:
        """Run operators at once, and return those that are new here."""
        self._memory = self._transfers = None
        new = [op for op in dict.fromkeys(ops) if op not in self.owned]
        self.sizes.watch(new, self)
        self.owned.update(dict.fromkeys(new))
        self.selection.add(new)
        return new

    def unload(self, ops: Iterable[int]) -> list[int]:
        """Stop running operators at once, and return those that were here."""
        self._memory = self._transfers = None
        gone = [op for op in dict.fromkeys(ops) if op in self.owned]
        for op in gone:
            del self.owned[op]
        self.selection.remove(gone)
        return gone

    def drop(self, transfer: Transfer) -> None:
        """Forget a transfer that was granted, until its operators are looked at again (Listing 5, line 14)."""
        self._transfers = None
        self.selection.drop(transfer)

    # -- giving ---------------------------------------------------------------------------------

    def promise(self, key: Key, transfers: Iterable[Transfer], now: float, *, offered: bool) -> None:
        """Lock operators for a neighbour."""
        self._transfers = None
        self.giving[key] = Parcel(Giver.PROMISED, tuple(transfers), now, offered)
        self.locked.update(dict.fromkeys(self.giving[key].ops, key))

    def on_giver(self, key: Key, event: Event, now: float, kept: Iterable[Transfer] = ()) -> Action | None:
        """Let something happen to a transfer that goes out; of an accepted promise only ``kept`` are shipped."""
        parcel = self.giving.get(key)
        state = parcel.state if parcel is not None else Giver.RUNNING
        assert isinstance(state, Giver)
        row = GIVING.get((state, event))
        if row is None:
            return None
        after, action = row
        if parcel is None:
            return action
        self._memory = self._transfers = None
        parcel.at = now
        if action is Action.SHIP:
            promised = {(t.ops, t.to) for t in parcel.transfers}
            whole = tuple(t for t in kept if (t.ops, t.to) in promised and self.selection.holds(t))
            self._unlock(key, parcel)
            if not whole:
                del self.giving[key]
                return Action.WITHDRAW
            parcel.state, parcel.transfers = after, whole
            self.unload(parcel.ops)
        elif after is Giver.RUNNING:
            self._unlock(key, parcel)
            del self.giving[key]
        return action

    def _unlock(self, key: Key, parcel: Parcel) -> None:
        for op in parcel.ops:
            if self.locked.get(op) == key:
                del self.locked[op]

    # -- taking ---------------------------------------------------------------------------------

    def expect(self, key: Key, transfers: Iterable[Transfer], now: float, *, offered: bool) -> None:
        """Deploy what was agreed: it counts from now on, and runs once it is shipped."""
        self._memory = self._transfers = None
        self.taking[key] = Parcel(Taker.EXPECTING, tuple(transfers), now, offered)
        self.sizes.watch(self.taking[key].ops, self)
        self.selection.add(self.taking[key].ops)

    def on_taker(self, key: Key, event: Event, now: float, ops: Iterable[int] = ()) -> Action | None:
        """Let something happen to a transfer that comes in; ``ops`` are those that were shipped."""
        parcel = self.taking.get(key)
        state = Taker.EXPECTING if parcel is not None else Taker.RUNNING if key in self.done else Taker.ABSENT
        row = TAKING.get((state, event))
        if row is None:
            return None
        after, action = row
        if parcel is None:
            return action
        self._memory = self._transfers = None
        parcel.at = now
        if after is not Taker.EXPECTING:
            del self.taking[key]
            shipped = set(ops)
            self.selection.remove([op for op in parcel.ops if op not in shipped])
        if after is Taker.RUNNING:
            self.owned.update(dict.fromkeys(ops))
            self.sizes.watch(ops, self)
            self.selection.add(ops)
            self.done[key] = None
            if len(self.done) > REMEMBERED:
                del self.done[next(iter(self.done))]
        return action

    # -- what survives a crash ------------------------------------------------------------------

    def durable(self) -> dict[str, Any]:
        """Return what must be saved before anybody is told."""
        return {
            "owned": tuple(self.owned),
            "shipped": {k: (p.transfers, p.offered) for k, p in self.giving.items() if p.state is Giver.SHIPPED},
            "expected": {k: (p.transfers, p.offered) for k, p in self.taking.items()},
            "done": tuple(self.done),
        }

    def restore(self, saved: Mapping[str, Any], now: float) -> None:
        """Begin again with what was saved; promises are gone, and who relies on one is told so when it asks."""
        self.load(saved["owned"])
        for key, (transfers, offered) in saved["shipped"].items():
            self.giving[key] = Parcel(Giver.SHIPPED, transfers, now, offered)
            self.sizes.watch(self.giving[key].ops, self)
        for key, (transfers, offered) in saved["expected"].items():
            self.expect(key, transfers, now, offered=offered)
        self.done = dict.fromkeys(saved["done"])
