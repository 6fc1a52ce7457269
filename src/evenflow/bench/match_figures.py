"""What the report of ``bench match`` shows: every case beside each other, and all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenflow.experiments.figures import Figure, Series, Table

LEAD = (
    "Events matched per CPU-second, medians of turns; all engines of a case agreed on the pairs first. "
    "No published figures exist for these cases; the stock workload has the templates of Cheung 2006 (Table 5.1)."
)
COLUMNS = ("workload", "subscriptions", "engine", "events_per_cpu_s", "ratio", "baseline", "turns", "pairs", "checksum")

INDEX = ("workload", "subscriptions", "build_s", "index_mb", "added", "add_us", "covering_s", "covering_size")


def match_figures(result: Mapping[str, Any]) -> list[Figure | Table]:
    """Describe the page: a figure per case, with the engines from the slowest to the fastest, and the rows."""
    cases: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for row in result["rows"]:
        cases.setdefault((row["workload"], row["subscriptions"]), []).append(row)
    rows = [[row[name] for name in COLUMNS] for row in result["rows"]]
    index = [[row[name] for name in INDEX] for row in result["index"]]
    figures = [_case(name, size, found) for (name, size), found in cases.items()]
    return [*figures, Table("The index, CPU-seconds", INDEX, index), Table("Rows", COLUMNS, rows)]


def _case(name: str, size: int, rows: Sequence[Mapping[str, Any]]) -> Figure:
    ordered = sorted(rows, key=lambda row: float(row["events_per_cpu_s"]))
    rates = Series("engine", [row["engine"] for row in ordered], [row["events_per_cpu_s"] for row in ordered], "bars")
    fastest = ordered[-1]
    caption = f"The fastest, {fastest['engine']}, is {fastest['ratio']:g} times {fastest['baseline']}."
    return Figure(f"{name}, {size:,} subscriptions", "", "events per CPU-second", [rates], caption)
