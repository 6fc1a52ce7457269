"""A segment: compiled subscriptions, looked up by their equalities and then by ranges.

Equal subscriptions share one row. Rows with the same equalities form a group, which is looked up by the event's values.
In a *run* the rows of a group have at most one more, one-sided range: sorted by it, the matching rows are a prefix.
All other rows are in a *block*, which is matched for many events at a time with bitmaps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from evenflow.subscriptions.axes import Axis, Terms, terms_of
from evenflow.subscriptions.columns import Bools, Int32s, Int64s, Predicates

EQUALITY, FROM, UP_TO, BETWEEN = range(4)
_RUN_SHAPES = 64  # the largest shapes, which have a look-up of their own at any size
_SHAPE_SIZE = 256  # other shapes below this size share one block
_DENSE = 1 << 20
_FIRST = np.zeros(1, dtype=np.int64)


class GroupKeys:
    """Numbered combinations of codes on some axes; an event's combination is looked up level by level."""

    def __init__(self, axes: tuple[int, ...], tops: Iterable[int], codes: Int32s) -> None:
        self.axes = axes
        self._levels: list[tuple[int, Int64s, Int32s | None]] = []
        ids = np.zeros(len(codes), dtype=np.int64)
        count = 1
        for column, top in zip(codes.T, tops, strict=True):
            radix = top + 1
            joined = ids * radix + column
            known = np.sort(pa.array(joined).unique().to_numpy())
            dense = None
            if count * radix <= _DENSE:
                dense = np.full(count * radix, -1, dtype=np.int32)
                dense[known] = np.arange(len(known), dtype=np.int32)
            self._levels.append((radix, known, dense))
            ids = dense[joined].astype(np.int64) if dense is not None else np.searchsorted(known, joined)
            count = len(known)
        self.count = count
        self.of_rows = ids.astype(np.int32)

    def find(self, codes: list[Int32s], size: int) -> Int32s:
        """Return the number of each event's combination, -1 for an unknown one."""
        ids = np.zeros(size, dtype=np.int64)
        for column, (radix, known, dense) in zip(codes, self._levels, strict=True):
            missing = (ids < 0) | (column < 0)
            joined = np.where(missing, 0, ids * radix + column)
            if dense is not None:
                number = dense[joined].astype(np.int64)
            else:
                place = np.minimum(np.searchsorted(known, joined), len(known) - 1)
                number = np.where(known[place] == joined, place, -1)
            ids = np.where(missing, -1, number)
        return ids.astype(np.int32)

    def codes(self) -> Int32s:
        """Return the codes of every combination, one row each."""
        out = np.empty((self.count, len(self.axes)), dtype=np.int32)
        ids = np.arange(self.count)
        for level in range(len(self.axes) - 1, -1, -1):
            radix, known, _ = self._levels[level]
            ids, out[:, level] = np.divmod(known[ids], radix)
        return out

    @property
    def nbytes(self) -> int:
        """The size of the tables."""
        return sum(known.nbytes + (0 if dense is None else dense.nbytes) for _, known, dense in self._levels)


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Rows with the same equalities and at most one one-sided range, on ``axis`` (-1: none).

    A row is its group (upper 32 bits) and the lowest place that matches; on a falling axis places are counted from the top.
    """

    keys: GroupKeys
    axis: int
    falling: bool
    rows: Int64s
    group_starts: Int32s
    members_at: Int32s

    def places(self, codes: Int32s | None, top: int, size: int) -> Int32s:
        """Turn codes into places, -1 for a missing value."""
        if codes is None:
            return np.zeros(size, dtype=np.int32)
        return np.where(codes < 0, codes, np.int32(top) - codes) if self.falling else codes


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of any form, by group; ``kernels_numpy.match_block`` documents their terms.

    ``axes`` and ``patterns`` are the axes and the (axis, pattern) pairs that the terms number.
    """

    keys: GroupKeys
    group_starts: Int32s
    axes: Int32s
    patterns: list[tuple[int, int]]
    starts: Int64s
    axis: Int32s
    low: Int32s
    high: Int32s
    members_at: Int32s


