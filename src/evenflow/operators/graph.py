"""The graph of query operators: what feeds each operator, what it feeds, and where it may run.

An operator may run on any unit that all its readings pass, but never above the operator that it feeds (section 2.2.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from evenflow.operators.tree import Tree


class Operator(NamedTuple):
    """An operator as in Table 1, without its memory, which is measured, and its unit, which changes.

    ``leaves`` are the units at which its readings enter, directly or through other operators.
    """

    id: int
    down: int | None = None
    ups: tuple[int, ...] = ()
    leaves: frozenset[str] = frozenset()
    name: str = ""


@dataclass(frozen=True)
class Graph:
    """The operators of all queries: a directed acyclic graph in which each operator feeds at most one other.

    Examples
    --------
    >>> graph = Graph.of({1: 2, 2: None}, {1: ["north"], 2: ["south"]})
    >>> graph[2].ups, sorted(graph[2].leaves)
    ((1,), ['north', 'south'])
    """

    operators: Mapping[int, Operator] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        downs: Mapping[int, int | None],
        meters: Mapping[int, Iterable[str]],
        names: Mapping[int, str] | None = None,
    ) -> Graph:
        """Build the graph from the operator that each one feeds, and the leaves whose meters feed it directly.

        Raises
        ------
        ValueError
            When an operator feeds one that does not exist, the graph has a cycle, or nothing feeds an operator.
        """
        ups: dict[int, list[int]] = {op: [] for op in downs}
        for op, down in downs.items():
            if down is not None:
                if down not in ups:
                    raise ValueError(f"operator {op} feeds {down}, which does not exist")
                ups[down].append(op)
        leaves: dict[int, frozenset[str]] = {}
        waiting = {op: len(above) for op, above in ups.items()}
        ready = [op for op, count in waiting.items() if count == 0]
        for op in ready:
            leaves[op] = frozenset(meters.get(op, ())).union(*(leaves[u] for u in ups[op]))
            if not leaves[op]:
                raise ValueError(f"operator {op} is fed by no meter and no operator")
            down = downs[op]
            if down is not None:
                waiting[down] -= 1
                if waiting[down] == 0:
                    ready.append(down)
        if len(ready) != len(downs):
            raise ValueError("operators feed each other in a circle")
        names = names or {}
        return cls({op: Operator(op, downs[op], tuple(ups[op]), leaves[op], names.get(op, "")) for op in downs})

    def __getitem__(self, op: int) -> Operator:
        return self.operators[op]

    def __len__(self) -> int:
        return len(self.operators)

    def why_not(self, op: int, where: Mapping[int, str], tree: Tree) -> str | None:
        """Return what is wrong with an operator's place, or ``None``.

        Examples
        --------
        >>> tree = Tree({"city": None, "north": "city", "south": "city"})
        >>> graph = Graph.of({1: 2, 2: None}, {1: ["north"]})
        >>> graph.why_not(1, {1: "south", 2: "city"}, tree)
        'readings of north do not pass south'
        >>> graph.why_not(1, {1: "city", 2: "north"}, tree)
        'it runs on city, above the operator 2 that it feeds'
        """
        operator, unit = self.operators[op], where[op]
        for leaf in sorted(operator.leaves - tree.leaves[unit]):
            return f"readings of {leaf} do not pass {unit}"
        down = operator.down
        if down is not None and where[down] not in tree.path_up(unit):
            return f"it runs on {unit}, above the operator {down} that it feeds"
        return None

    def misplaced(self, where: Mapping[int, str], tree: Tree) -> dict[int, str]:
        """Return every operator that runs on a forbidden unit, with the reason."""
        found = ((op, self.why_not(op, where, tree)) for op in self.operators)
        return {op: why for op, why in found if why is not None}
