"""Which slices a node receives: a filter cannot be changed, so a second reader overlaps the first (section 3.5)."""

from __future__ import annotations

from typing import NamedTuple


class Listen(NamedTuple):
    """Tell the transport which slices this node's readers accept from now on; ``None`` means all."""

    slices: frozenset[int] | None


class Reader(NamedTuple):
    """One reader with its unchangeable filter; it closes at ``until``."""

    slices: frozenset[int]
    until: float = float("inf")


class Readers:
    """The readers of one node: one, or two while the filter changes.

    An item that both readers accept arrives twice; the node removes the copy by its id.
    """

    __slots__ = ("_live", "overlap")

    def __init__(self, overlap: float) -> None:
        self.overlap = overlap
        self._live: list[Reader] = [Reader(frozenset())]

    @property
    def slices(self) -> frozenset[int]:
        """The newest filter."""
        return self._live[-1].slices

    def change(self, slices: frozenset[int], now: float) -> float | None:
        """Open a reader with a new filter; return when the older ones close, or ``None`` if nothing changes."""
        if slices == self.slices:
            return None
        closing = now + self.overlap
        self._live = [Reader(r.slices, min(r.until, closing)) for r in self._live if r.until > now]
        self._live.append(Reader(slices))
        return closing

    def copies(self, slice_id: int, now: float) -> int:
        """Return how many readers receive an item of this slice."""
        return sum(slice_id in r.slices for r in self._live if r.until > now)

    def accepted(self, now: float) -> frozenset[int]:
        """Close what is due and return everything that some reader still accepts."""
        self._live = [r for r in self._live if r.until > now]
        return frozenset().union(*(r.slices for r in self._live))
