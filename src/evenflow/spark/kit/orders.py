"""Orders to keys from the control log, and the entries to append next: pure functions, used live and in tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from evenflow.spark.kit.keys import Keys
from evenflow.spark.kit.routes import INSTALL, MOVE, RECEIPT, SETTING, Entry, ImpossibleEntryError, Routes

Wanted = tuple[int, int, str]
"""A slice, its target lane, and the reason."""


class Addressed(NamedTuple):
    """An order and the key it goes to."""

    key: int
    order: Order


def orders(entries: Iterable[Entry], before: Routes, keys: Keys) -> list[Addressed]:
    """Return the orders that follow from entries; ``before`` are the routes before the first of them."""
    sessions = {number: (s.slice, s.giver, s.taker) for number, s in before.sessions.items()}
    found = []
    for number, entry in enumerate(entries, before.version):
        if entry.kind == MOVE:
            sessions[entry.session] = (entry.slice, entry.giver, entry.taker)
        if entry.kind == SETTING:
            continue
        if entry.session not in sessions:
            raise ImpossibleEntryError(number, entry)
        slice_id, giver, taker = sessions[entry.session]
        addressed = {
            MOVE: [(giver, RELEASE), (taker, EXPECT)],
            INSTALL: [(taker, INSTALL)],
            RECEIPT: [(giver, RECEIPT)],
        }[entry.kind]
        found += [Addressed(keys.key(slice_id, lane), Order(number, what, entry.session)) for lane, what in addressed]
    return found


def due(routes: Routes, committed: int, now: float, late: Callable[[int], bool] = lambda session: False) -> list[Entry]:
    """Return an install for each session whose shipping is committed and not ``late``, a receipt for each committed install."""
    entries = []
    for number, session in routes.sessions.items():
        if session.installed_at is None:
            if session.moved_at < committed and not late(number):
                entries.append(Entry(INSTALL, now, number))
        elif session.installed_at < committed:
            entries.append(Entry(RECEIPT, now, number))
    return entries


def moves(wanted: Sequence[Wanted], draft: Routes, now: float) -> list[Entry]:
    """Return the entries that move slices, and apply them to the draft; skip slices that are moving or already there."""
    entries = []
    moving = set(draft.moving())
    for slice_id, taker, why in wanted:
        giver = draft.lane[slice_id]
        if slice_id not in moving and giver != taker:
            entry = Entry(MOVE, now, draft.next_session, slice_id, giver, taker, why)
            draft.apply([entry])
            moving.add(slice_id)
            entries.append(entry)
    return entries


RELEASE, EXPECT = f"{MOVE}: release", f"{MOVE}: expect"


class Order(NamedTuple):
    """An instruction of the control log to one key; ``number`` is its position in the log."""

    number: int
    what: str
    session: int


PACKED: Final = "k int, part int, number long, what string, session long, cell binary"
"""The schema of both packed rows (cells) and orders of the control log on their way to a slice.

``part`` and ``number`` restore the order of the source, because a shuffle does not keep it.
``session`` holds the session of an order, and the batch of a cell.
"""
