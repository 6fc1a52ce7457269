"""How much memory every operator takes, as measured now; sums over it are formed anew only when something changed."""

from __future__ import annotations


class Sizes(dict[int, float]):
    """Operator to memory, in per cent of a unit's memory.

    Examples
    --------
    >>> sizes = Sizes({1: 2.0})
    >>> sizes[1] = 5.0
    >>> sizes[1], sizes.version
    (5.0, 1)
    """

    version = 0

    def __setitem__(self, op: int, size: float) -> None:
        super().__setitem__(op, size)
        self.version += 1
