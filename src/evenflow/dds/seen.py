"""The ids that a reader has seen lately, to tell copies from items."""

from __future__ import annotations

from collections import OrderedDict

REMEMBERED = 100_000  # two readers overlap, and a publisher writes again, for far fewer items


class Seen:
    """The last ids.

    Examples
    --------
    >>> seen = Seen()
    >>> seen.add(7), seen.add(7), seen.add(8)
    (True, False, True)
    """

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._ids: OrderedDict[int, None] = OrderedDict()

    def add(self, item: int) -> bool:
        """Remember an id; say whether it is new."""
        if item in self._ids:
            return False
        self._ids[item] = None
        if len(self._ids) > self._most:
            self._ids.popitem(last=False)
        return True
