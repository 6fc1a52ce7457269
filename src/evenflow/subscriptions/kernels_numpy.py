"""The kernels of the matching engine in pure numpy: always available, and the reference for the compiled ones.

``kernels_numba`` has the same functions with the same signatures and results.
"""

from __future__ import annotations

import numpy as np

from evenflow.subscriptions.columns import Bools, Int32s, Int64s, Words

NAME = "numpy"
WINDOW = 512  # events per bitmap: few enough that the gathered rows stay in the cache
_ROWS = 1 << 13  # subscriptions per step, and
_PAIRS = 1 << 16  # pairs per step: scratch arrays that stay in the cache


def prefix_slices(
    keys: Int64s, group_starts: Int32s, members_at: Int32s, group: Int32s, place: Int32s, start: Int32s, stop: Int32s
) -> None:
    """Find for every event the members of its group whose threshold is at most ``place``: a prefix of the group.

    Parameters
    ----------
    keys
        Sorted rows: the group in the upper 32 bits, the threshold in the lower.
    group_starts
        The first row of each group, and the end.
    members_at
        The first member of each row, and the end.
    group, place
        For every event its group and its place on the threshold's axis, -1 for none.
    start, stop
        Filled with the range of members, empty where there is none.
    """
    grouped = (group >= 0) & (place >= 0)
    safe = np.where(grouped, group, 0)
    rows = np.searchsorted(keys, (safe.astype(np.int64) << 32) | place, side="right")
    first = group_starts[safe]
    start[:] = members_at[first]
    stop[:] = np.where(grouped, members_at[np.maximum(rows, first)], start)


def expand_slices(start: Int32s, stop: Int32s, members: Int32s, offsets: Int64s, out: Int32s, filled: Int64s) -> None:
    """Write the members of every event's slices to its part of ``out``.

    Parameters
    ----------
    start, stop
        One row per slice, one column per event.
    offsets, filled
        Where each event's part begins, and how much of it is filled; ``filled`` is updated.
    """
    size = (stop - start).T.ravel()  # event by event, as in ``out``
    chosen = np.flatnonzero(size)
    if not len(chosen):
        return
    first, size = start.T.ravel()[chosen], size[chosen]
    ends = np.cumsum(size, dtype=np.int64)
    if int(ends[-1]) == len(out):
        full = np.searchsorted(ends, np.arange(_PAIRS, int(ends[-1]), _PAIRS)) + 1
        begin = done = 0
        for cut in np.unique([*full, len(size)]).tolist():
            last = int(ends[cut - 1])
            source = _runs(first[begin:cut], size[begin:cut], ends[begin:cut] - done)
            np.take(members, source, out=out[done:last], mode="clip")  # all places are valid, and clip avoids a copy
            begin, done = cut, last
    else:  # there are other slices between these
        event = chosen // len(start)
        before = ends - size
        base = before[np.searchsorted(event, event)]
        at = _runs(offsets[event] + filled[event] + before - base, size, ends)
        out[at] = members[_runs(first, size, ends)]
    filled += (stop - start).sum(axis=0)


def _runs(first: Int64s | Int32s, size: Int64s | Int32s, ends: Int64s) -> Int64s:
    """Return the consecutive numbers from each of several starts: one running sum, with a jump where a run begins."""
    steps = np.ones(int(ends[-1]), dtype=first.dtype)
    steps[0] = first[0]
    steps[ends[:-1]] = first[1:] - (first[:-1] + size[:-1] - 1)
    return np.cumsum(steps, out=steps)


