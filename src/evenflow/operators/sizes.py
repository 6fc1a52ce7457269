"""The current memory of every operator; holders are notified of changes, so they recompute sums only then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Holder(Protocol):
    """An object that keeps sums of operator sizes."""

    def resized(self) -> None:
        """Drop the cached sums."""
        ...


class Sizes(dict[int, float]):
    """The memory of each operator, in per cent of a unit's memory.

    Examples
    --------
    >>> sizes = Sizes({1: 2.0})
    >>> sizes[1] = 5.0
    >>> sizes[1]
    5.0
    """

    def __init__(self, sizes: Iterable[tuple[int, float]] | dict[int, float] = ()) -> None:
        super().__init__(sizes)
        self._holders: dict[int, list[Holder]] = {}

    def watch(self, ops: Iterable[int], holder: Holder) -> None:
        """Notify a holder when one of these operators changes, needlessly also after it no longer holds the operator."""
        for op in ops:
            holders = self._holders.setdefault(op, [])
            if holder not in holders:
                holders.append(holder)

    def __setitem__(self, op: int, size: float) -> None:
        super().__setitem__(op, size)
        for holder in self._holders.get(op, ()):
            holder.resized()