@dataclass(frozen=True, slots=True)
class Segment:
    """Compiled subscriptions; ``members`` are their numbers, row by row."""

    axes: list[Axis]
    runs: list[SortedRun]
    blocks: list[Block]
    members: Int32s

    @property
    def nbytes(self) -> int:
        """The size of the arrays (the strings of the axes not counted)."""
        arrays: list[Int32s | Int64s] = [self.members]
        parts: list[SortedRun | Block] = [*self.runs, *self.blocks]
        keys = {id(part.keys): part.keys for part in parts}
        for run in self.runs:
            arrays += [run.rows, run.group_starts, run.members_at]
        for block in self.blocks:
            arrays += [block.group_starts, block.starts, block.axis, block.low, block.high, block.members_at]
        points = sum(axis.points.nbytes + (0 if axis.rest is None else axis.rest.nbytes) for axis in self.axes)
        return int(sum(array.nbytes for array in arrays) + sum(key.nbytes for key in keys.values()) + points)


@dataclass(frozen=True, slots=True)
class _Shape:
    """Subscriptions with the same kinds of terms on the same axes; ``at`` are the places of their equalities."""

    subscriptions: Int64s
    equal: tuple[int, ...]
    at: tuple[int, ...]
    is_run: bool
    range_at: int = -1


def compile_segment(predicates: Predicates, numbers: Int32s, first: Int64s | None = None) -> Segment:
    """Compile subscriptions.

    Parameters
    ----------
    predicates
        The subscriptions.
    numbers
        The members of subscription i: ``numbers[first[i]]`` to ``numbers[first[i + 1]]``, or ``numbers[i]`` without ``first``.
    """
    terms = terms_of(predicates)
    tops = [axis.top for axis in terms.axes]
    by_key: dict[tuple[int, ...], list[_Shape]] = {}
    for shape in _shapes(terms):
        by_key.setdefault(shape.equal, []).append(shape)
    runs: list[SortedRun] = []
    blocks: list[Block] = []
    members: list[Int32s] = [np.zeros(0, dtype=np.int32)]
    size = 0
    for equal, shapes in by_key.items():
        codes = [terms.low[terms.starts[s.subscriptions][:, None] + np.array(s.at, dtype=np.int64)] for s in shapes]
        keys = GroupKeys(equal, [tops[axis] for axis in equal], np.concatenate(codes))
        bounds = np.cumsum([0, *(len(s.subscriptions) for s in shapes)])
        groups = [keys.of_rows[first_row:end] for first_row, end in pairwise(bounds.tolist())]
        keys.of_rows = np.zeros(0, dtype=np.int32)
        blocked = [number for number, shape in enumerate(shapes) if not shape.is_run]
        for number, shape in enumerate(shapes):
            if shape.is_run:
                run, order = _run(terms, tops, keys, shape, groups[number])
                rows = shape.subscriptions[order]
                runs.append(replace(run, members_at=_member_starts(run.members_at, rows, first, size)))
                members.append(_members(rows, first, numbers))
                size += len(members[-1])
        if blocked:
            chosen = np.concatenate([shapes[number].subscriptions for number in blocked])
            block, order = _block(terms, keys, chosen, np.concatenate([groups[number] for number in blocked]))
            rows = chosen[order]
            blocks.append(replace(block, members_at=_member_starts(block.members_at, rows, first, size)))
            members.append(_members(rows, first, numbers))
            size += len(members[-1])
    return Segment(terms.axes, runs, blocks, np.concatenate(members))


def _members(subscriptions: Int64s, first: Int64s | None, numbers: Int32s) -> Int32s:
    if first is None:
        return numbers[subscriptions]
    return numbers[spans(first[subscriptions], first[subscriptions + 1])]


def _member_starts(row_starts: Int32s, subscriptions: Int64s, first: Int64s | None, size: int) -> Int32s:
    """Return where each row's members begin, from where its subscriptions begin."""
    if first is None:
        return row_starts + np.int32(size)
    ends = np.cumsum(np.r_[size, first[subscriptions + 1] - first[subscriptions]])
    return ends[row_starts].astype(np.int32)


