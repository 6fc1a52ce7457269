"""The result of a match in several forms: counts and slices are cheap, pairs are expanded on request only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pyarrow as pa

from evenflow.subscriptions.bits import Bits, bits_of
from evenflow.subscriptions.columns import Bools, Int32s, Int64s, Words
from evenflow.subscriptions.events import EventColumns
from evenflow.subscriptions.ids import ascending_order
from evenflow.subscriptions.segment import Block, Segment, SortedRun
from evenflow.subscriptions.segment_match import SegmentMatch

PAIRS_AT_ONCE = 1 << 22  # with a million subscriptions, one event has tens of thousands of matches
_BLOCK_BITS = 1 << 29  # rows × events that a block matches at once
_FLAGS_AT_ONCE = 1 << 24


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
    """The result of :meth:`Index.match`; each form is computed when it is requested.

    A subscription's *number* is its place in ``ids``.
    """

    def __init__(
        self, segments: list[Segment], ids: pa.Array, alive: Bools | None, events: EventColumns, kernels: ModuleType
    ) -> None:
        self._parts = [SegmentMatch(segment, events, alive, kernels) for segment in segments]
        self._alive, self._kernels = alive, kernels
        self.ids = ids
        self.size = events.size

    def __len__(self) -> int:
        return self.size

    def counts(self) -> Int64s:
        """Return the number of matches of each event, without expanding them."""
        counts = self._run_counts(dead=False)
        for first, last in self._steps():
            for part, block, events, rows, bits in self._hits(first, last):
                window = np.zeros(len(events), dtype=np.int64)
                self._kernels.count_bits(bits, part.weights(block, rows, dead=False), window)
                counts[first + events] += window
        return counts

    def slices(self) -> Slices:
        """Return the matches as ranges, without expanding those that are consecutive in the index."""
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
        """Return the matches as subscription numbers, some millions at a time.

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

    def id_chunks(self) -> Iterator[tuple[int, Int64s, pa.Array]]:
        """Return each chunk's first event, its offsets, and the ids in the order of their numbers."""
        if pa.types.is_int32(self.ids.type) and not self.ids.null_count:
            table = self.ids.to_numpy()
            for chunk in self.chunks(ordered=False):
                self._kernels.sort_and_name(chunk.offsets, chunk.numbers, table)
                yield chunk.first, chunk.offsets, pa.array(chunk.numbers)
        else:
            for chunk in self.chunks():
                yield chunk.first, chunk.offsets, self.ids.take(pa.array(chunk.numbers))

    def lists(self) -> pa.ChunkedArray:
        """Return the ids that each event matches, ascending: as numbers if every id is an integer, else by code point."""
        ids, chunks = self._by_id()
        lists = [pa.LargeListArray.from_arrays(pa.array(c.offsets), ids.take(pa.array(c.numbers))) for c in chunks]
        return pa.chunked_array(lists, pa.large_list(ids.type))

    def pairs(self) -> Iterator[pa.RecordBatch]:
        """Return every match as a row of ``event`` (its position) and ``subscription`` (its id), some millions at a time."""
        ids, chunks = self._by_id()
        for chunk in chunks:
            event = np.repeat(np.arange(len(chunk.offsets) - 1) + chunk.first, np.diff(chunk.offsets))
            names = ids.take(pa.array(chunk.numbers))
            yield pa.RecordBatch.from_arrays([pa.array(event), names], ["event", "subscription"])

    def _by_id(self) -> tuple[pa.Array, Iterator[Chunk]]:
        """Return the ids in ascending order, and the matches as places in that order, ascending."""
        order = ascending_order(self.ids)
        if np.array_equal(order, np.arange(len(order))):
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
        """Return one bit per event for each subscription, as PRESS uses them."""
        return bits_of(self._parts, self.ids, self._alive)

    def per_destination(self, destination_of: Mapping[str, str] | Mapping[int, str]) -> tuple[list[str], Bools]:
        """Return which destinations each event must reach.

        Parameters
        ----------
        destination_of
            The destination (a broker, a lane) of each id; ids without one are ignored.

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
        return names, _reached(self._parts, targets, len(names))

    def _run_counts(self, *, dead: bool) -> Int64s:
        counts = np.zeros(self.size, dtype=np.int64)
        for part in self._parts:
            counts += part.run_counts(dead=dead)
        return counts

    def _hits(self, first: int, last: int) -> Iterator[tuple[SegmentMatch, Block, Int64s, Int32s, Words]]:
        for part in self._parts:
            for block in part.segment.blocks:
                for events, rows, bits in part.hits(block, first, last):
                    yield part, block, events, rows, bits

    def _steps(self, counts: Int64s | None = None, limit: int = 0) -> Iterator[tuple[int, int]]:
        """Split the events so that no step has many more pairs than ``limit``, nor a block too many bits."""
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


def _reached(parts: Sequence[SegmentMatch], targets: Int32s, count: int) -> Bools:
    """Return for every event (row) and destination (column) whether a match is there.

    Parameters
    ----------
    targets
        The destination of each subscription number, -1 for none.
    """
    flags = np.zeros((parts[0].events.size, count), dtype=bool)
    for part in parts:
        for number, run in enumerate(part.segment.runs):
            _reach_run(part, run, number, targets, flags)
        for block in part.segment.blocks:
            _reach_block(part, block, targets, flags)
    return flags


def _reach_run(part: SegmentMatch, run: SortedRun, number: int, targets: Int32s, flags: Bools) -> None:
    """Mark the destinations of a run.

    An event matches a prefix of its group, so it reaches the destinations whose first member in the group is in the prefix.
    """
    first, last = int(run.members_at[0]), int(run.members_at[-1])
    group = np.repeat(np.arange(run.keys.count), np.diff(run.members_at[run.group_starts]))
    place = np.arange(first, last)
    target = targets[part.segment.members[first:last]]
    some = np.flatnonzero(target >= 0)[::-1]  # the last assignment wins: backwards, that is the first member
    earliest = np.full((run.keys.count, flags.shape[1]), last, dtype=np.int64)
    earliest[group[some], target[some]] = place[some]
    start, stop = (side[number] for side in part.slices)
    mine = part.groups(run)
    matched = np.flatnonzero(stop > start)
    flags[matched] |= earliest[mine[matched]] < stop[matched, None]


def _reach_block(part: SegmentMatch, block: Block, targets: Int32s, flags: Bools) -> None:
    rows_at_once = max(1, _FLAGS_AT_ONCE // max(flags.shape[1], part.kernels.WINDOW))
    row_of = np.repeat(np.arange(len(block.members_at) - 1), np.diff(block.members_at))
    target = targets[part.segment.members[block.members_at[0] : block.members_at[-1]]]
    owned = np.zeros((len(block.members_at) - 1, flags.shape[1]), dtype=bool)
    owned[row_of[target >= 0], target[target >= 0]] = True
    for events, rows, bits in part.hits(block, 0, part.events.size):
        for at in range(0, len(rows), rows_at_once):
            some = bits[at : at + rows_at_once].view(np.uint8)
            matched = np.unpackbits(some, axis=1, count=len(events), bitorder="little")
            there = owned[rows[at : at + rows_at_once]].astype(np.float32)
            flags[events] |= matched.T.astype(np.float32) @ there > 0
