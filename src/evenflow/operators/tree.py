"""The tree of metering units: readings enter at the leaves and flow toward the root, never sideways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Tree:
    """The hierarchical network of section 2.2.1.

    Parameters
    ----------
    parent
        The parent of every unit; ``None`` for the root.

    Examples
    --------
    >>> tree = Tree({"city": None, "north": "city", "south": "city"})
    >>> tree.root, tree.children["city"], tree.leaves["city"] == {"north", "south"}
    ('city', ('north', 'south'), True)
    """

    parent: Mapping[str, str | None]
    children: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)
    leaves: dict[str, frozenset[str]] = field(init=False, repr=False, compare=False)
    root: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        below: dict[str, list[str]] = {unit: [] for unit in self.parent}
        roots = []
        for unit, above in self.parent.items():
            if above is None:
                roots.append(unit)
            elif above not in below:
                raise ValueError(f"unit {unit!r} has the parent {above!r}, which is no unit")
            else:
                below[above].append(unit)
        if len(roots) != 1:
            raise ValueError(f"a tree has one root, this one has {len(roots)}")
        object.__setattr__(self, "root", roots[0])
        object.__setattr__(self, "children", {unit: tuple(found) for unit, found in below.items()})
        order = [roots[0]]
        for unit in order:
            order.extend(below[unit])
        if len(order) != len(self.parent):
            raise ValueError("some units are not reached from the root")
        leaves: dict[str, frozenset[str]] = {}
        for unit in reversed(order):
            under = below[unit]
            leaves[unit] = frozenset().union(*(leaves[c] for c in under)) if under else frozenset({unit})
        object.__setattr__(self, "leaves", leaves)

    @property
    def units(self) -> tuple[str, ...]:
        """All units, in the order in which they were given."""
        return tuple(self.parent)

    def neighbours(self, unit: str) -> tuple[str, ...]:
        """Return the parent, if there is one, and the children."""
        above = self.parent[unit]
        return self.children[unit] if above is None else (above, *self.children[unit])

    def path_up(self, unit: str) -> list[str]:
        """Return the units from this one to the root, both included."""
        path = [unit]
        while (above := self.parent[path[-1]]) is not None:
            path.append(above)
        return path

    def levels(self) -> list[tuple[str, ...]]:
        """Return the units by their distance from the root, the root first."""
        depth = {unit: len(self.path_up(unit)) - 1 for unit in self.parent}
        return [tuple(u for u in self.parent if depth[u] == d) for d in range(max(depth.values()) + 1)]


def balanced(levels: int, fanout: int = 2) -> Tree:
    """Return a perfect tree; four levels of two are the fifteen units of section 4.1.

    Examples
    --------
    >>> len(balanced(4).units), balanced(2, 3).leaves["unit-0"] == {"unit-1", "unit-2", "unit-3"}
    (15, True)
    """
    count = sum(fanout**level for level in range(levels))
    width = len(str(count - 1))
    names = [f"unit-{number:0{width}}" for number in range(count)]
    return Tree({names[n]: None if n == 0 else names[(n - 1) // fanout] for n in range(count)})


def from_parents(parents: Sequence[int | None]) -> Tree:
    """Return the tree for a list that holds the number of every unit's parent."""
    width = len(str(len(parents) - 1))
    names = [f"unit-{number:0{width}}" for number in range(len(parents))]
    return Tree({names[n]: None if above is None else names[above] for n, above in enumerate(parents)})
