"""A bounded search over delivery orders: units that negotiate across one link, in every order and with every fault.

Every unit is woken whenever it pleases, messages arrive in any order, are lost or repeated, and units restart.
After every step no operator may run twice or be lost, and no operator may run above the one that it feeds.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from evenflow.actor import Received, Save, Send, Started, Wake, Woken
from evenflow.operators.graph import Graph
from evenflow.operators.session import Giver
from evenflow.operators.sizes import Sizes
from evenflow.operators.tree import Tree
from evenflow.operators.unit import MONITOR


@dataclass
class Position:
    """One state of the world: the units, what is on its way, and what they have saved."""

    graph: Graph
    tree: Tree
    sizes: Sizes
    build: Any
    units: dict[str, Any] = field(default_factory=dict)
    saved: dict[str, dict[str, Any]] = field(default_factory=dict)
    flight: list[tuple[str, str, Any]] = field(default_factory=list)
    wakes: dict[str, set[str]] = field(default_factory=dict)
    now: float = 0.0
    looks: int = 0
    faults: int = 0

    def start(self) -> Position:
        for unit in self.tree.units:
            self.saved[unit] = {}
            self.wakes[unit] = set()
            self.units[unit] = self.build(unit)
            self.obey(unit, Started({}))
        return self

    def obey(self, unit: str, event: Any) -> None:
        for command in self.units[unit].handle(event, self.now):
            if isinstance(command, Send):
                self.flight.append((unit, command.to, command.message))
            elif isinstance(command, Save):
                self.saved[unit].update(command.values)
            elif isinstance(command, Wake):
                self.wakes[unit].add(command.name)

    def copy(self) -> Position:
        shared = [self.graph, self.tree, self.sizes, self.build]
        return copy.deepcopy(self, {id(thing): thing for thing in shared})

    # -- steps ----------------------------------------------------------------------------------

    def steps(self, looks: int, faults: int) -> Iterator[tuple[str, Any]]:
        for number in range(len(self.flight)):
            yield "deliver", number
        for unit in self.tree.units:
            for name in sorted(self.wakes[unit] - {MONITOR}):
                yield "wake", (unit, name)
            if self.looks < looks:
                yield "look", unit
        if self.faults < faults:
            for number in range(len(self.flight)):
                yield "lose", number
                yield "repeat", number
            for unit in self.tree.units:
                yield "restart", unit

    def take(self, step: tuple[str, Any]) -> None:
        kind, what = step
        if kind == "deliver":
            sender, to, message = self.flight.pop(what)
            self.obey(to, Received(sender, message))
        elif kind == "wake":
            self.wakes[what[0]].discard(what[1])
            self.obey(what[0], Woken(what[1]))
        elif kind == "look":
            self.looks += 1
            self.now += 0.4  # every sixth look also ends what has waited
            self.obey(what, Woken(MONITOR))
        elif kind == "lose":
            self.faults += 1
            self.flight.pop(what)
        elif kind == "repeat":
            self.faults += 1
            self.flight.append(self.flight[what])
        else:
            self.faults += 1
            self.wakes[what].clear()
            self.units[what] = self.build(what)
            self.obey(what, Started(dict(self.saved[what])))

    # -- what must hold -------------------------------------------------------------------------

    def check(self) -> None:
        where: dict[int, str] = {}
        for name, unit in self.units.items():
            for op in unit.custody.owned:
                assert op not in where, f"operator {op} runs on {where[op]} and on {name}"
                where[op] = name
        shipped: dict[int, str] = {}
        for unit in self.units.values():
            for (_, taker), parcel in unit.custody.giving.items():
                if parcel.state is Giver.SHIPPED:
                    shipped.update(dict.fromkeys(parcel.ops, taker))
        whole = {op: where.get(op) or shipped.get(op) for op in self.graph.operators}
        assert None not in whole.values(), f"lost: {[op for op, at in whole.items() if at is None]}"
        wrong = self.graph.misplaced(whole, self.tree)
        assert not wrong, wrong

    def key(self) -> tuple[Any, ...]:
        """Two positions with the same key have the same future, but for the time."""
        units = tuple(
            repr((u.custody.durable(), sorted(u.custody.locked.items()), u.state, sorted(u.reserved), u._waiting))
            for u in self.units.values()
        )
        flight = tuple(sorted(repr(message) for message in self.flight))
        return units, flight, tuple(map(tuple, map(sorted, self.wakes.values()))), self.looks, self.faults


def walk(position: Position, chance: random.Random, steps: int, looks: int, faults: int) -> Position:
    """Take random steps, checking after each."""
    for _ in range(steps):
        if chance.random() < 0.08:  # memory changes while messages are under way
            position.sizes[chance.choice(sorted(position.sizes))] = chance.choice((2.0, 12.0, 30.0, 55.0))
        possible = list(position.steps(looks, faults))
        if not possible:
            break
        # Mostly messages move: else units would look about all the time and nothing would come to an end.
        moves = [step for step in possible if step[0] in ("deliver", "wake")]
        position.take(chance.choice(moves if moves and chance.random() < 0.6 else possible))
        position.check()
    return position


def settle(position: Position, rounds: int = 12) -> Position:
    """Deliver everything and look again until nothing is under way; the sizes must be calm by now."""
    for _ in range(rounds):
        while position.flight:
            position.take(("deliver", 0))
            position.check()
        for unit in position.tree.units:
            for name in sorted(position.wakes[unit] - {MONITOR}):
                position.take(("wake", (unit, name)))
        position.now += 3.0
        for unit in position.tree.units:
            position.take(("look", unit))
    return position


def explore(position: Position, limit: int, looks: int, faults: int) -> int:
    """Visit positions in depth-first order, each once, up to a limit, and return how many there were."""
    seen: set[tuple[Any, ...]] = set()
    stack = [position]
    while stack and len(seen) < limit:
        at = stack.pop()
        for step in at.steps(looks, faults):
            after = at.copy()
            after.take(step)
            after.check()
            key = after.key()
            if key not in seen:
                seen.add(key)
                stack.append(after)
    return len(seen)
