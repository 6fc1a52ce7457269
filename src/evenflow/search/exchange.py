"""Relieve the hottest node by exchanges: it gives one or two units to another node and takes back up to two lighter ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenflow.search.placement import Effort, Floats, Placement, Rows

PARTNERS = (8, 32, 256)  # how many nodes are tried, those with most room first
PAIRS_UP_TO = 24  # nodes with at most this many units also offer pairs
CHOICES = 4  # given bundles that are tried per bundle taken back, if several dimensions must fit
LOOKED_AT = 200  # the cheapest exchanges whose allowed nodes are checked
STEP_DOWN = 1e-4  # a smaller reduction of the peak is not worth an exchange


@dataclass(frozen=True, slots=True)
class Exchange:
    """Units that go from the hot node ``giver`` to ``taker``, and units that come back."""

    giver: int
    taker: int
    out: tuple[int, ...]
    back: tuple[int, ...]

    def apply(self, placement: Placement) -> None:
        """Make the exchange."""
        placement.shift(self.out, self.taker)
        placement.shift(self.back, self.giver)

    def undo(self, placement: Placement) -> None:
        """Revert the exchange."""
        placement.shift(self.out, self.giver)
        placement.shift(self.back, self.taker)


@dataclass(frozen=True, slots=True)
class Bundles:
    """Bundles of no, one or two units: their rows (-1: none), node, weight and the cost of moving them."""

    units: Rows
    node: Rows
    weight: Floats
    cost: Floats


def descend(placement: Placement, ceiling: float, goal: float, effort: Effort) -> None:
    """Exchange at the hottest node until no node is above the ceiling or no exchange helps."""
    while True:
        level = placement.utilisation()
        node = int(level.argmax())
        peak = float(level[node])
        if peak <= ceiling or not effort.spend(len(level) // 100):
            return
        exchange = relieve(placement, node, goal, effort)
        if exchange is None:
            exchange = _lowest(placement, node, goal, peak * (1 - STEP_DOWN), effort)
        if exchange is not None:
            exchange.apply(placement)
        elif not _pass_on(placement, node, max(goal, peak * (1 - STEP_DOWN)), effort):
            return


def relieve(placement: Placement, node: int, goal: float, effort: Effort) -> Exchange | None:
    """Return the cheapest exchange that leaves the node and its partner at or below the goal."""
    for count in PARTNERS:
        options = _options(placement, node, goal, count, effort)
        if options or count >= len(placement.capacity):
            return options[0] if options else None
    return None


def _lowest(placement: Placement, node: int, goal: float, start: float, effort: Effort) -> Exchange | None:
    """Return the exchange that leaves its two nodes lowest, by bisection between goal and start."""
    low, high, best = goal, start, relieve(placement, node, start, effort)
    while best is not None and high - low > STEP_DOWN * high:
        middle = (low + high) / 2
        options = _options(placement, node, middle, PARTNERS[1], effort)
        if options:
            best, high = options[0], middle
        else:
            low = middle
    return best


def _pass_on(placement: Placement, node: int, goal: float, effort: Effort, depth: int = 2) -> bool:
    """Relieve a node by overloading another one, which is relieved in turn; revert everything if that fails."""
    if effort.left <= 0:
        return False
    for first in _options(placement, node, goal, PARTNERS[0], effort, spill=0.3):
        first.apply(placement)
        then = relieve(placement, first.taker, goal, effort)
        if then is not None:
            then.apply(placement)
            return True
        if depth > 1 and _pass_on(placement, first.taker, goal, effort, depth - 1):
            return True
        first.undo(placement)
    return False


def _options(
    placement: Placement, node: int, goal: float, count: int, effort: Effort, spill: float = 0.0
) -> list[Exchange]:
    """Return the cheapest exchange with one of the ``count`` nodes that have most room.

    With ``spill`` the partner may end above the goal by that fraction, and the few exchanges that exceed it least are returned.
    """
    most = np.minimum(goal * placement.capacity, placement.most)
    room = most - placement.load
    excess = -room[node]
    d = int((excess / placement.scale).argmax())
    if excess[d] <= 0:
        return []
    partners = _partners(node, room[:, d] + spill * most[:, d], float(excess[d]), count)
    if not len(partners):
        return []
    out, back = _bundles(placement, [node]), _bundles(placement, partners.tolist())
    effort.spend(200 + (len(out.units) + len(back.units)) * len(excess) // 4)
    bound = (room + spill * most)[back.node]
    given, taken = _fitting(out, back, excess, bound, d)
    if spill:
        cost = ((out.weight[given] - back.weight[taken] - room[back.node[taken]]) / most[back.node[taken]]).max(axis=1)
    else:
        cost = out.cost[given] + back.cost[taken]
    options: list[Exchange] = []
    for i in np.argsort(cost, kind="stable")[:LOOKED_AT].tolist():
        exchange = Exchange(
            node,
            int(back.node[taken[i]]),
            tuple(u for u in out.units[given[i]].tolist() if u >= 0),
            tuple(u for u in back.units[taken[i]].tolist() if u >= 0),
        )
        if exchange.out and _allowed(placement, exchange):
            options.append(exchange)
            if len(options) == (6 if spill else 1):
                break
    return options


def _partners(node: int, room: Floats, excess: float, count: int) -> Rows:
    """Return up to ``count`` nodes with room for the excess, those with most room first."""
    fit = np.flatnonzero(room >= excess)
    fit = fit[fit != node]
    if len(fit) > count:
        fit = fit[np.argpartition(-room[fit], count)[:count]]
    ordered: Rows = fit[np.lexsort((fit, -room[fit]))]
    return ordered


def _fitting(out: Bundles, back: Bundles, excess: Floats, bound: Floats, d: int) -> tuple[Rows, Rows]:
    """Return the pairs of bundles whose difference covers the excess and fits the partner's room."""
    order = np.argsort(out.weight[:, d], kind="stable")
    sorted_out = out.weight[order, d]
    first = np.searchsorted(sorted_out, back.weight[:, d] + excess[d] * (1 - 1e-12))
    last = np.searchsorted(sorted_out, back.weight[:, d] + bound[:, d], side="right")
    given: list[Rows] = []
    taken: list[Rows] = []
    for step in range(1 if len(excess) == 1 else CHOICES):
        index = np.flatnonzero(first + step < last)
        if not len(index):
            break
        candidate = order[first[index] + step]
        fits = np.ones(len(index), np.bool_)
        for other in range(len(excess)):
            change = out.weight[candidate, other] - back.weight[index, other]
            fits &= (change >= excess[other] - 1e-12 * abs(excess[other])) & (change <= bound[index, other])
        given.append(candidate[fits])
        taken.append(index[fits])
    if not given:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate(given), np.concatenate(taken)


