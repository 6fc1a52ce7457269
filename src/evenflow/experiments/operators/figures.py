"""Figures for the reports of the metering experiments: Figures 15 and 16, with and without the protocol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from evenflow.experiments.figures import SERIES, Figure, Series, Table
from evenflow.experiments.published import AMI, beside, marks
from evenflow.experiments.registry import Row

WHICH = (("off", "without the protocol"), ("on", "with the protocol"))


def figures(rows: Sequence[Row], settings: Any) -> list[Figure | Table]:
    """Return figures of one run over time, as Figures 15 and 16, and of all seeds side by side."""
    first: Any = rows[0]
    curves, seed = first[SERIES], first["seed"]
    upper = f"{settings.upper:g} %"
    pictures: list[Figure | Table] = [
        _over_time(
            "Average memory usage (Figure 15)",
            "mean",
            "% of memory",
            curves,
            f"Seed {seed}. Mean of all units: where operators are changes nothing, so both lines are one.",
        ),
        _over_time(
            "Standard deviation of memory usage (Figure 15)",
            "std",
            "% of memory",
            curves,
            f"Seed {seed}. The lower, the more even. By {_text(first['std_reduction_pct'])} % less with the protocol.",
        ),
        _over_time(
            "Number of overloaded units (Figure 16)",
            "overloaded",
            "units",
            curves,
            f"Seed {seed}. Units above {upper}. {_text(first['reduction_pct'])} % less overloaded in total, fewer in "
            f"{_text(first['fewer_pct'])} % of the time.",
            kind="step",
        ),
        _over_time("Highest memory usage", "highest", "% of memory", curves, f"Seed {seed}. The fullest unit."),
    ]
    return [*beside(AMI, rows), *pictures, _seeds(rows)]


def _over_time(title: str, name: str, label: str, curves: Any, caption: str, kind: Any = "line") -> Figure:
    series = [Series(words, curves["at"], curves[f"{name}_{which}"], kind) for which, words in WHICH]
    return Figure(title, "virtual seconds", label, series, caption)


def _seeds(rows: Sequence[Row]) -> Figure:
    seeds: list[float] = [float(str(row["seed"])) for row in rows]
    names = {
        "reduction_pct": "less overloaded in total",
        "fewer_pct": "share of time with fewer overloaded units",
        "above_ut_reduction_pct": "less memory above the upper threshold",
    }
    series = [Series(words, seeds, [_number(row[name]) for row in rows], "points") for name, words in names.items()]
    caption = "Dashed: what the publication states, of one run and of 15."
    return Figure("Every seed", "seed", "%", series, caption, marks(AMI, "reduction_pct", "fewer_pct"))


def chaos_figures(rows: Sequence[Row], _: Any) -> list[Figure | Table]:
    """Return a table of faults by kind and message, and a figure of the outcomes of transfers."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        faults: Any = row["faults"]
        for kind, by_message in faults.items():
            counts.setdefault(kind, Counter()).update(by_message)
    messages = sorted({message for by_message in counts.values() for message in by_message})
    table = [[kind.replace("_", " "), *(c[m] for m in messages), c.total()] for kind, c in sorted(counts.items())]
    wrong = sum(
        _number(row[name]) or 0.0 for row in rows for name in ("lost", "duplicated", "infeasible", "unfinished")
    )
    caption = f"Operators lost, doubled or misplaced, and negotiations without an end, in all: {wrong:g}."
    seeds: list[float] = [float(str(row["seed"])) for row in rows]
    series = [
        Series(words, seeds, [_number(row[name]) for row in rows], "points")
        for name, words in (("sessions", "begun"), ("moved", "carried out"), ("rolled_back", "rolled back"))
    ]
    return [
        Table("Faults by kind and message", ["fault", *messages, "all"], table, caption),
        Figure("Transfers", "seed", "transfers", series, caption),
    ]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _text(value: object) -> str:
    number = _number(value)
    return "–" if number is None else f"{number:.2f}"