def prefix_bitmaps(order: Int64s) -> Words:
    """Return for each axis the n + 1 bitmaps of the first i events in ascending order of their codes."""
    axes, size = order.shape
    bitmaps = np.zeros((axes, size + 1, (size + 63) // 64), dtype=np.uint64)
    place = np.arange(1, size + 1)
    bit = np.uint64(1) << (order & 63).astype(np.uint64)
    bitmaps[np.arange(axes)[:, None], place[None, :], order >> 6] = bit
    return np.bitwise_or.accumulate(bitmaps, axis=1, out=bitmaps)


def match_block(
    ordered: Int32s,
    tops: Int32s,  # noqa: ARG001 - the compiled kernel needs it
    bitmaps: Words,
    patterns: Words,
    starts: Int64s,
    axis: Int32s,
    low: Int32s,
    high: Int32s,
    first: int,
    last: int,
) -> tuple[Int32s, Words]:
    """Return the rows ``first`` to ``last`` that match some event of a window, and the bitmap of their events.

    Parameters
    ----------
    ordered
        For each axis the events' codes, ascending.
    tops
        For each axis its highest code.
    bitmaps
        For each axis the prefix bitmaps: an interval's events are the XOR of two of them.
    patterns
        One bitmap for each pattern.
    starts, axis, low, high
        The terms of the rows: an interval; its complement where ``axis`` is negative (-1 - axis);
        the pattern ``low`` where ``axis`` is the number of axes or more.
    """
    found_rows: list[Int32s] = []
    found_bits: list[Words] = []
    axes = len(ordered)
    for begin in range(first, last, _ROWS):
        end = min(begin + _ROWS, last)
        terms = slice(int(starts[begin]), int(starts[end]))
        which, lowest, highest = axis[terms], low[terms], high[terms]
        number = np.where(which < 0, -1 - which, which)
        order = np.argsort(number.astype(np.uint16) if axes < 1 << 16 else number, kind="stable")
        bounds = np.searchsorted(number[order], np.arange(axes + 1))
        bits = np.empty((len(which), bitmaps.shape[2]), dtype=np.uint64)
        for mine in range(axes):
            chosen = order[bounds[mine] : bounds[mine + 1]]
            if len(chosen):
                left = np.searchsorted(ordered[mine], lowest[chosen])
                right = np.searchsorted(ordered[mine], highest[chosen], side="right")
                bits[chosen] = bitmaps[mine].take(right, axis=0) ^ bitmaps[mine].take(left, axis=0)
        chosen = order[bounds[axes] :]
        bits[chosen] = patterns[lowest[chosen]]
        outside = np.flatnonzero(which < 0)
        bits[outside] = ~bits[outside]
        matched = np.bitwise_and.reduceat(bits, starts[begin:end] - starts[begin], axis=0)
        hits = np.flatnonzero(matched.any(axis=1))
        found_rows.append((hits + begin).astype(np.int32))
        found_bits.append(matched[hits])
    return np.concatenate(found_rows), np.concatenate(found_bits)


def count_bits(bits: Words, weight: Int64s, counts: Int64s) -> None:
    """Add to the count of every event of a window the weights of the rows that match it."""
    row, event = _set_bits(bits)
    counts += np.bincount(event, weights=weight[row], minlength=len(counts)).astype(np.int64)


def expand_bits(
    rows: Int32s, bits: Words, members_at: Int32s, members: Int32s, offsets: Int64s, out: Int32s, filled: Int64s
) -> None:
    """Write the members of the matching rows to every event's part of ``out``."""
    row, event = _set_bits(bits)
    order = np.argsort(event.astype(np.uint16), kind="stable")  # a window is far smaller than 65,536 events
    event, chosen = event[order], rows[row[order]]
    size = (members_at[chosen + 1] - members_at[chosen]).astype(np.int64)
    ends = np.cumsum(size)
    before = ends - size
    base = before[np.searchsorted(event, event)]
    at = offsets[event] + filled[event] + before - base
    out[_runs(at, size, ends)] = members[_runs(members_at[chosen], size.astype(np.int32), ends)]
    filled += np.bincount(event, weights=size, minlength=len(filled)).astype(np.int64)


def _set_bits(bits: Words) -> tuple[Int64s, Int64s]:
    """Return the row and the event of every bit that is set; most bytes have none."""
    packed = bits.view(np.uint8)
    some = np.flatnonzero(packed)
    byte, bit = np.nonzero(np.unpackbits(packed.ravel()[some][:, None], axis=1, bitorder="little"))
    row, column = np.divmod(some[byte], packed.shape[1])
    return row, column * 8 + bit


def drop_dead(offsets: Int64s, values: Int32s, alive: Bools) -> tuple[Int64s, Int32s]:
    """Return the lists without the members that were removed."""
    keep = alive[values]
    return np.r_[0, np.cumsum(keep)][offsets], values[keep]


def sort_lists(offsets: Int64s, values: Int32s, limit: int) -> None:  # noqa: ARG001 - the compiled kernel needs the limit
    """Sort each event's part of ``values`` in place; every value is below ``limit``."""
    event = np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))
    joined = (event << 32) | values
    joined.sort()
    values[:] = joined & np.int64(0xFFFFFFFF)


def sort_and_name(offsets: Int64s, values: Int32s, table: Int32s) -> None:
    """Sort each event's part of ``values`` in place, then replace every value by its entry in the table."""
    sort_lists(offsets, values, len(table))
    values[:] = table[values]
