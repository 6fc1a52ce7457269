"""Turn a segment back into predicates, so that an index can be rebuilt without keeping its source."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.subscriptions import columns as op
from evenflow.subscriptions.axes import ANYTHING, NUMBERS, Axis
from evenflow.subscriptions.columns import Bools, Int32s, Int64s, Predicates
from evenflow.subscriptions.segment import Block, Segment, SortedRun

Column = npt.NDArray[Any]  # of any number type: Predicates fixes the types at the end


def decompile(segment: Segment, alive: Bools) -> tuple[Predicates, Int32s, Int64s]:
    """Return one subscription for each row that still has members, the members, and where each row's members begin.

    Parameters
    ----------
    alive
        Which member numbers are still in the index.
    """
    both: list[SortedRun | Block] = [*segment.runs, *segment.blocks]
    parts = [_SegmentRows(segment, part) for part in sorted(both, key=lambda part: int(part.members_at[0]))]
    counts = np.concatenate([np.zeros(1, dtype=np.int64), *(part.members_kept(alive) for part in parts)])
    keep = counts[1:] > 0
    first = np.r_[0, np.cumsum(counts[1:][keep])]
    numbers = segment.members[alive[segment.members]]
    before = np.cumsum([0, *(part.rows for part in parts)])
    terms = [part.terms(int(base)) for part, base in zip(parts, before, strict=False)]
    joined = [np.concatenate([term[i] for term in terms]) if terms else np.zeros(0, dtype=np.int64) for i in range(6)]
    predicates = _predicates(segment.axes, int(before[-1]), joined)
    return predicates.only(np.flatnonzero(keep)), numbers, first


class _SegmentRows:
    """A run or a block, as rows of terms (owner, axis, low, high, extra, pattern)."""

    def __init__(self, segment: Segment, part: SortedRun | Block) -> None:
        self.segment, self.part = segment, part
        self.rows = len(part.members_at) - 1

    def members_kept(self, alive: Bools) -> Int64s:
        at = self.part.members_at
        kept = np.r_[0, np.cumsum(alive[self.segment.members[at[0] : at[-1]]])]
        return np.asarray(np.diff(kept[at - at[0]]), dtype=np.int64)

    def terms(self, base: int) -> tuple[Column, ...]:
        part, size = self.part, self.rows
        owner = np.arange(size)
        group = np.repeat(np.arange(part.keys.count), np.diff(part.group_starts))
        codes = part.keys.codes()[group]
        terms: list[tuple[Column, ...]] = []
        no = np.zeros(size, dtype=np.int64)
        for level, axis in enumerate(part.keys.axes):
            terms.append((owner, no + axis, codes[:, level], codes[:, level], no, no - 1))
        if isinstance(part, SortedRun):
            if part.axis >= 0:
                top = self.segment.axes[part.axis].top
                place = part.rows & 0xFFFFFFFF
                low, high = (no, top - place) if part.falling else (place, no + top)
                terms.append((owner, no + part.axis, low, high, no, no - 1))
        else:
            terms.append(self._block_terms(part))
        columns = [np.concatenate([no[:0], *(f[i] for f in terms)]).astype(np.int64) for i in range(6)]
        return columns[0] + base, *columns[1:]

    def _block_terms(self, block: Block) -> tuple[Column, ...]:
        owner = np.repeat(np.arange(self.rows), np.diff(block.starts))
        named = np.r_[block.axes, 0].astype(np.int64)
        number = np.where(block.axis < 0, -1 - block.axis, block.axis)
        axis = named[np.minimum(number, len(block.axes))]
        is_pattern = block.axis >= len(block.axes)
        pattern = np.full(len(owner), -1, dtype=np.int64)
        pair = np.array([*block.patterns, (0, 0)], dtype=np.int64)[np.where(is_pattern, block.low, -1)]
        axis = np.where(is_pattern, pair[:, 0], axis)
        pattern[is_pattern] = pair[is_pattern, 1]
        extra = ((block.axis < 0) | is_pattern).astype(np.int64)
        return owner, axis, block.low.astype(np.int64), block.high.astype(np.int64), extra, pattern


def _predicates(axes: list[Axis], count: int, terms: list[Column]) -> Predicates:
    attributes = {name: number for number, name in enumerate(dict.fromkeys(axis.attribute for axis in axes))}
    texts: dict[str, int] = {}
    rows: list[tuple[Column, ...]] = []
    order = np.argsort(terms[1], kind="stable")
    bounds = np.searchsorted(terms[1][order], np.arange(len(axes) + 1))
    for number, axis in enumerate(axes):
        owner, _, low, high, extra, pattern = (column[order[bounds[number] : bounds[number + 1]]] for column in terms)
        name = attributes[axis.attribute]
        rows += [_full(row, name) for row in _axis_rows(axis, owner, low, high, extra == 1, pattern, texts)]
    columns = [np.concatenate([r[i] for r in rows]) if rows else np.zeros(0) for i in range(6)]
    by_owner = np.argsort(columns[0], kind="stable")
    owner, attribute, operator, near, rest, text = (column[by_owner] for column in columns)
    return Predicates(
        count,
        owner.astype(np.int32),
        attribute.astype(np.int32),
        operator.astype(np.int8),
        near.astype(np.float64),
        rest.astype(np.int16),
        text.astype(np.int32),
        tuple(attributes),
        tuple(texts),
    )


def _full(row: tuple[Column, Column | int, Column, Column, Column], name: int) -> tuple[Column, ...]:
    owner, operator, near, rest, text = row
    return owner, np.full(len(owner), name), np.broadcast_to(np.asarray(operator), len(owner)), near, rest, text


def _axis_rows(
    axis: Axis, owner: Int64s, low: Int64s, high: Int64s, extra: Bools, pattern: Int64s, texts: dict[str, int]
) -> list[tuple[Column, Column | int, Column, Column, Column]]:
    def rows(chosen: Bools, operator: Column | int, point: Column | None = None, text: Column | None = None) -> None:
        who = owner[chosen]
        none = np.zeros(len(who), dtype=np.int64)
        near = none if point is None else axis.points[point]
        rest = none if point is None or axis.rest is None else axis.rest[point]
        out_rows.append((who, operator, near, rest, none - 1 if text is None else text))

    out_rows: list[tuple[Column, Column | int, Column, Column, Column]] = []
    point = ~extra & (low == high) & (low & 1 == 1)
    out = extra & (pattern < 0)
    if axis.family == ANYTHING:
        rows(~extra, op.ANY)
    elif axis.family == NUMBERS:
        from_low, to_high = ~extra & ~point & (low > 0), ~extra & ~point & (high < axis.top)
        rows(point, op.EQUAL, low[point] >> 1)
        rows(out, op.UNEQUAL, low[out] >> 1)
        open_low, open_high = low[from_low] & 1 == 0, high[to_high] & 1 == 0
        rows(from_low, np.where(open_low, op.MORE, op.AT_LEAST), (low[from_low] >> 1) - open_low)
        rows(to_high, np.where(open_high, op.LESS, op.AT_MOST), high[to_high] >> 1)
        rows(~extra & ~point & ~from_low & ~to_high, op.NUMBER)
    else:
        words = np.array([texts.setdefault(word, len(texts)) for word in axis.words] or [0], dtype=np.int64)
        rows(point, op.EQ, None, words[low[point] >> 1])
        rows(out, op.NEQ, None, words[low[out] >> 1])
        rows(~extra & ~point, op.STRING)
        tried = extra & (pattern >= 0)
        codes = np.array([code for code, _ in axis.patterns] or [0], dtype=np.int64)
        words = np.array([texts.setdefault(text, len(texts)) for _, text in axis.patterns] or [0], dtype=np.int64)
        rows(tried, codes[pattern[tried]], None, words[pattern[tried]])
    return out_rows
