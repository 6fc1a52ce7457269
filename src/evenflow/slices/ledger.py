"""Which items of a slice were processed: the memory that makes "exactly once" true across moves and crashes.

It travels with the slice's state.
A publisher says with every item up to which number all its items are settled (committed and acknowledged);
below that mark nothing needs to be remembered, so the ledger stays as small as what is in doubt.
"""

from __future__ import annotations

from collections.abc import Iterable

ID_BITS = 40  # an item's id is its publisher's number, then the item's number at that publisher
_MASK = (1 << ID_BITS) - 1


def item_id(publisher: int, number: int) -> int:
    """Return the numeric id that DPSLB requires of every item (thesis, section 3.3)."""
    return (publisher << ID_BITS) | number


def publisher_of(item: int) -> int:
    """Return the publisher's number in an item's id."""
    return item >> ID_BITS


def number_of(item: int) -> int:
    """Return the item's number at its publisher."""
    return item & _MASK


class Ledger:
    """The processed items of one slice.

    Examples
    --------
    >>> ledger = Ledger()
    >>> ledger.add(item_id(3, 7))
    >>> item_id(3, 7) in ledger, item_id(3, 8) in ledger
    (True, False)
    >>> ledger.settle(3, 8)  # publisher 3 has all of 0…7 acknowledged
    >>> item_id(3, 5) in ledger
    True
    """

    __slots__ = ("_done", "_marks")

    def __init__(self, marks: dict[int, int] | None = None, done: Iterable[int] = ()) -> None:
        self._marks: dict[int, int] = dict(marks or {})
        self._done: set[int] = set(done)

    @property
    def marks(self) -> dict[int, int]:
        """Return a copy of the marks by publisher, for who writes the ledger down."""
        return dict(self._marks)

    @property
    def done(self) -> set[int]:
        """Return a copy of the items above the marks, for who writes the ledger down."""
        return set(self._done)

    def __contains__(self, item: int) -> bool:
        return item in self._done or (item & _MASK) < self._marks.get(item >> ID_BITS, 0)

    def __len__(self) -> int:
        return len(self._done)

    def add(self, item: int) -> None:
        """Remember an item as processed."""
        self._done.add(item)

    def settle(self, publisher: int, mark: int) -> None:
        """Forget the items below the mark one by one: below it everything is processed."""
        if mark > self._marks.get(publisher, 0):
            self._marks[publisher] = mark
            if self._done:
                low, high = item_id(publisher, 0), item_id(publisher, mark)
                self._done -= {item for item in self._done if low <= item < high}

    def copy(self) -> Ledger:
        """Return an equal ledger that shares nothing."""
        return Ledger(self._marks, self._done)

    def merge(self, other: Ledger) -> None:
        """Learn everything another ledger knows."""
        self._done |= other._done
        for publisher, mark in other._marks.items():
            self.settle(publisher, mark)
