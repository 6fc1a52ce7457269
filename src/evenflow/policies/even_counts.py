"""The algorithm of the DPSLB thesis, section 4.4: about the same number of units on every node."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from evenflow import guards
from evenflow.draft import Draft, RowMove
from evenflow.errors import BadInput

ROUNDINGS = ("nearest", "down", "up")


@dataclass(frozen=True, slots=True)
class EvenCounts:
    """Take from every node above the average number of units and give to the nodes below it.

    Parameters
    ----------
    rounding
        How the average is rounded: ``"nearest"`` (the thesis: 10/3 ≈ 3), ``"down"`` or ``"up"``.
    capped
        Whether a taker stops at the average.
        In the thesis it does not: with 5, 5 and a new node, the new node takes 2 and 2 and ends with 4.

    Examples
    --------
    >>> EvenCounts()
    EvenCounts(rounding='nearest', capped=False)
    """

    rounding: str = "nearest"
    capped: bool = False

    guards: ClassVar[tuple[guards.Guard, ...]] = guards.HARD

    def __post_init__(self) -> None:
        if self.rounding not in ROUNDINGS:
            raise BadInput(repr(self.rounding), "one of " + ", ".join(map(repr, ROUNDINGS)), "rounding")
        if not isinstance(self.capped, bool):
            raise BadInput(repr(self.capped), "true or false", "capped")

    def propose(self, draft: Draft) -> Iterator[RowMove]:
        """Offer the lowest unit ids of every giver to the first taker that still takes."""
        nodes = len(draft.snapshot.node_ids)
        if nodes < 2:
            return
        units = draft.units_by_node()
        movable = draft.movable(resting=True)
        counts = [len(rows) for rows in units]
        average = self._average(sum(counts), nodes)
        takers = [n for n in range(nodes) if counts[n] < average]
        for giver in [n for n in range(nodes) if counts[n] > average]:
            rows = units[giver]
            spare = by_id(draft, rows[movable[rows]].tolist())[: counts[giver] - average]
            while spare and takers:
                taker = takers[0]
                now = spare[: average - counts[taker]] if self.capped else spare
                for unit in now:
                    yield draft.move(unit, taker, f"even counts: the average is {average} units")
                counts[taker] += len(now)
                spare = spare[len(now) :]
                if counts[taker] >= average:
                    takers.pop(0)

    def _average(self, units: int, nodes: int) -> int:
        if self.rounding == "down":
            return units // nodes
        if self.rounding == "up":
            return math.ceil(units / nodes)
        return (2 * units + nodes) // (2 * nodes)


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