def _allowed(placement: Placement, exchange: Exchange) -> bool:
    return all(placement.may_run(u, exchange.taker) for u in exchange.out) and all(
        placement.may_run(u, exchange.giver) for u in exchange.back
    )


def _bundles(placement: Placement, nodes: list[int]) -> Bundles:
    """Return, for each node, the empty bundle, every unit and (if they are few) every pair of units."""
    pairs_too = len(nodes) <= PARTNERS[0]
    units: list[Rows] = []
    counts: list[int] = []
    for node in nodes:
        rows = placement.members(node)
        k = len(rows)
        pairs = k * (k - 1) // 2 if pairs_too and k <= PAIRS_UP_TO else 0
        both = np.full((1 + k + pairs, 2), -1)
        both[1 : 1 + k, 0] = rows
        if pairs:
            i, j = np.triu_indices(k, 1)
            both[1 + k :, 0] = rows[i]
            both[1 + k :, 1] = rows[j]
        units.append(both)
        counts.append(len(both))
    rows = np.concatenate(units)
    weight = np.zeros((len(rows), placement.weight.shape[1]))
    cost = np.zeros(len(rows))
    for column in (rows[:, 0], rows[:, 1]):
        there = np.flatnonzero(column >= 0)
        some = column[there]
        weight[there] += placement.weight[some]
        # A unit that has left its home costs nothing extra to move again.
        cost[there] += np.where(placement.owner[some] == placement.home[some], placement.size(some), 0.0)
    return Bundles(rows, np.repeat(nodes, counts), weight, cost)
