"""Figures for the reports of the trigger experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenflow.experiments.figures import SERIES, Figure, Series, Table
from evenflow.experiments.published import DLBER, beside, marks
from evenflow.experiments.registry import Row


def dlber_figures(rows: Sequence[Row], settings: Any) -> list[Figure | Table]:
    """Return figures of the queues over time, the makespans side by side, and the published number."""
    first: Any = rows[0]
    curves = first[SERIES]
    queues = Figure(
        "Waiting work of each worker",
        "virtual seconds",
        "predicted seconds",
        [Series(name, curves["at"], load) for name, load in curves["load_s"].items()],
        f"Seed {first['seed']}, policy {settings.policy}. Worker 0 holds the most pages.",
    )
    names = ("makespan_none_s", "makespan_s", "bound_s", "makespan_ideal_s")
    labels = ("no balancing", settings.policy, "bound of its work", "shared queue")
    known = [(label, _mean(rows, name)) for label, name in zip(labels, names, strict=True)]
    makespans = Figure(
        "How long the job takes",
        "",
        "virtual seconds",
        [Series("makespan", [label for label, _ in known], [value for _, value in known], "bars")],
        "Mean over the seeds. The bound is the work of the balanced run, divided evenly.",
    )
    seeds: list[float] = [float(str(row["seed"])) for row in rows]
    better: list[Any] = [row["better_pct"] for row in rows]
    gain = Figure(
        "Better than no balancing",
        "seed",
        "%",
        [Series(settings.policy, seeds, better, "points")],
        "Dashed: what the publication states, of a graph and a placement that it does not describe.",
        marks(DLBER, "better_pct"),
    )
    return [*beside(DLBER, rows), gain, queues, makespans]


def _mean(rows: Sequence[Row], name: str) -> float | None:
    values: list[Any] = [row[name] for row in rows if row.get(name) is not None]
    return sum(values) / len(values) if values else None
