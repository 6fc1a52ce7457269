"""The waiting queue of a worker: first come, first run; with coalescing at most one waiting trigger per row and type."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from evenflow.triggers.app import Key
from evenflow.triggers.estimate import WorkloadEstimator


class Invocation(NamedTuple):
    """A trigger that was invoked for a row; one that is borrowed names the home of the row and its lease there."""

    trigger: str
    key: Key
    size: float = 0.0
    home: str = ""
    lease: int = 0


@dataclass(slots=True)
class Waiting:
    """Invocations in the order in which they came, with what their load depends on kept per type."""

    coalesce: bool = True
    items: OrderedDict[int, Invocation] = field(default_factory=OrderedDict)
    present: set[tuple[str, Key]] = field(default_factory=set)
    sums: dict[str, list[float]] = field(default_factory=dict)  # type → how many, Σ sizes
    number: int = 0
    ranked: tuple[object, list[int]] | None = None  # how and in which order groups are taken; see ``grouping``

    def __len__(self) -> int:
        return len(self.items)

    def add(self, invocation: Invocation) -> bool:
        """Append one; with coalescing one that waits already says it all."""
        if self.coalesce and not invocation.home:
            who = (invocation.trigger, invocation.key)
            if who in self.present:
                return False
            self.present.add(who)
        self.number += 1
        self.items[self.number] = invocation
        self.ranked = None
        self._count(invocation, 1)
        return True

    def pop(self) -> Invocation:
        """Take the oldest."""
        _, invocation = self.items.popitem(last=False)
        self._gone(invocation)
        return invocation

    def take(self, numbers: Iterable[int]) -> list[Invocation]:
        """Take these out of the queue."""
        found = [self.items.pop(number) for number in numbers]
        for invocation in found:
            self._gone(invocation)
        return found

    def load(self, estimate: WorkloadEstimator) -> float:
        """Return the workload: the sum of the predicted times of all that waits (*DLBer*, section 2.1)."""
        total = 0.0
        for trigger, (count, sizes) in self.sums.items():
            at_zero, slope = estimate.line(trigger)
            total += count * at_zero + sizes * slope
        return total

    def _gone(self, invocation: Invocation) -> None:
        if self.coalesce and not invocation.home:
            self.present.discard((invocation.trigger, invocation.key))
        self._count(invocation, -1)

    def _count(self, invocation: Invocation, sign: int) -> None:
        sums = self.sums.setdefault(invocation.trigger, [0, 0.0])
        sums[0] += sign
        sums[1] += sign * invocation.size
