"""The compiled kernels of the matching engine (extra ``fast``); ``kernels_numpy`` documents each of them."""

from __future__ import annotations

import numpy as np

from evenflow.subscriptions.columns import Bools, Int32s, Int64s, Words
from evenflow.subscriptions.form_kernels import compiled

NAME = "numba"
WINDOW = 1024


@compiled
def prefix_slices(
    keys: Int64s, group_starts: Int32s, members_at: Int32s, group: Int32s, place: Int32s, start: Int32s, stop: Int32s
) -> None:
    """Find for every event the members of its group whose threshold is at most ``place``: a prefix of the group."""
    for event in range(len(group)):
        mine = group[event]
        if mine < 0 or place[event] < 0:
            start[event] = 0
            stop[event] = 0
            continue
        first = group_starts[mine]
        low, high = first, group_starts[mine + 1]
        wanted = (np.int64(mine) << 32) | np.int64(place[event])
        while low < high:
            middle = (low + high) >> 1
            if keys[middle] <= wanted:
                low = middle + 1
            else:
                high = middle
        start[event] = members_at[first]
        stop[event] = members_at[low]


@compiled
def expand_slices(start: Int32s, stop: Int32s, members: Int32s, offsets: Int64s, out: Int32s, filled: Int64s) -> None:
    """Write the members of every event's slices to its part of ``out``."""
    slices, events = start.shape
    for event in range(events):
        at = offsets[event] + filled[event]
        for number in range(slices):
            low = start[number, event]
            size = stop[number, event] - low
            for i in range(size):
                out[at + i] = members[low + i]
            at += size
        filled[event] = at - offsets[event]


@compiled
def prefix_bitmaps(order: Int64s) -> Words:
    """Return for each axis the n + 1 bitmaps of the first i events in ascending order of their codes."""
    axes, size = order.shape
    words = (size + 63) // 64
    bitmaps = np.zeros((axes, size + 1, words), dtype=np.uint64)
    for axis in range(axes):
        for i in range(size):
            for word in range(words):
                bitmaps[axis, i + 1, word] = bitmaps[axis, i, word]
            event = order[axis, i]
            bitmaps[axis, i + 1, event >> 6] |= np.uint64(1) << np.uint64(event & 63)
    return bitmaps


_BUCKETS = 4096  # per axis: about four per event of a window, so that most are empty and a search takes one step


@compiled
def _bucket_starts(ordered: Int32s, shifts: Int32s) -> Int32s:
    """Return for each axis the first event at or after each bucket; a bucket holds the codes with the same upper bits."""
    axes, size = ordered.shape
    starts = np.empty((axes, _BUCKETS + 1), dtype=np.int32)
    for number in range(axes):
        at = 0
        for bucket in range(_BUCKETS + 1):
            while at < size and ordered[number, at] < (np.int64(bucket) << shifts[number]):
                at += 1
            starts[number, bucket] = at
    return starts


@compiled
def _match_rows(  # noqa: PLR0912 - one loop: a call inside would cost more than the work
    ordered: Int32s,
    buckets: Int32s,
    shifts: Int32s,
    bitmaps: Words,
    patterns: Words,
    starts: Int64s,
    axis: Int32s,
    low: Int32s,
    high: Int32s,
    first: int,
    last: int,
    rows: Int32s,
    bits: Words,
) -> int:
    """Fill ``rows`` and ``bits`` from the front; return how many rows match."""
    axes, size = ordered.shape
    words = bitmaps.shape[2]
    hits = 0
    for row in range(first, last):
        together = np.uint64(0)
        begin = starts[row]
        for term in range(begin, starts[row + 1]):
            which = axis[term]
            together = np.uint64(0)
            if which >= axes:
                pattern = low[term]
                for word in range(words):
                    value = patterns[pattern, word]
                    if term != begin:
                        value &= bits[hits, word]
                    bits[hits, word] = value
                    together |= value
            else:
                number = which if which >= 0 else -1 - which
                flip = np.uint64(0) if which >= 0 else ~np.uint64(0)
                wanted = low[term]
                left = buckets[number, wanted >> shifts[number]]
                while left < size and ordered[number, left] < wanted:
                    left += 1
                wanted = high[term] + 1
                right = buckets[number, wanted >> shifts[number]]
                while right < size and ordered[number, right] < wanted:
                    right += 1
                if term == begin:
                    for word in range(words):
                        value = bitmaps[number, left, word] ^ bitmaps[number, right, word] ^ flip
                        bits[hits, word] = value
                        together |= value
                else:
                    for word in range(words):
                        value = bitmaps[number, left, word] ^ bitmaps[number, right, word] ^ flip
                        value &= bits[hits, word]
                        bits[hits, word] = value
                        together |= value
            if together == 0:
                break
        if together != 0:
            rows[hits] = row
            hits += 1
    return hits


