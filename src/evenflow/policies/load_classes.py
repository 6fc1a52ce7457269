"""The policy ``load_classes``: nodes are overloaded, normal or underloaded (DPSLB thesis, section 3.3)."""

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
    """Move units from overloaded to underloaded nodes until both are normal.

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
                if draft.level(taker, plus=unit) / mean > self.overloaded:  # the taker would become overloaded in turn
                    continue
                yield draft.move(unit, taker, "load classes: from overloaded to underloaded")
                level[giver], level[taker] = draft.level(giver) / mean, draft.level(taker) / mean
