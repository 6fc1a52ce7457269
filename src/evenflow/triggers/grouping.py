"""Trigger groups, the unit of transfer: the longest triggers in the queue, up to TriGroup (*DLBer*, section 2.1)."""

from __future__ import annotations

import numpy as np

from evenflow.errors import BadInput
from evenflow.triggers.estimate import WorkloadEstimator
from evenflow.triggers.waiting import Invocation, Waiting

NO_MORE_THAN = 1 + 1e-9  # tolerance: rounding must not exclude the last trigger of a full group


def form_groups(
    waiting: Waiting,
    estimate: WorkloadEstimator,
    trigroup_s: float,
    seconds: float,
    count: int = 0,
) -> list[tuple[float, list[Invocation]]]:
    """Take groups out of a queue: ``count`` groups, or with 0 as many as hold ``seconds`` of predicted work.

    The triggers are sorted by predicted time, longest first; equal times keep the order of the queue.
    Each group takes triggers from the head of this list up to ``trigroup_s`` seconds, but at least one.
    Longest first means that a group holds few triggers.

    Returns
    -------
    list of (float, list of Invocation)
        Each group with its predicted seconds.

    Examples
    --------
    >>> from evenflow.triggers.estimate import MeanPerType
    >>> estimate = MeanPerType()
    >>> estimate.learn("short", 0, 0.3)
    >>> estimate.learn("long", 0, 0.8)
    >>> queue = Waiting()
    >>> for trigger, key in (("short", 1), ("long", 2), ("short", 3), ("long", 4)):
    ...     _ = queue.add(Invocation(trigger, key))
    >>> [[i.key for i in group] for _, group in form_groups(queue, estimate, 1.0, 2.0)]
    [[2], [4], [1, 3]]
    """
    if (count < 1 and seconds <= 0) or not waiting.items:
        return []
    if count < 1:
        trigroup_s = min(trigroup_s, seconds)  # half of a short queue is less than one full group
    lines = {trigger: estimate.line(trigger) for trigger in waiting.sums}
    order = _ranked(waiting, lines)
    items = waiting.items
    chosen: list[tuple[float, list[int]]] = []
    total = group_s = 0.0
    group: list[int] = []
    while order:
        invocation = items.get(order[-1])
        if invocation is None:
            order.pop()  # no longer in the queue
            continue
        at_zero, slope = lines[invocation.trigger]
        time = at_zero + slope * invocation.size
        if group and group_s + time > trigroup_s * NO_MORE_THAN:
            chosen.append((group_s, group))
            total += group_s
            group, group_s = [], 0.0
            if len(chosen) == count or (count < 1 and total >= seconds / NO_MORE_THAN):
                break
        group.append(order.pop())
        group_s += time
    if group:
        chosen.append((group_s, group))
    return [(work, waiting.take(members)) for work, members in chosen]


def _ranked(waiting: Waiting, lines: dict[str, tuple[float, float]]) -> list[int]:
    """Return the queue's numbers, the one to take first at the end; cached, so several instructions sort it once."""
    if waiting.ranked is None or waiting.ranked[0] != lines:
        numbers = np.fromiter(waiting.items, np.int64, len(waiting.items))
        predicted = np.array([lines[i.trigger][0] + lines[i.trigger][1] * i.size for i in waiting.items.values()])
        order = np.argsort(-predicted, kind="stable")
        waiting.ranked = (lines, numbers[order][::-1].tolist())
    return waiting.ranked[1]


def deal(
    waiting: Waiting, estimate: WorkloadEstimator, share: float, after: float = 0.0
) -> list[tuple[float, list[Invocation]]]:
    """Take a share of the work out of a queue, spread evenly from head to end: ours, for workers that ask.

    The first part ``after`` of the work stays, because the taker has that much to do before it starts what it gets.
    So both workers continue in the order of the queue, as if they shared one queue. With the longest triggers first,
    as published, hubs would run at once, and again for every update from triggers that wait elsewhere.
    Borrowed triggers are taken only when there are too few others, because they must go through their home.

    Returns
    -------
    list of (float, list of Invocation)
        One group with its predicted seconds, or none.

    Examples
    --------
    >>> from evenflow.triggers.estimate import MeanPerType
    >>> queue = Waiting()
    >>> for key in range(8):
    ...     _ = queue.add(Invocation("a", key))
    >>> [[i.key for i in group] for _, group in deal(queue, MeanPerType(), 0.5, after=0.25)]
    [[2, 4, 6]]
    """
    lines = {trigger: estimate.line(trigger) for trigger in waiting.sums}
    head = after * waiting.load(estimate)
    rest: list[tuple[int, float, bool]] = []
    passed = total = own = 0.0
    for number, invocation in waiting.in_order():
        at_zero, slope = lines[invocation.trigger]
        time = at_zero + slope * invocation.size
        if passed * NO_MORE_THAN >= head:
            rest.append((number, time, not invocation.home))
            total += time
            own += time if not invocation.home else 0.0
        passed += time
    of_own = min(1.0, share * total / own) if own else 0.0
    of_borrowed = (share * total - of_own * own) / (total - own) if total > own * NO_MORE_THAN else 0.0
    chosen = []
    want = taken = 0.0
    for number, time, ours in rest:
        part = of_own if ours else of_borrowed
        want += part * time
        if part > 0 and taken + time / 2 <= want * NO_MORE_THAN:
            chosen.append(number)
            taken += time
    return [(taken, waiting.take(chosen))] if chosen else []


def trigroup_from(latency_s: float, transfer_s: float, trigger_s: float, speed: float, overhead: float) -> float:
    """Return the smallest TriGroup, in seconds, whose transmission takes at most a share ``overhead`` of its work.

    *DLBer* says only that TriGroup depends on the worker's computing capacity and the network's bandwidth.
    A group of g seconds holds g / t triggers of t seconds, and its transmission takes latency + g / t × transfer.

    Parameters
    ----------
    latency_s, transfer_s
        Seconds per message, and seconds per trigger in it (the bandwidth).
    trigger_s, speed
        Mean seconds of a trigger on a worker of speed 1, and the speed of this worker (its capacity).
    overhead
        The allowed share, such as 0.01.

    Examples
    --------
    >>> round(trigroup_from(0.005, 0.0005, 0.1, 1.0, 0.01), 6)
    1.0
    """
    mean_s = trigger_s / speed
    room = overhead - transfer_s / mean_s
    if room <= 0:
        least = transfer_s / mean_s
        raise BadInput(
            f"an overhead of {overhead:g}", f"more than {least:.3g}, which triggers cost on the way", "trigroup"
        )
    return max(mean_s, latency_s / room)
