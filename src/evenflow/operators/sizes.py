"""How much memory every operator takes, as measured now; sums over it are formed anew only when something changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Holder(Protocol):
    """Who counts operators."""

    def resized(self) -> None:
        """Form sums anew."""
        ...


class Sizes(dict[int, float]):
    """Operator to memory, in per cent of a unit's memory.

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
        """Tell someone from now on when one of these operators changes; who has let one go is told needlessly."""
        for op in ops:
            holders = self._holders.setdefault(op, [])
            if holder not in holders:
                holders.append(holder)

    def __setitem__(self, op: int, size: float) -> None:
        super().__setitem__(op, size)
        for holder in self._holders.get(op, ()):
            holder.resized()