def spans(begin: Int64s, end: Int64s) -> Int64s:
    """Return the numbers of all ranges from ``begin`` to ``end``.

    Examples
    --------
    >>> spans(np.array([5, 0]), np.array([7, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    size = end - begin
    before = np.cumsum(size) - size
    joined: Int64s = np.arange(int(size.sum()), dtype=np.int64) + np.repeat(begin - before, size)
    return joined


def _shapes(terms: Terms) -> list[_Shape]:
    """Group the possible subscriptions by shape; rare shapes share a block without equalities."""
    subscriptions = np.flatnonzero(terms.possible)
    if not len(subscriptions):
        return []
    tops = np.array([axis.top for axis in terms.axes], dtype=np.int32)
    kind = np.full(len(terms.axis), BETWEEN, dtype=np.int32)
    kind[terms.low == 0] = UP_TO
    kind[terms.high == tops[terms.axis]] = FROM
    kind[(terms.low == terms.high) & (terms.low & 1 == 1)] = EQUALITY
    has_extra = np.zeros(len(terms.possible), dtype=np.int64)
    has_extra[terms.extra_owner] = 1
    begin = terms.starts[subscriptions]
    length = terms.starts[subscriptions + 1] - begin
    symbol = terms.axis * np.int32(4) + kind + np.int32(1)
    radix = 4 * len(terms.axes) + 1
    signature = has_extra[subscriptions]
    largest = 2
    for place in range(int(length.max())):
        if largest * radix >= 1 << 62:
            encoded = pa.array(signature).dictionary_encode()
            signature, largest = encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)
        signature *= radix
        has = np.flatnonzero(length > place)
        signature[has] += symbol[begin[has] + place]
        largest *= radix
    shape = pa.array(signature).dictionary_encode().indices.to_numpy()
    order = np.argsort(shape.astype(np.uint16) if shape.max() < 1 << 16 else shape, kind="stable")
    bounds = np.concatenate([_FIRST, np.cumsum(np.bincount(shape))])
    sizes = np.diff(bounds)
    worth = sizes >= _SHAPE_SIZE
    worth[np.argsort(-sizes, kind="stable")[:_RUN_SHAPES]] = True
    shapes: list[_Shape] = []
    rest: list[Int64s] = []
    for number in range(len(sizes)):
        mine = order[bounds[number] : bounds[number + 1]]
        sample = mine[0]
        if worth[number] or length[sample] == 0:
            first = int(begin[sample])
            here = slice(first, first + int(length[sample]))
            with_extra = bool(has_extra[subscriptions[sample]])
            shapes.append(_shape(subscriptions[mine], terms.axis[here], kind[here], with_extra))
        else:
            rest.append(subscriptions[mine])
    if rest:
        shapes.append(_Shape(np.concatenate(rest), (), (), is_run=False))
    return shapes


def _shape(subscriptions: Int64s, axis: Int32s, kind: Int32s, has_extra: bool) -> _Shape:  # noqa: FBT001 - a property of the shape
    at = np.flatnonzero(kind == EQUALITY)
    others = np.flatnonzero(kind != EQUALITY)
    is_run = not has_extra and (len(others) == 0 or (len(others) == 1 and kind[others[0]] != BETWEEN))
    range_at = int(others[0]) if is_run and len(others) else -1
    return _Shape(subscriptions, tuple(axis[at].tolist()), tuple(at.tolist()), is_run, range_at)


def _run(terms: Terms, tops: list[int], keys: GroupKeys, shape: _Shape, group: Int32s) -> tuple[SortedRun, Int64s]:
    axis, falling = -1, False
    rows = group.astype(np.int64) << 32
    if shape.range_at >= 0:
        term = terms.starts[shape.subscriptions] + shape.range_at
        axis = int(terms.axis[term[0]])
        falling = bool(terms.high[term[0]] != tops[axis])
        rows |= np.int64(tops[axis]) - terms.high[term] if falling else terms.low[term]
    order = np.argsort(rows)
    rows = rows[order]
    starts = np.concatenate([_FIRST, np.flatnonzero(rows[1:] != rows[:-1]) + 1])
    rows = rows[starts]
    group_starts = np.searchsorted(rows >> 32, np.arange(keys.count + 1)).astype(np.int32)
    at = np.append(starts, len(order)).astype(np.int32)
    return SortedRun(keys, axis, falling, rows, group_starts, at), order


def _block(terms: Terms, keys: GroupKeys, subscriptions: Int64s, group: Int32s) -> tuple[Block, Int64s]:
    """Make a block: the most selective term of each row first, rows by group and then by that term."""
    owner, axis, low, high, patterns = _block_terms(terms, keys, subscriptions)
    starts = np.searchsorted(owner, np.arange(len(subscriptions) + 1))
    tops = np.array([max(a.top, 1) for a in terms.axes], dtype=np.float64)
    plain = (axis >= 0) & (axis < len(terms.axes))
    width = np.where(plain, (high - low) / tops[np.where(plain, axis, 0)], 2.0).astype(np.float32)
    least = np.flatnonzero(width == np.repeat(np.minimum.reduceat(width, starts[:-1]), np.diff(starts)))
    best = least[np.searchsorted(least, starts[:-1])]
    for column in (axis, low, high):
        column[best], column[starts[:-1]] = column[starts[:-1]].copy(), column[best].copy()
    mixed = (axis.astype(np.int64) * 0x9E3779B1 + low) * 0x85EBCA77 + high
    hashed = np.add.reduceat((mixed ^ (mixed >> 29)) * np.int64(0x27D4EB2F165667C5), starts[:-1])
    head = (axis[starts[:-1]].astype(np.int64) << 32) | low[starts[:-1]]
    order = np.lexsort((hashed, head, group))
    begin, end = starts[:-1][order], starts[1:][order]
    same = _same_rows(np.diff(starts)[order], group[order], hashed[order], begin, (axis, low, high))
    rows = np.flatnonzero(~same)
    chosen = spans(begin[rows], end[rows])
    local = np.unique(np.where(axis < 0, -1 - axis, axis)[(axis < len(terms.axes))])
    number = np.zeros(len(terms.axes), dtype=np.int32)
    number[local] = np.arange(len(local), dtype=np.int32)
    axis = axis[chosen]
    signed = np.where(axis < 0, -1 - number[np.where(axis < 0, -1 - axis, 0)], 0)
    inner = np.where(axis < 0, signed, number[np.clip(axis, 0, len(terms.axes) - 1)])
    inner = np.where(axis >= len(terms.axes), len(local), inner).astype(np.int32)
    block = Block(
        keys,
        np.searchsorted(group[order][rows], np.arange(keys.count + 1)).astype(np.int32),
        local.astype(np.int32),
        patterns,
        np.r_[0, np.cumsum(end[rows] - begin[rows])].astype(np.int64),
        inner,
        low[chosen],
        high[chosen],
        np.r_[rows, len(order)].astype(np.int32),
    )
    return block, order


def _block_terms(
    terms: Terms, keys: GroupKeys, subscriptions: Int64s
) -> tuple[Int64s, Int32s, Int32s, Int32s, list[tuple[int, int]]]:
    """Return the terms that the group does not already decide, by row."""
    begin, end = terms.starts[subscriptions], terms.starts[subscriptions + 1]
    chosen = spans(begin, end)
    owner = np.repeat(np.arange(len(subscriptions)), end - begin)
    if keys.axes:
        keep = ~np.isin(terms.axis[chosen], keys.axes)
        chosen, owner = chosen[keep], owner[keep]
    axis, low, high = terms.axis[chosen], terms.low[chosen], terms.high[chosen]
    row = np.full(len(terms.possible), -1, dtype=np.int64)
    row[subscriptions] = np.arange(len(subscriptions))
    extras = np.flatnonzero(row[terms.extra_owner] >= 0)
    patterns: list[tuple[int, int]] = []
    if len(extras):
        excluded = terms.excluded[extras]
        extra_axis, what = terms.extra_axis[extras], terms.extra_what[extras].copy()
        both = extra_axis[~excluded].astype(np.int64) << 32 | what[~excluded]
        distinct, number = np.unique(both, return_inverse=True)
        patterns = [(key >> 32, key & 0xFFFFFFFF) for key in distinct.tolist()]
        what[~excluded] = number
        owner = np.r_[owner, row[terms.extra_owner[extras]]]
        axis = np.r_[axis, np.where(excluded, -1 - extra_axis, len(terms.axes))].astype(np.int32)
        low, high = np.r_[low, what], np.r_[high, what]
        order = np.argsort(owner, kind="stable")
        owner, axis, low, high = owner[order], axis[order], low[order], high[order]
    return owner, axis, low, high, patterns


def _same_rows(length: Int64s, group: Int32s, hashed: Int64s, begin: Int64s, columns: tuple[Int32s, ...]) -> Bools:
    """Return which rows equal the previous row."""
    same = np.zeros(len(length), dtype=bool)
    if len(length) < 2:
        return same
    alike = (length[1:] == length[:-1]) & (group[1:] == group[:-1]) & (hashed[1:] == hashed[:-1])
    pairs = np.flatnonzero(alike) + 1
    if len(pairs):
        size = length[pairs]
        here, before = spans(begin[pairs], begin[pairs] + size), spans(begin[pairs - 1], begin[pairs - 1] + size)
        equal = np.ones(len(here), dtype=bool)
        for column in columns:
            equal &= column[here] == column[before]
        same[pairs] = np.logical_and.reduceat(equal, np.cumsum(size) - size)
    return same
