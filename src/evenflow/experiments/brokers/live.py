"""Brokers on Spark with real quotes: all subscriptions join one broker, which moves them; deliveries equal a plain match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from evenflow.experiments.brokers.quotes import quotes
from evenflow.experiments.figures import SERIES, Figure, Series
from evenflow.experiments.registry import Experiment, Row, TraceWriter
from evenflow.experiments.settings import setting


@dataclass(frozen=True)
class LiveSettings:
    """The settings of `padres-live`."""

    subscriptions: int = setting(100_000, "subscriptions, all of which join one broker", low=1, high=2_000_000)
    brokers: int = setting(8, "edge brokers, each a lane", low=2, high=64)
    clusters: int = setting(2, "clusters", low=1, high=16)
    batches: int = setting(80, "micro-batches", low=2, high=10_000)
    rows: int = setting(1000, "publications of a batch", low=10, high=10_000)
    overload: float = setting(2.0, "how much faster publications come than one broker could match them", low=0.1)
    batch_s: float = setting(15.0, "seconds of the thesis that a batch stands for", low=0.1)
    changes: int = setting(200, "subscriptions that join, and that leave, before every fifth batch", low=0)
    balancer: Literal["even", "default", "none"] = setting("even", "ours, as published, or none")
    quotes: Literal["real", "generated"] = setting("real", "quotes of bokeh_sampledata, or of a random walk")


def run(settings: LiveSettings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    """Run the brokers once, and compare their deliveries with a plain match of the same publications."""
    from evenflow.experiments.brokers.live_trial import live  # noqa: PLC0415 - loads Spark only when needed

    found = live(
        seed,
        subscriptions=settings.subscriptions,
        count=settings.brokers,
        clusters=settings.clusters,
        batches=settings.batches,
        rows=settings.rows,
        overload=settings.overload,
        batch_s=settings.batch_s,
        changes=settings.changes,
        balancer=settings.balancer,
        market=generated_quotes(seed) if settings.quotes == "generated" else None,
        trace=trace,
    )
    curves = found.pop("curves")
    return {**found, SERIES: curves}


def generated_quotes(seed: int) -> pa.Table:
    """Return quotes of a random walk, in order of days."""
    table = quotes(seed, days=100)
    day = np.tile(np.arange(100), table.num_rows // 100)
    return table.take(pa.array(np.argsort(day, kind="stable")))


def figures(rows: Sequence[Row], _: Any) -> list[Figure]:
    """Return a figure of the brokers' input utilisation by batch."""
    first: Any = rows[0]
    curves = [Series(name, list(range(len(values))), values) for name, values in first[SERIES].items()]
    caption = "Measured rate times measured matching delay, since the last move, at most over eight batches."
    return [Figure("Input utilisation of the brokers", "batch", "ratio", curves, caption)]


LIVE = Experiment(
    "padres-live",
    "real quotes on Spark, all subscriptions join one broker, it sheds them; deliveries equal a plain match.",
    LiveSettings,
    run,
    figures,
)
