"""The experiment ``ami`` in virtual time: section 4 with the published protocol, ours, and a central balancer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evenflow.errors import BadInput
from evenflow.experiments.figures import SERIES
from evenflow.experiments.operators.figures import figures
from evenflow.experiments.operators.scenario_file import read_scenario
from evenflow.experiments.operators.summary import compared, curves, replay_off
from evenflow.experiments.operators.workload import Scenario, WorkloadSettings, scenario
from evenflow.experiments.operators.world import Build, CentralWorld, Wire, World
from evenflow.experiments.registry import Experiment, TraceWriter
from evenflow.experiments.settings import setting
from evenflow.operators.even import EvenUnit
from evenflow.operators.settings import READINGS, UnitSettings
from evenflow.operators.sizes import Sizes
from evenflow.operators.unit import MeteringUnit
from evenflow.sim import Simulation


@dataclass(frozen=True)
class AmiSettings(WorkloadSettings):
    """Settings of `ami`."""

    mode: Literal["literal", "text", "fixed", "even", "central"] = setting(
        "fixed", "the listings as printed, as meant, or corrected; our protocol; an omniscient yardstick"
    )
    lower: float = setting(40.0, "lower threshold, % of a unit's memory (Table 5)", low=0.0)
    target: float = setting(50.0, "target threshold", low=0.0)
    upper: float = setting(60.0, "upper threshold", low=0.0)
    accept: Literal["upper", "target"] = setting("upper", "how far an offer may fill a unit (section 3.3)")
    monitor_s: float = setting(5.0, "seconds between two looks at the memory (Monitoring Period)", low=0.1)
    stagger: bool = setting(False, "units look one after the other, not all at once")  # noqa: FBT003 - a default
    delay_s: float = setting(0.05, "seconds that a message takes", low=0.0, high=60.0)
    timeout_s: float = setting(2.0, "seconds after which a silent neighbour is given up", low=0.01)
    hops: int = setting(4, "modes even and central: units that may make room for one another", low=1, high=100)
    forecast: float = setting(0.5, "mode even: share of the last period's growth that is expected again", low=0.0)
    dire: float = setting(60.0, "mode even: % above the upper threshold from which a unit is served first", low=0.0)
    crowd: float = setting(1.25, "mode even: times its share of operators with which a unit takes no more", low=0.0)
    spare_margin: float = setting(4.0, "mode even: room kept for units that it can relieve, %", low=0.0)
    log_s: float = setting(2.0, "seconds between rows of the log", low=0.1)
    scenario: str | None = setting(None, "a file with a world, instead of a drawn one")


def run(settings: AmiSettings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    """Run one scenario with and without the protocol."""
    check_thresholds(settings)
    if settings.scenario is None:
        drawn = scenario(settings, Simulation(seed).chance("world"))
        drawn.refuse_overload(settings.upper, "--set")
    else:
        drawn = read_scenario(Path(settings.scenario))
        drawn.refuse_overload(settings.upper, settings.scenario)
    off = replay_off(drawn, settings.seconds, settings.log_s)
    world = play(settings, drawn, seed, trace)
    row: dict[str, Any] = {
        **compared(off, world.log, settings.upper, settings.log_s),
        **counts(world),
        SERIES: curves(off, world.log, settings.upper, settings.log_s),
    }
    if settings.scenario is not None:
        row |= {"log_off": off, "log_on": world.log}
    return row


def check_thresholds(settings: AmiSettings) -> None:
    """Refuse thresholds in the wrong order."""
    if not settings.lower <= settings.target <= settings.upper:
        given = f"{settings.lower:g}, {settings.target:g}, {settings.upper:g}"
        raise BadInput(given, "lower at most target at most upper", "--set")


def play(settings: AmiSettings, drawn: Scenario, seed: int, trace: TraceWriter | None) -> World:
    """Run a scenario with the protocol of the settings' mode."""
    network = Wire(one=[settings.delay_s])
    if settings.mode == "central":
        central = CentralWorld(drawn, seed, settings.upper, network, trace)
        central.begin(settings.monitor_s, settings.hops, settings.seconds)
        central.play(settings.seconds, settings.log_s)
        return central
    world = World(drawn, seed, settings.upper, network, trace)
    world.start(builder(settings, drawn))
    world.play(settings.seconds, settings.log_s)
    return world


def builder(settings: AmiSettings, drawn: Scenario) -> Build:
    """Return the function that builds the actor of a unit."""
    ops: dict[str, list[int]] = {unit: [] for unit in drawn.tree.units}
    for op, unit in drawn.where.items():
        ops[unit].append(op)
    places = {unit: number for number, unit in enumerate(drawn.tree.units)}

    def build(unit: str, sizes: Sizes) -> MeteringUnit:
        shift = settings.monitor_s * places[unit] / len(places) if settings.stagger else 0.0
        kind = EvenUnit if settings.mode == "even" else MeteringUnit
        return kind(unit, drawn.graph, drawn.tree, sizes, ops[unit], unit_settings(settings, shift))

    return build


def unit_settings(settings: AmiSettings, shift: float = 0.0) -> UnitSettings:
    """Return the settings of the units; ``shift`` delays the first memory check, in seconds."""
    return UnitSettings(
        lower=settings.lower,
        target=settings.target,
        upper=settings.upper,
        period_s=settings.monitor_s,
        first_s=settings.monitor_s + shift,
        timeout_s=settings.timeout_s,
        accept=settings.accept,
        rules=READINGS.get(settings.mode, READINGS["fixed"]),
        hops=settings.hops,
        forecast=settings.forecast,
        dire=settings.dire,
        crowd=settings.crowd,
        spare_margin=settings.spare_margin,
    )


def counts(world: World) -> dict[str, int]:
    """Return the counts of a run: messages, transfers, errors and events."""
    network: Any = world.network
    return {
        "messages": network.carried,
        "transfers": world.transfers,
        "duplicates": len(world.duplicates),
        "infeasible": len(world.infeasible),
        "pushed_over": world.pushed_over,
        "events": world.sim.events,
    }


AMI = Experiment(
    "ami",
    "operators move between metering units of a tree, with and without the protocol.",
    AmiSettings,
    run,
    figures,
    options=("scenario",),
)
