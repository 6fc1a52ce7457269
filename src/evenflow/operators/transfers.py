"""Available transfers: which operators of a unit may go to which neighbour, and which must go together (Listings 1, 2).

An operator that moves up takes along the operators on its unit that it feeds.
An operator that moves down takes along the operators on its unit that feed it.
Readings cannot be rerouted, so an operator can move down only to the child through which all its readings come.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Literal, NamedTuple

from evenflow.operators.graph import Graph
from evenflow.operators.tree import Tree

Walk = Literal["printed", "meant"]
Direction = Literal["up", "down"]


class Transfer(NamedTuple):
    """Operators that move together, and the unit they go to; ``size`` is their memory at the last measurement."""

    ops: tuple[int, ...]
    to: str
    size: float = 0.0

    def overlaps(self, other: Transfer) -> bool:
        """Return whether both transfers share an operator."""
        return any(op in other.ops for op in self.ops)


class Selection:
    """The operator selection algorithm of one unit, kept up to date as operators come and go.

    Parameters
    ----------
    graph, tree, unit
        The operator graph, the tree, and the name of this unit.
    walk
        ``meant`` walks along the operators of the unit, starting at the operator itself.
        ``printed`` starts one operator further, as Listing 1 calls it, and so leaves out the next one. It cannot move
        an operator down if it has several inputs or is fed by meters.

    Examples
    --------
    >>> tree = Tree({"top": None, "mid": "top", "leaf": "mid"})
    >>> graph = Graph.of({1: 2, 2: None}, {1: ["leaf"]})
    >>> selection = Selection(graph, tree, "mid")
    >>> selection.add([1, 2])
    >>> [(t.ops, t.to) for t in selection]
    [((1, 2), 'top'), ((1,), 'leaf'), ((2,), 'top'), ((2, 1), 'leaf')]
    """

    def __init__(self, graph: Graph, tree: Tree, unit: str, walk: Walk = "meant") -> None:
        self.graph = graph
        self.unit = unit
        self.parent = tree.parent[unit]
        self.walk = walk
        self.present: dict[int, None] = {}  # in the order of arrival
        self.computed = 0  # how often an operator's transfers were computed
        self._tree = tree
        self._children = tree.children[unit]
        self._transfers: dict[int, list[Transfer]] = {}
        self._feeders: dict[int, str | None] = {}
        self._by_taker: dict[str, list[Transfer]] | None = None
        self.measured = False  # whether the caller has written measured sizes into those lists

    def __iter__(self) -> Iterator[Transfer]:
        for op in self.present:
            yield from self._transfers[op]

    def of(self, op: int) -> list[Transfer]:
        """Return the transfers that start with one operator."""
        return self._transfers.get(op, [])

    def by_taker(self) -> dict[str, list[Transfer]]:
        """Return the transfers by the unit they go to; the caller may write measured sizes into these lists."""
        if self._by_taker is None:
            found: dict[str, list[Transfer]] = {}
            for transfer in self:
                found.setdefault(transfer.to, []).append(transfer)
            self._by_taker = found
            self.measured = False
        return self._by_taker

    def movable(self, to: str) -> list[int]:
        """Return every operator that could go to a neighbour, alone or with others."""
        if to == self.parent:
            return list(self.present)
        return [op for op in self.present if self._feeders.get(op) == to]

    # -- operators come and go ------------------------------------------------------------------

    def add(self, ops: Iterable[int]) -> None:
        """Add operators; recompute only the transfers of operators connected with them."""
        self._by_taker = None
        new = [op for op in ops if op not in self.present]
        self.present.update(dict.fromkeys(new))
        self._renew(new)

    def remove(self, ops: Iterable[int]) -> None:
        """Remove operators; recompute only the transfers of operators connected with them."""
        self._by_taker = None
        gone = [op for op in ops if op in self.present]
        touched = self._connected(gone)
        for op in gone:
            del self.present[op]
            del self._transfers[op]
        for op in touched:
            if op in self.present:
                self._transfers[op] = self._work_out(op)

    def drop(self, transfer: Transfer) -> None:
        """Remove one transfer until the transfers of its operators are computed again (Listing 5, line 14)."""
        self._by_taker = None
        found = self._transfers.get(transfer.ops[0], [])
        self._transfers[transfer.ops[0]] = [t for t in found if (t.ops, t.to) != (transfer.ops, transfer.to)]

    def holds(self, transfer: Transfer) -> bool:
        """Return whether this transfer is still available."""
        return any((t.ops, t.to) == (transfer.ops, transfer.to) for t in self.of(transfer.ops[0]))

    def _renew(self, ops: list[int]) -> None:
        for op in self._connected(ops):
            self._transfers[op] = self._work_out(op)

    def _connected(self, ops: Iterable[int]) -> dict[int, None]:
        """Return the operators of this unit connected with these; all of them for the printed walk, which skips one."""
        if self.walk == "printed":
            return dict(self.present)
        found = {op: None for op in ops if op in self.present}
        queue = list(found)
        for op in queue:
            operator = self.graph[op]
            beside = (*operator.ups, operator.down) if operator.down is not None else operator.ups
            for other in beside:
                if other in self.present and other not in found:
                    found[other] = None
                    queue.append(other)
        return found

    # -- Listings 1 and 2 -----------------------------------------------------------------------

    def _work_out(self, op: int) -> list[Transfer]:
        self.computed += 1
        found = []
        if self.parent is not None:
            found.append(Transfer(tuple(self._along_down(op)), self.parent))
        feeder = self.feeder(op)
        if feeder is not None and (self.walk == "meant" or self._all_single_upstream(op)):
            found.append(Transfer(tuple(self._along_up(op)), feeder))
        return found

    def feeder(self, op: int) -> str | None:
        """Return the child through which all readings of an operator come, or ``None`` if there is no such child."""
        if op not in self._feeders:
            leaves = self.graph[op].leaves
            through = (child for child in self._children if leaves <= self._tree.leaves[child])
            self._feeders[op] = next(through, None)
        return self._feeders[op]

    def _along_down(self, op: int) -> list[int]:
        return _walked(op, self._next_down, self.present, skip=self.walk == "printed")

    def _next_down(self, op: int) -> tuple[int, ...]:
        down = self.graph[op].down
        return () if down is None else (down,)

    def _along_up(self, op: int) -> list[int]:
        return _walked(op, lambda o: self.graph[o].ups, self.present, skip=self.walk == "printed")

    def _all_single_upstream(self, op: int) -> bool:
        """Follow Listing 2, lines 7 to 17; an operator that is fed by meters has no upstream operator to check."""
        ups = self.graph[op].ups
        if len(ups) != 1:
            return False
        return ups[0] not in self.present or len(self.graph[ups[0]].ups) == 0 or self._all_single_upstream(ups[0])


def _walked(op: int, after: Callable[[int], Collection[int]], present: Collection[int], *, skip: bool) -> list[int]:
    """Return an operator and the operators on the unit that ``after`` leads to, nearest first."""
    found = [op]
    queue = [start for first in after(op) for start in after(first)] if skip else list(after(op))
    for other in queue:
        if other in present and other not in found:
            found.append(other)
            queue.extend(after(other))
    return found
