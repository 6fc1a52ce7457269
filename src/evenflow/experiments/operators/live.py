"""The experiment ``ami-live`` on Spark: operators move while readings surge, and results must equal plain Spark SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evenflow.experiments.figures import SERIES, Figure, Series, Table
from evenflow.experiments.registry import Experiment, Row, TraceWriter
from evenflow.experiments.settings import setting


@dataclass(frozen=True)
class LiveSettings:
    """Settings of `ami-live`."""

    seconds: float = setting(90.0, "seconds for which readings flow, at most", low=5.0)
    batches: int = setting(16, "batches, an hour of readings each, at most", low=2, high=10_000)
    mode: Literal["even", "fixed", "off"] = setting("even", "our protocol, the corrected published one, or none")
    levels: int = setting(3, "levels of the tree; 3 levels are 7 units", low=2, high=5)
    meters: int = setting(24, "meters of a leaf", low=2, high=100_000)
    streets: int = setting(2, "streets of a leaf, each with queries of its own", low=1, high=100)
    capacity: int = setting(130_000, "bytes that are a unit's memory", low=1000)
    readings: str | None = setting(None, "a directory of Parquet or CSV files with ts, leaf, meter, value")
    lateness_s: int = setting(0, "how much older than the newest one so far a reading may be", low=0)


def run(settings: LiveSettings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    """Run the pipeline once, and compare its results with plain Spark SQL over the same readings."""
    from evenflow.experiments.operators.live_trial import live  # noqa: PLC0415 - load Spark only if needed

    found = live(
        settings.seconds,
        seed,
        mode=settings.mode,
        levels=settings.levels,
        meters=settings.meters,
        streets=settings.streets,
        capacity=settings.capacity,
        batches=settings.batches,
        readings=settings.readings,
        lateness_s=settings.lateness_s,
        trace=trace,
    )
    curves = found.pop("curves")
    return {**found, SERIES: curves}


def figures(rows: Sequence[Row], _: Any) -> list[Figure | Table]:
    """Return a figure of the units' memory by batch, and a table of the transfers."""
    first: Any = rows[0]
    curves = first[SERIES]
    memory = [Series(unit, curves["batch"], load) for unit, load in curves["memory"].items()]
    upper = Series("upper threshold", curves["batch"], [curves["upper"]] * len(curves["batch"]))
    caption = "State of open windows as the operators wrote it, in per cent of a unit's memory, before each batch's transfers."
    moves = [[m["batch"], m["operator"], m["giver"], m["taker"], m["state_bytes"]] for m in curves["moved"]]
    return [
        Figure("Memory of the units", "batch", "% of memory", [*memory, upper], caption),
        Table(
            "Transfers", ["after batch", "operator", "giver", "taker", "state bytes"], moves, "While readings flowed."
        ),
    ]


LIVE = Experiment(
    "ami-live",
    "a running Spark pipeline of meter readings, balanced by the same units; results equal plain Spark SQL.",
    LiveSettings,
    run,
    figures,
    options=("seconds",),
)
