"""The algorithm of the DPSLB thesis, section 4.4: about the same number of units on every node."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from evenflow import guards
from evenflow.draft import Draft, RowMove


@dataclass(frozen=True, slots=True)
class EvenCounts:
    """Take from every node above the average number of units and give to the nodes below it.

    No giver goes below the average rounded down and no taker goes above the average rounded up,
    so that in the end no two nodes differ by more than one unit, unless a guard refuses a move.

    Examples
    --------
    >>> from evenflow.model import Node, Snapshot, Unit
    >>> from evenflow.planner import plan
    >>> units = [Unit(str(i), "a", 1.0) for i in range(12)]
    >>> moves = plan(Snapshot.of([Node("a"), Node("b"), Node("c")], units), EvenCounts()).moves
    >>> [move.taker for move in moves]
    ['b', 'b', 'b', 'b', 'c', 'c', 'c', 'c']
    """

    guards: ClassVar[tuple[guards.Guard, ...]] = guards.HARD

    def propose(self, draft: Draft) -> Iterator[RowMove]:
        """Offer the lowest unit ids of every giver to the first taker that has room.

        Section 4.4: "gets the first Slice-taking PN and Slice-giving PN and checks how many Slices can be moved to
        the Slice-taker"; then "the Slice-giving/taking PN that has no more Slice to be moved/received is removed".
        """
        units = draft.units_by_node()
        movable = draft.movable(resting=True)
        counts = [len(rows) for rows in units]
        goals = even_goals(counts)
        why = f"even counts: the average is {sum(counts) / max(1, len(counts)):.4g} units"
        takers = [n for n, goal in enumerate(goals) if counts[n] < goal]
        for giver in [n for n, goal in enumerate(goals) if counts[n] > goal]:
            spare = deque(by_id(draft, units[giver][movable[units[giver]]].tolist()))
            for taker in takers:
                refused = []  # what a guard keeps from this taker may go to another one, and others go in its place
                while spare and counts[giver] > goals[giver] and counts[taker] < goals[taker]:
                    unit = spare.popleft()
                    yield draft.move(unit, taker, why)
                    if draft.owner[unit] == taker:
                        counts[giver] -= 1
                        counts[taker] += 1
                    else:
                        refused.append(unit)
                spare.extendleft(reversed(refused))
            takers = [n for n in takers if counts[n] < goals[n]]


def even_goals(counts: Sequence[int]) -> list[int]:
    """Return how many units each node should end with: the average rounded down, and for some nodes one more.

    The thesis rounds the average to the nearest whole number (section 4.4: "10 / 3 ≈ 3") and givers go down to that.
    So below a half the units left over go to takers first, as in its example, where 5, 5 and 0 become 3, 3 and 4;
    from a half on they stay with givers first, which saves moves.

    Examples
    --------
    >>> even_goals([5, 5, 0]), even_goals([8, 0, 0])
    ([3, 3, 4], [3, 3, 2])
    """
    if not counts:
        return []
    least, over = divmod(sum(counts), len(counts))
    givers = [n for n, count in enumerate(counts) if count > least]
    takers = [n for n, count in enumerate(counts) if count < least]
    middle = [n for n, count in enumerate(counts) if count == least]
    first = [*takers, *givers, *middle] if 2 * over < len(counts) else [*givers, *takers, *middle]
    goals = [least] * len(counts)
    for node in first[:over]:
        goals[node] += 1
    return goals


def by_id(draft: Draft, units: list[int]) -> list[int]:
    """Return unit rows, lowest id first; digits in an id count as numbers."""
    ids = draft.snapshot.unit_ids
    return sorted(units, key=lambda u: _natural(ids[u]))


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key; numbers compare by length, then digit by digit, so they may be of any length."""
    parts = re.split(r"([0-9]+)", name)
    numbers = [part.lstrip("0") for part in parts[1::2]]
    keys = [(1, 0, part) for part in parts]
    keys[1::2] = [(0, len(number), number) for number in numbers]
    return [key for key, part in zip(keys, parts, strict=True) if part]
