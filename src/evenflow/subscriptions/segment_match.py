"""Match events against one segment: their codes, the slices of its runs, the bitmaps of its blocks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from types import ModuleType

import numpy as np

from evenflow.subscriptions.columns import Bools, Int32s, Int64s, Words
from evenflow.subscriptions.events import EventColumns
from evenflow.subscriptions.segment import Block, Segment, SortedRun


class SegmentMatch:
    """The events matched against one segment; each part is computed when it is first needed."""

    def __init__(self, segment: Segment, events: EventColumns, alive: Bools | None, kernels: ModuleType) -> None:
        self.segment, self.events, self.alive, self.kernels = segment, events, alive, kernels
        self._codes: dict[int, Int32s] = {}
        self._groups: dict[int, Int32s] = {}

    def codes(self, axis: int) -> Int32s:
        """Return the events' codes on an axis."""
        if axis not in self._codes:
            self._codes[axis] = self.segment.axes[axis].encode(self.events)
        return self._codes[axis]

    def groups(self, part: SortedRun | Block) -> Int32s:
        """Return the events' groups, -1 for none."""
        keys = part.keys
        if id(keys) not in self._groups:
            self._groups[id(keys)] = keys.find([self.codes(axis) for axis in keys.axes], self.events.size)
        return self._groups[id(keys)]

    def places(self, run: SortedRun) -> Int32s:
        """Return the events' places on a run's axis."""
        if run.axis < 0:
            return run.places(None, 0, self.events.size)
        return run.places(self.codes(run.axis), self.segment.axes[run.axis].top, self.events.size)

    @cached_property
    def slices(self) -> tuple[Int32s, Int32s]:
        """The range of members of every run (row) that each event (column) matches."""
        shape = len(self.segment.runs), self.events.size
        start, stop = np.empty(shape, dtype=np.int32), np.empty(shape, dtype=np.int32)
        for number, run in enumerate(self.segment.runs):
            self.kernels.prefix_slices(
                run.rows,
                run.group_starts,
                run.members_at,
                self.groups(run),
                self.places(run),
                start[number],
                stop[number],
            )
        return start, stop

    def hits(self, block: Block, first: int, last: int) -> Iterator[tuple[Int64s, Int32s, Words]]:
        """Match a block for the events from ``first`` to ``last``; yield some events, the rows that match them, and bitmaps."""
        if block.keys.axes:
            group = self.groups(block)[first:last]
            order = np.argsort(group, kind="stable")
            order = order[np.searchsorted(group[order], 0) :]
            bounds = np.flatnonzero(np.diff(group[order], prepend=-1, append=-1))
        else:
            group = np.zeros(last - first, dtype=np.int32)
            order, bounds = np.arange(last - first), np.array([0, last - first] if last > first else [0])
        for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            mine = group[order[begin]]
            rows = int(block.group_starts[mine]), int(block.group_starts[mine + 1])
            for at in range(begin, end if rows[0] < rows[1] else begin, self.kernels.WINDOW):
                events = order[at : min(at + self.kernels.WINDOW, end)]
                matched, bits = self._window(block, events + first, rows)
                if len(matched):
                    yield events, matched, bits

    def _window(self, block: Block, events: Int64s, rows: tuple[int, int]) -> tuple[Int32s, Words]:
        codes = np.empty((len(block.axes), len(events)), dtype=np.int32)
        for number, axis in enumerate(block.axes.tolist()):
            codes[number] = self.codes(axis)[events]
        order = np.argsort(codes, axis=1)
        ordered = np.take_along_axis(codes, order, axis=1)
        bitmaps = self.kernels.prefix_bitmaps(order)
        patterns = self._patterns(block, events)
        tops = np.array([self.segment.axes[axis].top for axis in block.axes.tolist()], dtype=np.int32)
        terms = block.starts, block.axis, block.low, block.high
        matched: tuple[Int32s, Words] = self.kernels.match_block(ordered, tops, bitmaps, patterns, *terms, *rows)
        return matched

    def _patterns(self, block: Block, events: Int64s) -> Words:
        """Return the bitmap of each pattern: the events whose string satisfies it."""
        bitmaps = np.zeros((len(block.patterns), (len(events) + 63) // 64), dtype=np.uint64)
        for axis in dict.fromkeys(axis for axis, _ in block.patterns):
            strings = self.events.strings(self.segment.axes[axis].attribute)
            if strings is None:
                continue
            number = np.full(len(self.segment.axes[axis].patterns), -1, dtype=np.int64)
            for i, (on, pattern) in enumerate(block.patterns):
                if on == axis:
                    number[pattern] = i
            codes = strings.codes[events]
            for code in np.unique(codes[codes >= 0]).tolist():
                passed = number[self.segment.axes[axis].patterns_in(strings.values[code])]
                flags = np.zeros(bitmaps.shape[1] * 64, dtype=bool)
                flags[np.flatnonzero(codes == code)] = True
                bitmaps[passed[passed >= 0]] |= np.packbits(flags, bitorder="little").view(np.uint64)
        return bitmaps

    @cached_property
    def _dead_before(self) -> Int64s:
        """The number of removed members before each."""
        if self.alive is None:
            return np.zeros(len(self.segment.members) + 1, dtype=np.int64)
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(~self.alive[self.segment.members])])

    def run_counts(self, *, dead: bool) -> Int64s:
        """Return the number of matches of each event in the runs, with or without removed ones."""
        start, stop = self.slices
        counts = np.zeros(self.events.size, dtype=np.int64)
        for low, high in zip(start, stop, strict=True):
            counts += high - low
            if not dead and self.alive is not None:
                counts -= self._dead_before[high] - self._dead_before[low]
        return counts

    def weights(self, block: Block, rows: Int32s, *, dead: bool) -> Int64s:
        """Return the number of members of rows of a block, with or without removed ones."""
        first, last = block.members_at[rows], block.members_at[rows + 1]
        size = (last - first).astype(np.int64)
        return size if dead or self.alive is None else size - (self._dead_before[last] - self._dead_before[first])
