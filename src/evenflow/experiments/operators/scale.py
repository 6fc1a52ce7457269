"""The experiment ``ami-scale``: the same actors as in ``ami``, with a thousand units and more."""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenflow.experiments.figures import SERIES
from evenflow.experiments.operators.ami import AmiSettings, check_thresholds, counts, play
from evenflow.experiments.operators.figures import figures
from evenflow.experiments.operators.summary import compared, curves, replay_off
from evenflow.experiments.operators.workload import scenario
from evenflow.experiments.registry import Experiment, TraceWriter
from evenflow.experiments.settings import setting
from evenflow.sim import Simulation


@dataclass(frozen=True)
class ScaleSettings(AmiSettings):
    """Settings of `ami-scale`; surges grow with the tree, so that each unit is as busy as one of the fifteen."""

    levels: int = setting(10, "levels of the tree; 10 levels of 2 are 1,023 units", low=1, high=16)
    operators: int = setting(25_000, "operators in all", low=1, high=10_000_000)
    surges: int = setting(68, "operators that change at the same time", low=1, high=100_000)


def run(settings: ScaleSettings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    """Run one large scenario with and without the protocol."""
    check_thresholds(settings)
    begun = time.process_time()
    drawn = scenario(settings, Simulation(seed).chance("world"))
    drawn.refuse_overload(settings.upper, "--set")
    off = replay_off(drawn, settings.seconds, settings.log_s)
    ready = time.process_time()
    gc.freeze()  # the collector need not scan the scenario again and again for a million short-lived messages
    try:
        world = play(settings, drawn, seed, trace)
    finally:
        gc.unfreeze()
    row: dict[str, Any] = {
        "units": len(drawn.tree.units),
        "operators": len(drawn.graph),
        **compared(off, np.asarray(world.log).tolist(), settings.upper, settings.log_s),
        **counts(world),
        "prepare_cpu_s": ready - begun,
        "simulate_cpu_s": time.process_time() - ready,
        SERIES: curves(off, world.log, settings.upper, settings.log_s),
    }
    return row


SCALE = Experiment(
    "ami-scale",
    "1,023 units and 25,000 operators: the same actors for sixteen minutes.",
    ScaleSettings,
    run,
    figures,
)