def match_block(
    ordered: Int32s,
    tops: Int32s,
    bitmaps: Words,
    patterns: Words,
    starts: Int64s,
    axis: Int32s,
    low: Int32s,
    high: Int32s,
    first: int,
    last: int,
) -> tuple[Int32s, Words]:
    """Return the rows ``first`` to ``last`` that match some event of a window, and the bitmap of their events."""
    rows = np.empty(last - first + 1, dtype=np.int32)
    bits = np.empty((last - first + 1, bitmaps.shape[2]), dtype=np.uint64)  # one more: the row under test
    shifts = np.array([max((int(top) + 1).bit_length() - 12, 0) for top in tops], dtype=np.int32)
    buckets = _bucket_starts(ordered, shifts)
    hits = _match_rows(ordered, buckets, shifts, bitmaps, patterns, starts, axis, low, high, first, last, rows, bits)
    return rows[:hits], bits[:hits]


_DEBRUIJN = np.uint64(0x03F79D71B4CB0A89)
_BIT_OF = np.zeros(64, dtype=np.int64)
for _bit in range(64):
    _BIT_OF[((0x03F79D71B4CB0A89 << _bit) & (2**64 - 1)) >> 58] = _bit


@compiled
def count_bits(bits: Words, weight: Int64s, counts: Int64s) -> None:
    """Add to the count of every event of a window the weights of the rows that match it."""
    rows, words = bits.shape
    for row in range(rows):
        for word in range(words):
            left = bits[row, word]
            while left != 0:
                lowest = left & (~left + np.uint64(1))
                counts[(word << 6) + _BIT_OF[(lowest * _DEBRUIJN) >> np.uint64(58)]] += weight[row]
                left ^= lowest


@compiled
def expand_bits(
    rows: Int32s, bits: Words, members_at: Int32s, members: Int32s, offsets: Int64s, out: Int32s, filled: Int64s
) -> None:
    """Write the members of the matching rows to every event's part of ``out``."""
    for row in range(len(rows)):
        begin, end = members_at[rows[row]], members_at[rows[row] + 1]
        for word in range(bits.shape[1]):
            left = bits[row, word]
            while left != 0:
                lowest = left & (~left + np.uint64(1))
                event = (word << 6) + _BIT_OF[(lowest * _DEBRUIJN) >> np.uint64(58)]
                left ^= lowest
                at = offsets[event] + filled[event]
                for member in range(begin, end):
                    out[at + member - begin] = members[member]
                filled[event] += end - begin


@compiled
def _drop_dead(offsets: Int64s, values: Int32s, alive: Bools, kept_offsets: Int64s, kept: Int32s) -> None:
    size = 0
    for event in range(len(offsets) - 1):
        for i in range(offsets[event], offsets[event + 1]):
            if alive[values[i]]:
                kept[size] = values[i]
                size += 1
        kept_offsets[event + 1] = size


def drop_dead(offsets: Int64s, values: Int32s, alive: Bools) -> tuple[Int64s, Int32s]:
    """Return the lists without the members that were removed."""
    kept_offsets, kept = np.zeros_like(offsets), np.empty_like(values)
    _drop_dead(offsets, values, alive, kept_offsets, kept)
    return kept_offsets, kept[: kept_offsets[-1]]


@compiled
def sort_and_name(offsets: Int64s, values: Int32s, table: Int32s) -> None:
    """Sort each event's part of ``values`` in place, and replace every value by its entry in the table.

    A long list is written as bits and read back in order, which is faster than comparing.
    """
    limit = len(table)
    bitmap = np.zeros((limit + 63) >> 6, dtype=np.uint64)
    for event in range(len(offsets) - 1):
        begin, end = offsets[event], offsets[event + 1]
        if (end - begin) * 64 < limit:
            values[begin:end].sort()
            for i in range(begin, end):
                values[i] = table[values[i]]
            continue
        for i in range(begin, end):
            bitmap[values[i] >> 6] |= np.uint64(1) << np.uint64(values[i] & 63)
        at = begin
        for word in range(len(bitmap)):
            left = bitmap[word]
            bitmap[word] = 0
            while left != 0:
                lowest = left & (~left + np.uint64(1))
                values[at] = table[(word << 6) + _BIT_OF[(lowest * _DEBRUIJN) >> np.uint64(58)]]
                at += 1
                left ^= lowest


@compiled
def sort_lists(offsets: Int64s, values: Int32s, limit: int) -> None:
    """Sort each event's part of ``values`` in place; every value is below ``limit``."""
    sort_and_name(offsets, values, np.arange(limit, dtype=np.int32))
