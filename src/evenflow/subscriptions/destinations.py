"""Destinations: an event goes to a broker or a lane if one subscription there matches, however many do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenflow.subscriptions.columns import Bools, Int32s
from evenflow.subscriptions.part import Part
from evenflow.subscriptions.segment import Block, Run

_FLAGS_AT_ONCE = 1 << 24


def reached(parts: Sequence[Part], targets: Int32s, count: int) -> Bools:
    """Tell for every event (row) and destination (column) whether a match is there.

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


def _reach_run(part: Part, run: Run, number: int, targets: Int32s, flags: Bools) -> None:
    """Mark what the runs reach: an event matches a prefix of its group, so it reaches a destination whose first member in the group is in it."""
    first, last = int(run.members_at[0]), int(run.members_at[-1])
    group = np.repeat(np.arange(run.keys.count), np.diff(run.members_at[run.group_starts]))
    place = np.arange(first, last)
    target = targets[part.segment.members[first:last]]
    some = np.flatnonzero(target >= 0)[::-1]  # the last assignment stays: backwards, that is the first member
    earliest = np.full((run.keys.count, flags.shape[1]), last, dtype=np.int64)
    earliest[group[some], target[some]] = place[some]
    start, stop = (side[number] for side in part.slices)
    mine = part.groups(run)
    matched = np.flatnonzero(stop > start)
    flags[matched] |= earliest[mine[matched]] < stop[matched, None]


def _reach_block(part: Part, block: Block, targets: Int32s, flags: Bools) -> None:
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
