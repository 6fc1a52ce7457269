"""The readers of one node: a filter cannot be changed, so a second reader overlaps the first (section 3.5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from evenflow.dds.bus import Bus
from evenflow.dds.slice_filter import SliceFilter
from evenflow.dds.wire.columns import schema_of
from evenflow.dds.wire.idl import item_type
from evenflow.dds.wire.incoming import sample_of
from evenflow.dds.wire.values import to_item
from evenflow.slices.messages import Item


class _Open(NamedTuple):
    topic: str
    kind: type
    reader: Any
    filter: Any
    balanced: bool


class SliceReaders:
    """Opens and closes readers as the node's ``Listen`` commands say.

    Parameters
    ----------
    kinds
        The dataclass of each topic's values, and whether the topic is balanced.
    slices
        How many slices there are.
    overlap_s
        How long an old reader stays beside the new one, so that the writers find the new one meanwhile.

    Raises
    ------
    BadInput
        When a type has a field that cannot become plain data.
    """

    def __init__(self, bus: Bus, kinds: Mapping[str, tuple[type, bool]], slices: int, overlap_s: float) -> None:
        self._bus = bus
        self._kinds = kinds
        self._count = slices
        self._overlap = overlap_s
        self._accepted: object = ()
        self._live: list[_Open] = []
        self._closing: list[tuple[float, _Open]] = []
        self._counts = [0, 0]  # of closed filters
        self.changed_at = 0.0
        for name, (kind, balanced) in kinds.items():
            schema_of(item_type(kind))
            if not balanced:
                self._live.append(self._opened(name, kind, None, balanced=False))

    def listen(self, slices: frozenset[int] | None, now: float) -> None:
        """Accept these slices from now on, all if ``None``; the old readers close after the overlap."""
        if slices == self._accepted:
            return
        self._accepted = slices
        self.changed_at = now
        old = [o for o in self._live if o.balanced]
        self._closing += [(now + self._overlap, o) for o in old]
        self._live = [o for o in self._live if not o.balanced]
        for name, (kind, balanced) in self._kinds.items():
            if balanced and (slices is None or slices):
                self._live.append(self._opened(name, kind, slices, balanced=True))

    def close_due(self, now: float) -> None:
        """Close the readers whose overlap is over."""
        for at, old in self._closing:
            if at <= now:
                if old.filter is not None:
                    self._counts[0] += old.filter.seen
                    self._counts[1] += old.filter.passed
                self._bus.close(old.reader)
        self._closing = [(at, old) for at, old in self._closing if at > now]

    @property
    def overlapping(self) -> bool:
        """Whether an old reader is still open."""
        return bool(self._closing)

    def counts(self) -> tuple[int, int]:
        """Return how many samples reached the filters, and how many they let through."""
        filters = [o.filter for o in (*self._live, *(o for _, o in self._closing)) if o.filter is not None]
        return self._counts[0] + sum(f.seen for f in filters), self._counts[1] + sum(f.passed for f in filters)

    def arrived(self, *, any_slice: bool = False) -> Iterator[Item]:
        """Take the items that are here; what two readers accept comes twice.

        Parameters
        ----------
        any_slice
            Whether items are taken whose slice is beyond the number of slices.
        """
        for o in (*(o for _, o in self._closing), *self._live):
            slices = self._count if o.balanced and not any_slice else None
            yield from self._bus.take(o.reader, o.topic, partial(read_item, topic=o.topic, kind=o.kind, slices=slices))

    def _opened(self, name: str, kind: type, slices: frozenset[int] | None, *, balanced: bool) -> _Open:
        made = None if slices is None else partial(SliceFilter, slices=slices, count=self._count)
        reader, found = self._bus.open(name, item_type(kind), made)
        return _Open(name, kind, reader, found, balanced)


def read_item(data: bytes, topic: str, kind: type, slices: int | None) -> Item:
    """Read a sample of a topic of items."""
    return to_item(sample_of(item_type(kind), data), topic, kind, slices)
