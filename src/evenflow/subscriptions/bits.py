"""Bit vectors: which events each subscription matches; PRESS estimates load from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from evenflow.subscriptions.columns import Bools, Int32s, Int64s, Words
from evenflow.subscriptions.segment import Block, SortedRun, spans
from evenflow.subscriptions.segment_match import SegmentMatch


@dataclass(frozen=True, slots=True)
class Bits:
    """One bit per event for every subscription with a match; equal subscriptions share a row.

    Parameters
    ----------
    words
        Rows of 64-bit words; event i is bit i % 64 of word i // 64.
    row
        The row of each subscription number, -1 for one without a match.
    ids
        The id of each subscription number.
    size
        The number of events.
    """

    words: Words
    row: Int32s
    ids: pa.Array
    size: int

    def to_dict(self) -> dict[str | int, int]:
        """Return the bit vectors of the subscriptions with a match as integers, event 0 in the lowest bit."""
        wide = [int.from_bytes(row.astype("<u8").tobytes(), "little") for row in self.words]
        some = np.flatnonzero(self.row >= 0)
        return dict(zip(self.ids.take(pa.array(some)).to_pylist(), (wide[i] for i in self.row[some]), strict=True))


def bits_of(parts: Sequence[SegmentMatch], ids: pa.Array, alive: Bools | None) -> Bits:
    """Return the bit vectors of all segments."""
    words: list[Words] = [np.zeros((0, (parts[0].events.size + 63) // 64), dtype=np.uint64)]
    row = np.full(len(ids), -1, dtype=np.int32)
    size = 0
    for part in parts:
        members = part.segment.members
        for bitmaps, first, last in _rows_of(part):
            numbers = np.repeat(np.arange(size, size + len(bitmaps), dtype=np.int32), last - first)
            row[members[spans(first.astype(np.int64), last.astype(np.int64))]] = numbers
            words.append(bitmaps)
            size += len(bitmaps)
    if alive is not None:
        row[~alive] = -1
    return Bits(np.concatenate(words), row, ids, parts[0].events.size)


def _rows_of(part: SegmentMatch) -> Iterator[tuple[Words, Int32s, Int32s]]:
    """Return bit vectors with the members they belong to."""
    for run in part.segment.runs:
        yield from _run_rows(part, run)
    for block in part.segment.blocks:
        yield from _block_rows(part, block)


def _run_rows(part: SegmentMatch, run: SortedRun) -> Iterator[tuple[Words, Int32s, Int32s]]:
    """Return the rows of each group that some event matches: row r has the events whose place is at least r's."""
    group, place = part.groups(run), part.places(run)
    order = np.lexsort((place, group))
    order = order[(group[order] >= 0) & (place[order] >= 0)]
    bounds = np.flatnonzero(np.diff(group[order], prepend=-1, append=-1))
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        events = order[begin:end]
        mine = int(group[events[0]])
        first, last = int(run.group_starts[mine]), int(run.group_starts[mine + 1])
        least = run.rows[first:last] & 0xFFFFFFFF
        later = np.searchsorted(place[events], least)
        later = later[later < len(events)]  # the rows ascend: those that no event reaches are at the end
        if len(later):
            at = run.members_at[first : first + len(later) + 1]
            yield _suffixes(events, part.events.size)[later], at[:-1], at[1:]


def _suffixes(events: Int64s, size: int) -> Words:
    """Return, for each i, the bitmap of the events from the i-th on."""
    bitmaps = np.zeros((len(events), (size + 63) // 64), dtype=np.uint64)
    bitmaps[np.arange(len(events)), events >> 6] = np.uint64(1) << (events & 63).astype(np.uint64)
    backward = bitmaps[::-1]
    np.bitwise_or.accumulate(backward, axis=0, out=backward)
    return bitmaps


def _block_rows(part: SegmentMatch, block: Block) -> Iterator[tuple[Words, Int32s, Int32s]]:
    size = part.events.size
    hits = list(part.hits(block, 0, size))
    if not hits:
        return
    rows = np.unique(np.concatenate([matched for _, matched, _ in hits]))
    words = np.zeros((len(rows), (size + 63) // 64), dtype=np.uint64)
    for events, matched, bits in hits:
        at = np.searchsorted(rows, matched)
        if events[0] % 64 == 0 and events[-1] - events[0] == len(events) - 1:
            words[at, events[0] // 64 : events[0] // 64 + bits.shape[1]] |= bits
        else:
            flags = np.zeros((len(matched), words.shape[1] * 64), dtype=np.uint8)
            flags[:, events] = np.unpackbits(bits.view(np.uint8), axis=1, count=len(events), bitorder="little")
            words[at] |= np.packbits(flags, axis=1, bitorder="little").view(np.uint64)
    yield words, block.members_at[rows], block.members_at[rows + 1]
