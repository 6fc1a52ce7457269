"""The waiting queue of a worker: largest gain first, then first in, first out.

With coalescing, at most one trigger per row and type waits.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from evenflow.triggers.app import Key
from evenflow.triggers.estimate import WorkloadEstimator

WORTH_MORE = 1.25  # a gain must grow by more than this factor before the trigger moves forward
OUT_OF_DATE = 64  # the heap is rebuilt when its outdated entries exceed the number of gains by more than this


class Invocation(NamedTuple):
    """A trigger that was invoked for a row; if it is borrowed, with the home of the row and the lease number there."""

    trigger: str
    key: Key
    size: float = 0.0
    home: str = ""
    lease: int = 0

    @property
    def who(self) -> tuple[str, str, Key]:
        """The home of the row, the trigger and the key of the row."""
        return self.home, self.trigger, self.key


@dataclass(slots=True)
class Waiting:
    """Invocations in the order of arrival, with counts and sums of sizes per type, from which the load follows.

    Examples
    --------
    >>> queue = Waiting()
    >>> for key, gain in ((1, 0.0), (2, 3.0), (3, 2.0)):
    ...     _ = queue.add(Invocation("a", key), gain)
    >>> queue.raised(("", "a", 3), 5.0)
    >>> [queue.pop().key for _ in range(3)]
    [3, 2, 1]
    """

    coalesce: bool = True
    items: OrderedDict[int, Invocation] = field(default_factory=OrderedDict)
    present: dict[tuple[str, str, Key], int] = field(default_factory=dict)  # → the newest number
    sums: dict[str, list[float]] = field(default_factory=dict)  # type → how many, Σ sizes
    number: int = 0
    ranked: tuple[object, list[int]] | None = None  # cache of ``grouping``: estimates and sorted numbers
    gains: dict[int, float] = field(default_factory=dict)
    best: list[tuple[float, int]] = field(default_factory=list)  # a heap; outdated entries stay in it

    def __len__(self) -> int:
        return len(self.items)

    def add(self, invocation: Invocation, gain: float = 0.0) -> bool:
        """Append an invocation and return whether it is new; with coalescing, a waiting one may get a larger gain."""
        who = invocation.who
        if self.coalesce and not invocation.home and who in self.present:
            self.raised(who, gain)
            return False
        self.number += 1
        if self.coalesce:
            self.present[who] = self.number
        self.items[self.number] = invocation
        self.ranked = None
        self._count(invocation, 1)
        self._rank(self.number, gain)
        return True

    def raised(self, who: tuple[str, str, Key], gain: float) -> None:
        """Move a waiting trigger forward if its gain is clearly larger than before."""
        number = self.present.get(who)
        if number is not None and gain > WORTH_MORE * self.gains.get(number, 0.0):
            self._rank(number, gain)

    def _rank(self, number: int, gain: float) -> None:
        self.gains.pop(number, None)
        if not gain > 0:
            return
        self.gains[number] = gain
        heappush(self.best, (-gain, number))
        if len(self.best) > 2 * len(self.gains) + OUT_OF_DATE:
            self.best = [(-gain, number) for number, gain in self.gains.items()]
            heapify(self.best)

    def pop(self, gain_now: Callable[[Invocation], float] | None = None) -> Invocation:
        """Take the trigger with the largest gain, or the oldest if there are no gains.

        A trigger whose gain is clearly smaller now goes back to the place of its new gain.
        """
        while self.best:
            negative, number = heappop(self.best)
            if self.gains.get(number) != -negative:
                continue
            if gain_now is not None:
                gain = gain_now(self.items[number])
                if WORTH_MORE * gain < -negative:
                    self._rank(number, gain)
                    continue
            return self._gone(number, self.items.pop(number))
        return self._gone(*self.items.popitem(last=False))

    def take(self, numbers: Iterable[int]) -> list[Invocation]:
        """Remove these invocations from the queue and return them."""
        return [self._gone(number, self.items.pop(number)) for number in numbers]

    def in_order(self) -> Iterable[tuple[int, Invocation]]:
        """Return all invocations with their numbers, in the order in which they would run with the known gains."""
        if not self.gains:
            return self.items.items()
        return sorted(self.items.items(), key=lambda item: (-self.gains.get(item[0], 0.0), item[0]))

    def load(self, estimate: WorkloadEstimator) -> float:
        """Return the workload: the sum of the predicted times of all waiting triggers (*DLBer*, section 2.1)."""
        total = 0.0
        for trigger, (count, sizes) in self.sums.items():
            at_zero, slope = estimate.line(trigger)
            total += count * at_zero + sizes * slope
        return total

    def _gone(self, number: int, invocation: Invocation) -> Invocation:
        if self.present.get(invocation.who) == number:
            del self.present[invocation.who]
        self.gains.pop(number, None)
        self._count(invocation, -1)
        return invocation

    def _count(self, invocation: Invocation, sign: int) -> None:
        sums = self.sums.setdefault(invocation.trigger, [0, 0.0])
        sums[0] += sign
        sums[1] += sign * invocation.size
