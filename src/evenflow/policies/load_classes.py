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
        snapshot = draft.snapshot
        mean = draft.mean
        if mean <= 0:
            return
        level = draft.utilisation / mean
        movable = draft.movable()
        for giver in np.argsort(-level, kind="stable")[: int((level > self.overloaded).sum())].tolist():
            units = draft.units_of(giver)
            units = units[movable[units]]
            weight = (snapshot.load[units] / snapshot.capacity[giver]).max(axis=1)
            for unit in units[np.argsort(-weight, kind="stable")].tolist():
                level = draft.utilisation / mean
                if level[giver] <= self.overloaded:
                    break
                taker = int(level.argmin())
                if level[taker] >= self.underloaded:
                    return
                becomes = (draft.load[taker] + snapshot.load[unit]) / snapshot.capacity[taker]
                if becomes.max() / mean <= self.overloaded:  # an underloaded node must not become overloaded
                    yield draft.move(unit, taker, "load classes: from overloaded to underloaded")
