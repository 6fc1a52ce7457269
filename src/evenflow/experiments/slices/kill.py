"""Slices live on Spark, killed: drivers and executors die at random moments of a stream whose slices never rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evenflow.experiments.registry import Experiment, TraceWriter
from evenflow.experiments.settings import setting
from evenflow.extras import need


@dataclass(frozen=True)
class KillSettings:
    """What `slices-kill` can be told."""

    kills: int = setting(20, "kill -9 in all; three in ten hit executors of a small cluster, the rest drivers", low=1)
    slices: int = setting(24, "slices", low=2, high=10_000)
    lanes: int = setting(2, "lanes", low=2, high=64)
    rows: int = setting(200, "rows per batch", low=1)
    batches: int = setting(3, "batches between two kills, at least", low=1)


def run(settings: KillSettings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    """Kill drivers on this machine, then executors of a cluster on it, and add up what was found."""
    need("pyspark", "slices-kill")  # by the processes that it starts
    from evenflow.experiments.slices.kill_drill import CLUSTER, CLUSTER_SESSION, drill  # noqa: PLC0415 - Spark is loaded by who needs it

    options: dict[str, Any] = {
        "slices": settings.slices,
        "lanes": settings.lanes,
        "rows": settings.rows,
        "batches": settings.batches,
    }
    executors = settings.kills * 3 // 10
    found = [drill(settings.kills - executors, seed, trace=trace, **options)]
    if executors:
        more = {**options, "executor_kills": executors, "master": CLUSTER, "session": CLUSTER_SESSION}
        found.append(drill(0, seed, **more))
    return {name: sum(part[name] for part in found) for name in found[0]} | {"executor_kills": executors}


KILL = Experiment(
    "slices-kill",
    "drivers and executors of a live stream killed while slices move; nothing lost, nothing twice, nothing out of order.",
    KillSettings,
    run,
    options=("kills",),
)
