"""The experiment ``ami-chaos``: messages are lost, late and repeated, and units crash in any phase of a transfer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from evenflow.experiments.operators.figures import chaos_figures
from evenflow.experiments.operators.workload import Scenario, WorkloadSettings, scenario
from evenflow.experiments.operators.world import World
from evenflow.experiments.registry import Experiment, TraceWriter
from evenflow.experiments.settings import setting
from evenflow.invariants import compare
from evenflow.operators.even import EvenUnit
from evenflow.operators.messages import Ask, Hint, Space
from evenflow.operators.negotiation import State
from evenflow.operators.settings import UnitSettings
from evenflow.operators.sizes import Sizes
from evenflow.operators.unit import MeteringUnit
from evenflow.sim import Network, Partition, Simulation

KINDS = ("loss", "duplication", "delay", "crash_sender", "crash_addressee", "partition")


@dataclass(frozen=True)
class ChaosSettings:
    """Settings of `ami-chaos`."""

    mode: Literal["both", "fixed", "even"] = setting("both", "the corrected protocol, ours, or one after the other")
    levels: int = setting(3, "levels of the tree", low=2, high=8)
    fanout: int = setting(2, "children of a unit", low=1, high=10)
    operators: int = setting(70, "operators in all", low=1, high=100_000)
    seconds: float = setting(90.0, "virtual seconds with faults", low=1.0)
    monitor_s: float = setting(1.0, "seconds between two looks at the memory", low=0.1)
    faulted: float = setting(0.08, "share of messages that a fault is aimed at", low=0.0, high=1.0)


@dataclass
class Faults:
    """Faults on messages: chooses them at random, and counts them by kind and message."""

    sim: Simulation
    share: float
    counts: dict[str, Counter[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = self.sim.chance("faults")
        self.sim.network.intercept = self.fate

    def fate(self, sender: str, to: str, message: Any, now: float) -> list[float] | None:
        """Return the delays of the copies that arrive, or ``None`` to leave the message to the network."""
        draw = self.chance.random
        # Transfers are rarer than the messages before them, and their failures matter most.
        share = self.share if isinstance(message, (Hint, Ask, Space)) else 2 * self.share
        if draw() >= share:
            return None
        kind = KINDS[int(len(KINDS) * draw())]
        self.counts.setdefault(kind, Counter())[type(message).__name__] += 1
        usual = self.sim.network.delay
        if kind == "loss":
            return []
        if kind == "duplication":
            return [usual, usual + 6.0 * draw()]
        if kind == "delay":
            return [usual + 6.0 * draw()]
        if kind == "partition":
            self.sim.network.partitions.append(Partition(frozenset({sender}), now + 0.2 + 3.0 * draw()))
            return None
        victim = sender if kind == "crash_sender" else to
        self.sim.at(now + 2.0 * usual * draw(), lambda: self._crash(victim, 0.05 + 4.0 * draw() ** 2))
        return None

    def _crash(self, victim: str, seconds: float) -> None:
        if self.sim.running(victim):
            self.sim.crash(victim)
            self.sim.at(self.sim.now + seconds, lambda: self.sim.restart(victim))


def run(settings: ChaosSettings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    """Run one seed with both protocols, or with the one that ``mode`` names."""
    modes = ("fixed", "even") if settings.mode == "both" else (settings.mode,)
    rows = [run_mode(settings, mode, seed, trace) for mode in modes]
    faults: dict[str, Counter[str]] = {}
    for row in rows:
        for kind, counts in row.pop("faults").items():
            faults.setdefault(kind, Counter()).update(counts)
    summed = {name: sum(row[name] for row in rows) for name in rows[0]}
    return {**summed, "faults": {kind: dict(sorted(counts.items())) for kind, counts in sorted(faults.items())}}


def run_mode(settings: ChaosSettings, mode: str, seed: int, trace: TraceWriter | None) -> dict[str, Any]:
    """Run with memory changes and faults for a while, then without them, and count what is wrong or unfinished."""
    steps: Counter[str] = Counter()

    def write(record: Mapping[str, Any]) -> None:
        if record["kind"] == "session":
            steps[record["step"]] += 1
        if trace is not None:
            trace({**record, "mode": mode})

    chance = Simulation(seed).chance(f"world {mode}")
    drawn = scenario(_workload(settings), chance)
    network = Network(delay=0.02, jitter=0.03)
    world = World(drawn, seed, 60.0, network, write)
    peace = [False]
    base = UnitSettings(period_s=settings.monitor_s, first_s=settings.monitor_s, timeout_s=1.0, lag_s=0.2)
    ops = {unit: [op for op, at in drawn.where.items() if at == unit] for unit in drawn.tree.units}

    def build(unit: str, sizes: Sizes) -> MeteringUnit:
        kind = EvenUnit if mode == "even" else MeteringUnit
        told = replace(base, lower=-1.0, upper=1e9) if peace[0] else base
        return kind(unit, drawn.graph, drawn.tree, sizes, ops[unit], told)

    world.start(build)
    faults = Faults(world.sim, settings.faulted)
    world.play(settings.seconds, settings.monitor_s)
    pushed_over = world.pushed_over  # counted before the calm phase, in which units have no thresholds
    peace[0] = True
    _calm(world, base)
    return {
        **_findings(world, drawn),
        "sessions": steps["deploy"],
        "moved": steps["done"],
        "rolled_back": steps["rolled back"],
        "crashes": sum(cell.life for cell in world.sim.cells.values()),
        "pushed_over": pushed_over,
        "events": world.sim.events,
        "faults": faults.counts,
    }


def _workload(settings: ChaosSettings) -> WorkloadSettings:
    """Return a workload in which memory changes fast and often enough to keep units negotiating."""
    return WorkloadSettings(
        levels=settings.levels,
        fanout=settings.fanout,
        operators=settings.operators,
        size_low=2,
        size_high=6,
        seconds=settings.seconds,
        start_s=0.5,
        timespan_s=4.0,
        change_s=0.5,
        rate=2.0,
        surges=3,
    )


def _calm(world: World, base: UnitSettings) -> None:
    """End all faults, start no more negotiations, and let those under way finish."""
    world.sim.network.heal()
    quiet = replace(base, lower=-1.0, upper=1e9)
    for _ in range(12):
        for unit in world.scenario.tree.units:
            world.sim.restart(unit)  # in every step, because a scheduled crash may still come
            actor: Any = world.sim.cells[unit].actor
            actor.settings = quiet
        world.sim.run(until=world.sim.now + 1.0)


def _findings(world: World, drawn: Scenario) -> dict[str, int]:
    units: list[Any] = [world.sim.cells[unit].actor for unit in drawn.tree.units]
    held = Counter(op for unit in units for op in unit.custody.owned)
    unfinished = sum(
        (unit.state is not State.RESTING)
        + (getattr(unit, "errand", None) is not None)
        + len(unit.custody.giving)
        + len(unit.custody.taking)
        + len(unit.reserved)
        for unit in units
    )
    where = {op: unit.unit for unit in units for op in unit.custody.owned}
    whole = {op: where.get(op, drawn.where[op]) for op in drawn.where}
    misplaced = set(drawn.graph.misplaced(whole, drawn.tree)) | world.ever_misplaced
    shipped = {op for unit in units for op in unit.custody.shipped()}
    found = compare(drawn.where, held.elements(), shipped).judged("ami-chaos")
    return {
        "operators": found.compared,
        "unprocessed": found.unprocessed,
        "lost": found.lost,
        "duplicated": len({op for op, count in held.items() if count > 1} | world.ever_doubled),
        "infeasible": len(misplaced),
        "negotiations": sum(unit._number for unit in units),  # noqa: SLF001 - a count, not a decision
        "unfinished": unfinished,
    }


CHAOS = Experiment(
    "ami-chaos",
    "messages lost, late and repeated, units that crash in any phase; no operator lost, doubled or misplaced.",
    ChaosSettings,
    run,
    chaos_figures,
)
