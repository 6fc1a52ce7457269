"""Workloads of the metering experiments: operators on the units of a tree, and their memory changes (section 4)."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evenflow.errors import BadInput
from evenflow.experiments.settings import setting
from evenflow.operators.graph import Graph
from evenflow.operators.tree import Tree, balanced

Change = tuple[float, int, float]
"""A memory change: the time, the operator, and the amount."""


@dataclass(frozen=True)
class WorkloadSettings:
    """Settings from Tables 4 and 5, and those that the publication does not give."""

    levels: int = setting(4, "levels of the tree; 4 levels of 2 are 15 units", low=1, high=14)
    fanout: int = setting(2, "children of a unit", low=1, high=100)
    operators: int = setting(360, "operators in all (Table 5)", low=1, high=1_000_000)
    placement: Literal["even", "random"] = setting("even", "as many operators on every unit, or a random unit for each")
    size_low: int = setting(1, "smallest initial size of an operator, % of a unit's memory", low=0, high=100)
    size_high: int = setting(2, "largest initial size", low=0, high=100)
    chained: float = setting(0.5, "probability that an operator feeds another one", low=0.0, high=1.0)
    same_unit: float = setting(0.5, "share of those that feed one on the same unit, not above it", low=0.0, high=1.0)
    seconds: float = setting(960.0, "length of a run: growth in its first half, shrinking in the second", low=10.0)
    start_s: float = setting(2.0, "when memory begins to change", low=0.0)
    timespan_s: float = setting(16.0, "seconds for which one operator changes (Timespan)", low=0.1)
    change_s: float = setting(1.0, "seconds between its changes (Period)", low=0.1)
    rate: float = setting(2.0, "mean of a change, Poisson distributed (Increase Rate)", low=0.0, high=1000.0)
    unit_pct: float = setting(1.0, "what one Poisson unit is, % of a unit's memory", low=0.0)
    surges: int = setting(1, "operators that change at the same time", low=1, high=10_000)


@dataclass(frozen=True)
class Scenario:
    """One scenario: the tree, the operator graph, the initial places and sizes, and the schedule of changes."""

    tree: Tree
    graph: Graph
    where: dict[int, str]
    sizes: dict[int, float]
    schedule: Sequence[Change]

    def memory(self) -> dict[str, float]:
        """Return every unit's initial memory, in per cent."""
        found = dict.fromkeys(self.tree.units, 0.0)
        for op, unit in self.where.items():
            found[unit] += self.sizes[op]
        return found

    def refuse_overload(self, upper: float, where: str) -> None:
        """Refuse a scenario in which a unit is overloaded at the start (section 4.2 starts below the threshold)."""
        for unit, memory in self.memory().items():
            if memory > upper:
                given = f"{unit} with {memory:g} % at the start"
                raise BadInput(given, f"at most {upper:g} % on every unit", where)


def scenario(settings: WorkloadSettings, chance: random.Random) -> Scenario:
    """Return a random scenario."""
    if settings.size_low > settings.size_high:
        raise BadInput(str(settings.size_low), f"at most size_high={settings.size_high}", "--set size_low")
    tree = balanced(settings.levels, settings.fanout)
    count = settings.operators
    units = tree.units
    if settings.placement == "even":
        seats = [units[n % len(units)] for n in range(count)]
        chance.shuffle(seats)
    else:
        seats = [chance.choice(units) for _ in range(count)]
    where = dict(enumerate(seats))
    sizes = {op: float(chance.randint(settings.size_low, settings.size_high)) for op in range(count)}
    downs = _chains(settings, tree, where, chance)
    fed = {down for down in downs.values() if down is not None}
    under = {unit: sorted(leaves) for unit, leaves in tree.leaves.items()}
    meters = {op: [chance.choice(under[where[op]])] for op in range(count) if op not in fed}
    schedule = _schedule(settings, chance)
    return Scenario(tree, Graph.of(downs, meters), where, sizes, schedule)


def _chains(
    settings: WorkloadSettings, tree: Tree, where: dict[int, str], chance: random.Random
) -> dict[int, int | None]:
    """Choose which operators feed others, on the same unit or one above it; each is fed by at most one."""
    downs: dict[int, int | None] = dict.fromkeys(where)
    open_at: dict[str, list[int]] = {unit: [] for unit in tree.units}  # operators that nothing feeds yet
    for op, unit in where.items():
        open_at[unit].append(op)
    order = list(where)
    chance.shuffle(order)
    for op in order:
        if chance.random() >= settings.chained:
            continue
        above = tree.path_up(where[op])[1:]
        if chance.random() < settings.same_unit:
            unit = where[op]
        elif above:
            unit = chance.choice(above)
        else:
            continue
        candidates = [other for other in open_at[unit] if not _reaches(downs, other, op)]
        if candidates:
            chosen = chance.choice(candidates)
            open_at[unit].remove(chosen)
            downs[op] = chosen
    return downs


def _reaches(downs: dict[int, int | None], start: int, goal: int) -> bool:
    at: int | None = start
    while at is not None:
        if at == goal:
            return True
        at = downs[at]
    return False


def _schedule(settings: WorkloadSettings, chance: random.Random) -> list[Change]:
    """Return the changes: operators grow one after the other, then each that grew shrinks once, in random order."""
    spans = int(settings.seconds / 2 / settings.timespan_s)
    steps = round(settings.timespan_s / settings.change_s)
    changes: list[Change] = []
    for _ in range(settings.surges):
        grown = [chance.randrange(settings.operators) for _ in range(spans)]
        shrunk = sorted(set(grown))
        chance.shuffle(shrunk)
        for sign, chosen, begin in ((1.0, grown, 0), (-1.0, shrunk, spans)):
            for span, op in enumerate(chosen, begin):
                for step in range(steps):
                    at = settings.start_s + span * settings.timespan_s + step * settings.change_s
                    if at <= settings.seconds:
                        changes.append((at, op, sign * settings.unit_pct * poisson(chance, settings.rate)))
    return sorted(changes, key=lambda change: change[0])


def poisson(chance: random.Random, mean: float) -> int:
    """Return a Poisson random number by multiplying uniform ones (Knuth); large means are drawn in parts.

    Examples
    --------
    >>> chance = random.Random(1)
    >>> 1.9 < sum(poisson(chance, 2.0) for _ in range(10_000)) / 10_000 < 2.1
    True
    """
    total = 0
    while mean > 500.0:
        total += poisson(chance, 500.0)
        mean -= 500.0
    limit, product, count = math.exp(-mean), chance.random(), 0
    while product > limit:
        product *= chance.random()
        count += 1
    return total + count
