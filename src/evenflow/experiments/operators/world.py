"""Metering units in virtual time: the actors, a schedule of memory changes, and a log at regular intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evenflow.actor import Actor
from evenflow.experiments.operators.workload import Scenario
from evenflow.operators.carrier import Agrees, Runs, Stops
from evenflow.operators.central import Board, rebalance
from evenflow.operators.sizes import Sizes
from evenflow.sim import Network, Simulation

Build = Callable[[str, Sizes], Actor]
EPSILON = 1e-9


@dataclass(slots=True)
class Wire(Network):
    """A network without faults that counts its messages."""

    carried: int = 0
    one: list[float] = field(default_factory=list)

    def copies(self, sender: str, to: str, message: object, now: float) -> list[float]:
        """Count a message and return its only delay, as a list."""
        self.carried += 1
        return self.one


@dataclass
class World:
    """One run of a scenario.

    Parameters
    ----------
    scenario
        The tree, the operators with their units and sizes, and the schedule of changes.
    seed, upper
        The seed of the simulation, and the threshold above which a unit is overloaded.
    network
        The network between the units.
    trace
        Called with every trace record.
    """

    scenario: Scenario
    seed: int
    upper: float
    network: Network
    trace: Callable[[Mapping[str, Any]], object] | None = None
    log: list[list[float]] = field(default_factory=list)
    sizes: Sizes = field(default_factory=Sizes)
    runs: dict[int, set[str]] = field(default_factory=dict)
    doubled: set[int] = field(default_factory=set)
    duplicates: set[int] = field(default_factory=set)
    misplaced: set[int] = field(default_factory=set)
    infeasible: set[int] = field(default_factory=set)
    ever_doubled: set[int] = field(default_factory=set)  # also between two rows of the log
    ever_misplaced: set[int] = field(default_factory=set)
    pushed_over: int = 0
    transfers: int = 0
    sim: Simulation = field(init=False)

    def __post_init__(self) -> None:
        self.sizes = Sizes(self.scenario.sizes)
        self.runs = {op: set() for op in self.scenario.where}
        self.sim = Simulation(self.seed, self.network, self.trace)
        self.sim.carry_out.update({Runs: self._runs, Stops: self._stops, Agrees: self._agrees})

        if self.trace is not None:
            for unit, parent in self.scenario.tree.parent.items():
                self.trace({"kind": "node", "at": 0.0, "node": unit, "step": "joined", "parent": parent})
            for op, unit in self.scenario.where.items():
                self.trace({"kind": "move", "at": 0.0, "unit": op, "giver": None, "taker": unit})

    def start(self, build: Build) -> None:
        """Start every unit."""
        for unit in self.scenario.tree.units:
            self.sim.add(unit, lambda u=unit: build(u, self.sizes))  # type: ignore[misc]  # bound at once

    def play(self, seconds: float, every_s: float) -> None:
        """Run the schedule and write the log; changes at a time apply before the log row of that time."""
        at, schedule, sim = 0, self.scenario.schedule, self.sim
        for row in range(int(seconds / every_s) + 1):
            until = row * every_s
            while at < len(schedule) and schedule[at][0] <= until:
                time = schedule[at][0]
                sim.run(until=_just_before(time))
                while at < len(schedule) and schedule[at][0] == time:
                    self.change(schedule[at][1], schedule[at][2])
                    at += 1
            sim.run(until=_just_before(until))
            self.write_log()
        sim.run(until=seconds)

    def change(self, op: int, change: float) -> None:
        """Let an operator grow, or shrink at most to its initial size."""
        size = self.sizes[op] + change
        self.sizes[op] = max(size, self.scenario.sizes[op]) if change <= 0 else size

    def write_log(self) -> None:
        """Write one row of the log, and record the operators that are doubled or misplaced at this time."""
        self.log.append([self.memory(unit) for unit in self.scenario.tree.units])
        if self.trace is not None:
            limit = {"limit": self.upper / 100.0}
            for unit, memory in zip(self.scenario.tree.units, self.log[-1], strict=True):
                self.trace({"kind": "sample", "at": self.sim.now, "node": unit, "load": memory / 100.0, **limit})
        self.duplicates |= self.doubled
        self.infeasible |= self.misplaced

    def memory(self, unit: str) -> float:
        """Return a unit's memory in per cent, or 0 if it is down."""
        actor: Any = self.sim.cells[unit].actor
        return 0.0 if actor is None else float(actor.memory())

    # -- commands of units ----------------------------------------------------------------------

    def _runs(self, unit: str, command: Runs) -> None:
        for op in command.ops:
            holders = self.runs[op]
            holders.add(unit)
            if len(holders) > 1:
                self.doubled.add(op)
                self.ever_doubled.add(op)
        self._look_at(command.ops)

    def _stops(self, unit: str, command: Stops) -> None:
        for op in command.ops:
            holders = self.runs[op]
            holders.discard(unit)
            if len(holders) < 2:
                self.doubled.discard(op)

    def _agrees(self, unit: str, command: Agrees) -> None:
        self.transfers += 1
        if self.memory(unit) > self.upper + EPSILON:
            self.pushed_over += 1

    def _look_at(self, ops: tuple[int, ...]) -> None:
        """Check the place of operators that just arrived, and of the operators that feed them."""
        graph, tree = self.scenario.graph, self.scenario.tree
        for op in dict.fromkeys([*ops, *(up for o in ops for up in graph[o].ups)]):
            down = graph[op].down
            wrong = any(
                graph.why_not(op, {op: here, **({} if down is None else {down: there})}, tree) is not None
                for here in self.runs[op]
                for there in (self.runs[down] or (here,) if down is not None else (here,))
            )
            (self.misplaced.add if wrong else self.misplaced.discard)(op)
            if wrong:
                self.ever_misplaced.add(op)


class CentralWorld(World):
    """A run of a scenario with the central balancer: no messages, and moves take effect at once, hop by hop."""

    def begin(self, period_s: float, hops: int, seconds: float) -> None:
        """Schedule the balancer once per period."""
        scenario = self.scenario
        self.board = Board(scenario.graph, scenario.tree, scenario.where, self.sizes)
        for op, unit in scenario.where.items():
            self.runs[op] = {unit}
        for look in range(1, int(seconds / period_s) + 1):
            self.sim.at(look * period_s, lambda: self._rebalance(hops))

    def memory(self, unit: str) -> float:
        """Return a unit's memory in per cent."""
        return sum(self.sizes[op] for op in self.board.selections[unit].present)

    def _rebalance(self, hops: int) -> None:
        for giver, transfer in rebalance(self.board, self.upper, hops=hops):
            for op in transfer.ops:
                self.runs[op] = {transfer.to}
            self._look_at(transfer.ops)
            self._agrees(transfer.to, Agrees(transfer.ops, giver))


def _just_before(time: float) -> float:
    """Return a time just before this one, so that units acting at this time see its changes."""
    return time - 1e-6 if time > 0 else 0.0
