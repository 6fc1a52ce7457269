"""Continuous queries over meter readings: filters, maps, unions, windows, joins and sorts of ``ts, key, value`` rows.

All values are integers, and a mean is truncated, so results do not depend on the order of summing.
Windows tumble: a window of six hours starts at every sixth hour (Figure 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from evenflow.operators.graph import Graph
from evenflow.operators.tree import Tree

Kind = Literal["filter", "map", "union", "aggregate", "join", "sort"]
Measure = Literal["sum", "mean", "min", "max", "count"]
Test = Literal["<", "<=", ">", ">=", "==", "!="]
STATEFUL = frozenset({"aggregate", "join", "sort"})


@dataclass(frozen=True)
class Meters:
    """A source of readings: the meters of one leaf from number ``first`` to ``last``."""

    leaf: str
    first: int
    last: int


@dataclass(frozen=True)
class Spec:
    """One operator: what it does, and its inputs, each the number of an operator or a range of meters."""

    id: int
    name: str
    kind: Kind
    inputs: tuple[int | Meters, ...]
    window_s: int = 0
    measure: Measure = "sum"
    test: Test = ">"
    value: int = 0
    factor: int = 1
    key: int | None = None
    limit: int = 0

    @property
    def stateful(self) -> bool:
        """Whether it keeps tuples of open windows (section 2.1.2)."""
        return self.kind in STATEFUL


@dataclass
class Queries:
    """A builder of queries, one operator at a time.

    Examples
    --------
    Who used more than 40 kWh in six hours (Figure 5):

    >>> queries = Queries()
    >>> heavy = queries.meters("north", 0, 99).aggregate("sum", 6 * 3600).filter(">", 40_000)
    >>> [(spec.kind, spec.inputs) for spec in queries.specs]
    [('aggregate', (Meters(leaf='north', first=0, last=99),)), ('filter', (0,))]
    """

    specs: list[Spec] = field(default_factory=list)
    fed: set[int] = field(default_factory=set)

    def meters(self, leaf: str, first: int = 0, last: int = 2**62) -> Stream:
        """Return the readings of a leaf's meters from ``first`` to ``last``."""
        return Stream(self, Meters(leaf, first, last))

    def add(self, kind: Kind, inputs: Sequence[Stream], name: str, **options: Any) -> Stream:
        """Add one operator and return its output."""
        number = len(self.specs)
        for stream in inputs:
            if isinstance(stream.end, int):
                if stream.end in self.fed:
                    raise ValueError(f"operator {stream.end} feeds another one already")
                self.fed.add(stream.end)
        ends = tuple(stream.end for stream in inputs)
        self.specs.append(Spec(number, name or f"{kind}-{number}", kind, ends, **options))
        return Stream(self, number)

    def graph(self) -> Graph:
        """Return the graph of all operators."""
        downs: dict[int, int | None] = {spec.id: None for spec in self.specs}
        meters: dict[int, list[str]] = {}
        for spec in self.specs:
            for end in spec.inputs:
                if isinstance(end, Meters):
                    meters.setdefault(spec.id, []).append(end.leaf)
                else:
                    downs[end] = spec.id
        return Graph.of(downs, meters, {spec.id: spec.name for spec in self.specs})

    def lowest(self, tree: Tree) -> dict[int, str]:
        """Return the unit nearest to its meters for every operator."""
        graph, found = self.graph(), {}
        for op, operator in graph.operators.items():
            path = tree.path_up(min(operator.leaves))
            found[op] = next(unit for unit in path if operator.leaves <= tree.leaves[unit])
        return found


@dataclass(frozen=True)
class Stream:
    """The output of an operator, or readings; each method adds an operator and returns its output."""

    queries: Queries
    end: int | Meters

    def filter(self, test: Test, value: int, name: str = "") -> Stream:
        """Keep rows whose value passes a test."""
        return self.queries.add("filter", [self], name, test=test, value=value)

    def map(self, factor: int = 1, key: int | None = None, name: str = "") -> Stream:
        """Multiply the value by ``factor``, and set the key of all rows if ``key`` is given."""
        return self.queries.add("map", [self], name, factor=factor, key=key)

    def union(self, *others: Stream, name: str = "") -> Stream:
        """Merge the rows of several streams into one stream."""
        return self.queries.add("union", [self, *others], name)

    def aggregate(self, measure: Measure, window_s: int, name: str = "") -> Stream:
        """Aggregate the rows of each key and window; the result has the start of the window as its time."""
        return self.queries.add("aggregate", [self], name, measure=measure, window_s=window_s)

    def join(self, other: Stream, window_s: int, name: str = "") -> Stream:
        """Join rows of both streams with the same key and window; the value is the difference."""
        return self.queries.add("join", [self, other], name, window_s=window_s)

    def sort(self, window_s: int, limit: int, name: str = "") -> Stream:
        """Keep the ``limit`` highest values of each window; rows with equal values are ordered by key and time."""
        return self.queries.add("sort", [self], name, window_s=window_s, limit=limit)
