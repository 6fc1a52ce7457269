"""Overloaded, normal, underloaded: the classes of the DPSLB thesis, section 3.3, by measured load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenflow import guards
from evenflow.draft import Draft, RowMove
from evenflow.errors import BadInput


@dataclass(frozen=True, slots=True)
class LoadClasses:
    """Take from overloaded nodes until they are normal, give to underloaded ones until they are normal.

    Parameters
    ----------
    overloaded, underloaded
        A node is overloaded above the first and underloaded below the second, as multiples of the mean.
    """

    overloaded: float = 1.2
    underloaded: float = 0.8

    guards: ClassVar[tuple[guards.Guard, ...]] = guards.HARD

    def __post_init__(self) -> None:
        if not 0 <= self.underloaded <= self.overloaded:
            raise BadInput(
                f"underloaded {self.underloaded} and overloaded {self.overloaded}",
                "0 <= underloaded <= overloaded",
                "load_classes",
            )

    def propose(self, draft: Draft) -> Iterator[RowMove]:
        """Offer the heaviest units of the most overloaded node first, to the least loaded node."""
        capacity, mean = draft.snapshot.capacity, draft.mean
        if mean <= 0:
            return
        level = draft.utilisation / mean
        units = draft.units_by_node()
        movable = draft.movable(resting=True)
        for giver in np.argsort(-level, kind="stable")[: int((level > self.overloaded).sum())].tolist():
            rows = units[giver][movable[units[giver]]]
            weight = (draft.snapshot.load[rows] / capacity[giver]).max(axis=1)
            for unit in rows[np.argsort(-weight, kind="stable")].tolist():
                if level[giver] <= self.overloaded:
                    break
                taker = int(level.argmin())
                if level[taker] >= self.underloaded:
                    return
                if draft.level(taker, plus=unit) / mean > self.overloaded:  # it would only change places with the giver
                    continue
                yield draft.move(unit, taker, "load classes: from overloaded to underloaded")
                level[giver], level[taker] = draft.level(giver) / mean, draft.level(taker) / mean
