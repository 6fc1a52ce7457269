"""What the reports of the triggers experiments show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenflow.experiments.figures import SERIES, Figure, Series, Table
from evenflow.experiments.registry import Row

PUBLISHED = (
    "Sun et al., DLBer, NPC 2014, report about 100 % for PageRank on 8 workers, without their graph or placement."
)


def dlber_figures(rows: Sequence[Row], settings: Any) -> list[Figure | Table]:
    """Show the queues over time, the makespans beside each other, and the published number."""
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
    table = Table(
        "Against no balancing",
        ["", "better by"],
        [["published", "about 100 %"], ["here", f"{_mean(rows, 'better_pct') or 0.0:.0f} %"]],
        PUBLISHED,
    )
    return [queues, makespans, table]


def _mean(rows: Sequence[Row], name: str) -> float | None:
    values: list[Any] = [row[name] for row in rows if row.get(name) is not None]
    return sum(values) / len(values) if values else None
