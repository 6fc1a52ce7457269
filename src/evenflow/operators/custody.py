"""The operators that a unit runs, has promised, has shipped and expects; this module sends nothing.

An expected operator counts as present, and a promised one as not free.
So a chain is never inverted: every decision includes the transfers under way on all links of the unit.
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
"""The key of a transfer: the negotiation, and the unit on the other side."""

REMEMBERED = 4096  # finished sessions that a unit remembers, to recognise repeated messages


@dataclass(slots=True)
class Parcel:
    """One side's part in one transfer."""

    state: Giver | Taker
    transfers: tuple[Transfer, ...]
    at: float  # time of the last event
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
        The operator graph, the tree, and the name of this unit.
    sizes
        The current memory of every operator, in per cent of a unit's memory.
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
        self._memory: float | None = None  # cached sum; None when outdated
        self._resized = True  # whether a size changed since the transfers were measured
        self._transfers: dict[str, list[Transfer]] | None = None  # cached free transfers; None when outdated

    # -- memory and available transfers ---------------------------------------------------------

    def memory(self) -> float:
        """Return the memory in use; an operator under way counts on both sides."""
        if self._memory is None:
            size = self.sizes.__getitem__
            self._memory = sum(map(size, self.owned), 0.0)
            if self.taking or self.giving:
                self._memory += sum(map(size, self.under_way()))
        return self._memory

    def resized(self) -> None:
        """Drop the cached sums, because the size of an operator has changed."""
        self._memory = self._transfers = None
        self._resized = True

    def under_way(self) -> Iterable[int]:
        """Return the operators that count here but do not run here."""
        return chain(self.shipped(), chain.from_iterable(p.ops for p in self.taking.values()))

    def shipped(self) -> Iterable[int]:
        """Return the operators that were shipped and for which no receipt has come yet."""
        return chain.from_iterable(p.ops for p in self.giving.values() if p.state is Giver.SHIPPED)

    def size(self, ops: Iterable[int]) -> float:
        """Return the memory of these operators."""
        return sum(map(self.sizes.__getitem__, ops))

    def transfers(self, to: str | None = None) -> list[Transfer]:
        """Return the available transfers whose operators are all free, with current sizes."""
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
                    if size != known:  # few operators change between two measurements
                        transfers[number] = Transfer(ops, to, size)
            self._resized, self.selection.measured = False, True
        taken = {op for op in self.locked if op in self.selection.present}
        taken.update(op for parcel in self.taking.values() for op in parcel.ops if op not in self.owned)
        if not taken:
            return {to: list(transfers) for to, transfers in by_taker.items()}
        return {to: [t for t in transfers if taken.isdisjoint(t.ops)] for to, transfers in by_taker.items()}

    def movable(self, to: str) -> float:
        """Return the memory of all operators that could go to a neighbour, alone or with others."""
        return self.size(self.selection.movable(to))

    def free(self, op: int) -> bool:
        """Return whether an operator runs here and is not promised."""
        return op in self.owned and op not in self.locked

    def available(self, transfer: Transfer) -> bool:
        """Return whether a transfer is still possible."""
        return self.selection.holds(transfer) and all(self.free(op) for op in transfer.ops)

    def welcome(self, transfer: Transfer, sender: str) -> bool:
        """Return whether a transfer may come in: it must not cross an operator of its own chain on the link.

        An operator that comes up from a child must not feed one that is promised downward.
        An operator that comes down from the parent must not be fed by one that is promised upward.
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

    # -- without sessions: the listings as printed ----------------------------------------------

    def load(self, ops: Iterable[int]) -> list[int]:
        """Start operators at once, and return those that are new here."""
        self._memory = self._transfers = None
        new = [op for op in dict.fromkeys(ops) if op not in self.owned]
        self.sizes.watch(new, self)
        self.owned.update(dict.fromkeys(new))
        self.selection.add(new)
        return new

    def unload(self, ops: Iterable[int]) -> list[int]:
        """Stop operators at once, and return those that ran here."""
        self._memory = self._transfers = None
        gone = [op for op in dict.fromkeys(ops) if op in self.owned]
        for op in gone:
            del self.owned[op]
        self.selection.remove(gone)
        return gone

    def drop(self, transfer: Transfer) -> None:
        """Remove a granted transfer until the transfers of its operators are computed again (Listing 5, line 14)."""
        self._transfers = None
        self.selection.drop(transfer)

    # -- giving ---------------------------------------------------------------------------------

    def promise(self, key: Key, transfers: Iterable[Transfer], now: float, *, offered: bool) -> None:
        """Lock operators for a neighbour."""
        self._transfers = None
        self.giving[key] = Parcel(Giver.PROMISED, tuple(transfers), now, offered)
        self.locked.update(dict.fromkeys(self.giving[key].ops, key))

    def on_giver(self, key: Key, event: Event, now: float, kept: Iterable[Transfer] = ()) -> Action | None:
        """Apply an event to an outgoing transfer and return the action; when accepted, only ``kept`` is shipped."""
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
        """Deploy the agreed transfers: they count from now on, and run once they are shipped."""
        self._memory = self._transfers = None
        self.taking[key] = Parcel(Taker.EXPECTING, tuple(transfers), now, offered)
        self.sizes.watch(self.taking[key].ops, self)
        self.selection.add(self.taking[key].ops)

    def on_taker(self, key: Key, event: Event, now: float, ops: Iterable[int] = ()) -> Action | None:
        """Apply an event to an incoming transfer and return the action; ``ops`` are the shipped operators."""
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

    # -- saved state ----------------------------------------------------------------------------

    def durable(self) -> dict[str, Any]:
        """Return the state that must be saved before any message is sent."""
        return {
            "owned": tuple(self.owned),
            "shipped": {k: (p.transfers, p.offered) for k, p in self.giving.items() if p.state is Giver.SHIPPED},
            "expected": {k: (p.transfers, p.offered) for k, p in self.taking.items()},
            "done": tuple(self.done),
        }

    def restore(self, saved: Mapping[str, Any], now: float) -> None:
        """Restore the saved state after a restart.

        Promises are not saved. A neighbour that accepts one later gets the answer that it is withdrawn.
        """
        self.load(saved["owned"])
        for key, (transfers, offered) in saved["shipped"].items():
            self.giving[key] = Parcel(Giver.SHIPPED, transfers, now, offered)
            self.sizes.watch(self.giving[key].ops, self)
        for key, (transfers, offered) in saved["expected"].items():
            self.expect(key, transfers, now, offered=offered)
        self.done = dict.fromkeys(saved["done"])
