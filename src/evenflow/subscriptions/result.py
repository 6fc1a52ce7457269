"""What a match found, in the form that is asked for: counts and slices are cheap, pairs are expanded on request only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.subscriptions.bits import Bits, bits_of
from evenflow.subscriptions.columns import Bools, Int32s, Int64s, Words
from evenflow.subscriptions.destinations import reached
from evenflow.subscriptions.events import Events
from evenflow.subscriptions.part import Part
from evenflow.subscriptions.segment import Block, Segment

PAIRS_AT_ONCE = 1 << 22  # one event of a million subscriptions has tens of thousands of matches
_BLOCK_BITS = 1 << 29  # rows × events that a block matches at once


@dataclass(frozen=True, slots=True)
class Chunk:
    """The matches of some consecutive events: event ``first`` + i has ``numbers[offsets[i] : offsets[i + 1]]``."""

    first: int
    offsets: Int64s
    numbers: Int32s


@dataclass(frozen=True, slots=True)
class Slices:
    """Every match as a range of ``members``, which are subscription numbers; an event may have several ranges."""

    event: Int64s
    start: Int64s
    stop: Int64s
    members: Int32s


class Matches:
    """The result of :meth:`Index.match`; what is asked of it is worked out then.

    A subscription's *number* is its place in ``ids``.
    """

    def __init__(
        self, segments: list[Segment], ids: pa.Array, alive: Bools | None, events: Events, kernels: ModuleType
    ) -> None:
        self._parts = [Part(segment, events, alive, kernels) for segment in segments]
        self._alive, self._kernels = alive, kernels
        self.ids = ids
        self.size = events.size

    def __len__(self) -> int:
        return self.size

    def counts(self) -> Int64s:
        """Give the number of matches of each event; nothing is expanded."""
        counts = self._run_counts(dead=False)
        for first, last in self._steps():
            for part, block, events, rows, bits in self._hits(first, last):
                window = np.zeros(len(events), dtype=np.int64)
                self._kernels.count_bits(bits, part.weights(block, rows, dead=False), window)
                counts[first + events] += window
        return counts

    def slices(self) -> Slices:
        """Give the matches as ranges, without expanding what the index keeps together."""
        if self._alive is not None or any(part.segment.blocks for part in self._parts):
            chunks = list(self.chunks(ordered=False))
            members = np.concatenate([np.zeros(0, dtype=np.int32), *(chunk.numbers for chunk in chunks)])
            ends = np.cumsum(np.concatenate([np.zeros(1, np.int64), *(np.diff(chunk.offsets) for chunk in chunks)]))
            event, start, stop = np.arange(self.size), ends[:-1], ends[1:]
        else:
            before = np.cumsum([0, *(len(part.segment.members) for part in self._parts)])
            members = np.concatenate([part.segment.members for part in self._parts])
            low, high = (
                np.concatenate([part.slices[side] + base for part, base in zip(self._parts, before, strict=False)])
                for side in (0, 1)
            )
            event = np.tile(np.arange(self.size), len(low))
            start, stop = low.ravel(), high.ravel()
        some = stop > start
        return Slices(event[some], start[some], stop[some], members)

    def chunks(self, *, ordered: bool = True, limit: int = PAIRS_AT_ONCE) -> Iterator[Chunk]:
        """Give the matches as subscription numbers, some millions at a time.

        Parameters
        ----------
        ordered
            Whether each event's numbers ascend.
        limit
            About how many pairs a chunk has at most; an event is never split.
        """
        run_counts = self._run_counts(dead=True)
        for first, last in self._steps(run_counts, limit):
            counts = run_counts[first:last].copy()
            hits = list(self._hits(first, last))
            for part, block, events, rows, bits in hits:
                window = np.zeros(len(events), dtype=np.int64)
                self._kernels.count_bits(bits, part.weights(block, rows, dead=True), window)
                counts[events] += window
            offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
            numbers = np.empty(int(offsets[-1]), dtype=np.int32)
            filled = np.zeros(last - first, dtype=np.int64)
            for part in self._parts:
                start, stop = (np.ascontiguousarray(side[:, first:last]) for side in part.slices)
                self._kernels.expand_slices(start, stop, part.segment.members, offsets[:-1], numbers, filled)
            for part, block, events, rows, bits in hits:
                done = filled[events]
                members = part.segment.members
                self._kernels.expand_bits(rows, bits, block.members_at, members, offsets[events], numbers, done)
                filled[events] = done
            if self._alive is not None:
                offsets, numbers = self._kernels.drop_dead(offsets, numbers, self._alive)
            if ordered:
                self._kernels.sort_lists(offsets, numbers, len(self.ids))
            yield Chunk(first, offsets, numbers)

    def named(self) -> Iterator[tuple[int, Int64s, pa.Array]]:
        """Give each chunk's first event, its offsets, and the ids in the order of their numbers."""
        if pa.types.is_int32(self.ids.type) and not self.ids.null_count:
            table = self.ids.to_numpy()
            for chunk in self.chunks(ordered=False):
                self._kernels.sort_and_name(chunk.offsets, chunk.numbers, table)
                yield chunk.first, chunk.offsets, pa.array(chunk.numbers)
        else:
            for chunk in self.chunks():
                yield chunk.first, chunk.offsets, self.ids.take(pa.array(chunk.numbers))

    def lists(self) -> pa.ChunkedArray:
        """Give the ids that each event matches, ascending: as numbers if every id is an integer, else by code point."""
        ids, chunks = self._by_id()
        lists = [pa.LargeListArray.from_arrays(pa.array(c.offsets), ids.take(pa.array(c.numbers))) for c in chunks]
        return pa.chunked_array(lists, pa.large_list(ids.type))

    def pairs(self) -> Iterator[pa.RecordBatch]:
        """Give every match as a row of ``event`` (its position) and ``subscription`` (its id), some millions at a time."""
        ids, chunks = self._by_id()
        for chunk in chunks:
            event = np.repeat(np.arange(len(chunk.offsets) - 1) + chunk.first, np.diff(chunk.offsets))
            names = ids.take(pa.array(chunk.numbers))
            yield pa.RecordBatch.from_arrays([pa.array(event), names], ["event", "subscription"])

    def _by_id(self) -> tuple[pa.Array, Iterator[Chunk]]:
        """Give the ids in ascending order, and the matches as places in that order, ascending."""
        order = _order(self.ids)
        if order is None:
            return self.ids, self.chunks()
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)

        def ranked() -> Iterator[Chunk]:
            for chunk in self.chunks(ordered=False):
                numbers = rank[chunk.numbers]
                self._kernels.sort_lists(chunk.offsets, numbers, len(rank))
                yield Chunk(chunk.first, chunk.offsets, numbers)

        return self.ids.take(pa.array(order)), ranked()

    def bits(self) -> Bits:
        """Give one bit per event for each subscription: what PRESS samples."""
        return bits_of(self._parts, self.ids, self._alive)

    def per_destination(self, destination_of: Mapping[str, str] | Mapping[int, str]) -> tuple[list[str], Bools]:
        """Tell which destinations each event must reach.

        Parameters
        ----------
        destination_of
            The destination (a broker, a lane) of each id; an id without one is left out.

        Returns
        -------
        The destinations, ascending, and a row for each event with a flag for each of them.
        """
        names = sorted(set(destination_of.values()))
        number = {name: i for i, name in enumerate(names)}
        codes = [number.get(destination_of.get(name)) for name in self.ids.to_pylist()]  # type: ignore[arg-type]
        targets = np.array([-1 if code is None else code for code in codes], dtype=np.int32)
        if self._alive is not None:
            targets[~self._alive] = -1
        return names, reached(self._parts, targets, len(names))

    def _run_counts(self, *, dead: bool) -> Int64s:
        counts = np.zeros(self.size, dtype=np.int64)
        for part in self._parts:
            counts += part.run_counts(dead=dead)
        return counts

    def _hits(self, first: int, last: int) -> Iterator[tuple[Part, Block, Int64s, Int32s, Words]]:
        for part in self._parts:
            for block in part.segment.blocks:
                for events, rows, bits in part.hits(block, first, last):
                    yield part, block, events, rows, bits

    def _steps(self, counts: Int64s | None = None, limit: int = 0) -> Iterator[tuple[int, int]]:
        """Cut the events so that no step has many more pairs than ``limit``, nor a block more bits than fit."""
        rows = sum(len(block.starts) - 1 for part in self._parts for block in part.segment.blocks)
        if rows == 0 and counts is None:
            return
        most = max(self.size, 1) if rows == 0 else max(512, _BLOCK_BITS // rows // 512 * 512)
        before = None if counts is None else np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        first = 0
        while first < self.size:
            last = min(first + most, self.size)
            if before is not None:
                fits = int(np.searchsorted(before, before[first] + limit, side="right")) - 1
                last = min(last, max(fits, first + 1))
            yield first, last
            first = last


def _order(ids: pa.Array) -> Int64s | None:
    """Give the order of the ids, None if they ascend already."""
    values = ids
    if pa.types.is_string(ids.type) and len(ids):
        if pc.all(pc.match_substring_regex(ids, r"^[+-]?[0-9]{1,18}$")).as_py():
            values = pc.cast(pc.replace_substring_regex(ids, r"^\+", ""), pa.int64())
        elif pc.all(pc.match_substring_regex(ids, r"^[+-]?[0-9]+$")).as_py():
            texts = ids.to_pylist()
            return np.array(sorted(range(len(ids)), key=lambda i: (int(texts[i]), texts[i])), dtype=np.int64)
    if len(ids) < 2 or pc.all(pc.less(values[:-1], values[1:])).as_py():
        return None
    table = pa.table({"value": values, "text": ids})
    order: Int64s = pc.sort_indices(table, [("value", "ascending"), ("text", "ascending")]).to_numpy().astype(np.int64)
    return order
