"""Lending of trigger groups and taking them back, with their leases and rows; this module sends nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from evenflow.triggers.app import TriggerApp
from evenflow.triggers.grouping import deal, form_groups
from evenflow.triggers.messages import NO_NUMBER, Instruct, Lend, Number
from evenflow.triggers.state import WorkerState
from evenflow.triggers.waiting import Invocation

FIRST_PART, NEXT_PART = 256, 16  # triggers in the first message of a group, and the growth factor for the next ones


def selected(state: WorkerState, instruct: Instruct, trigroup_s: float) -> list[tuple[float, list[Invocation]]]:
    """Take the groups that an instruction asks for out of the queue, each with its predicted seconds."""
    if instruct.share:
        return deal(state.waiting, state.estimate, instruct.share, instruct.after)
    return form_groups(state.waiting, state.estimate, trigroup_s, instruct.seconds, instruct.groups)


def lent(
    app: TriggerApp, state: WorkerState, name: str, group: list[Invocation], number: Number, taker: str, now: float
) -> Iterator[Lend]:
    """Grant leases on a group of this worker's triggers; yield its messages, the last with the instruction's number."""
    rows = {}
    leased = []
    for invocation in group:
        place = app.triggers[invocation.trigger].table, invocation.key
        lease = state.leases.grant(invocation.trigger, *place, taker, now)
        rows[place] = state.rows.copied(*place)
        leased.append((place, invocation._replace(home=name, lease=lease)))
    for begin, end in _parts(len(leased)):
        part = leased[begin:end]
        needed = {place: rows[place] for place, _ in part}
        yield Lend(number if end == len(leased) else NO_NUMBER, tuple(invocation for _, invocation in part), needed)


def taken_back(app: TriggerApp, state: WorkerState, numbers: Iterable[int]) -> list[Invocation]:
    """Close leases; return the invocations that must run instead."""
    found = []
    for number in numbers:
        lease = state.leases.close(number)
        if lease is not None:
            state.missed.pop(lease.who, None)
            size = app.triggers[lease.trigger].size_of(state.rows.get(lease.table, lease.key))
            found.append(Invocation(lease.trigger, lease.key, size))
    return found


def _parts(count: int) -> Iterator[tuple[int, int]]:
    """Split a group: its small first part arrives soon, and keeps the taker busy until the next part arrives."""
    begin, size = 0, FIRST_PART
    while begin < count:
        yield begin, min(count, begin + size)
        begin, size = begin + size, size * NEXT_PART
