"""``evenflow bench spark-state``, ``spark-drop-in`` and ``spark-skew``: the live plane beside what Spark has of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from evenflow.cli.output import print_json, print_rich, say
from evenflow.errors import BadInput, nearest
from evenflow.extras import need

Quick = Annotated[bool, typer.Option("--quick", help="A short run, to see that it works; nothing to quote.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def spark_state(
    keys: Annotated[
        list[int] | None, typer.Option(min=1, help="Distinct keys per batch; 1000, 10000 and 50000 if not given.")
    ] = None,
    variant: Annotated[list[str] | None, typer.Option(help="Which to measure; all if not given.")] = None,
    rows: Annotated[int, typer.Option(min=10, help="Rows per batch.")] = 100_000,
    turns: Annotated[int, typer.Option(min=1, help="Times each variant is measured.")] = 5,
    limit: Annotated[float, typer.Option(min=1, help="CPU seconds after which a batch is given up.")] = 120.0,
    overhead: Annotated[bool, typer.Option(help="Measure batches of few rows as well.")] = True,
    quick: Quick = False,
    json: Json = False,
) -> None:
    """Keep a count, a sum and a weighted mean per key: evenflow, transformWithState, applyInPandasWithState, the JVM."""
    _needed()
    from evenflow.bench.spark_state import KEYS, bench_spark_state
    from evenflow.bench.spark_state_variants import VARIANTS

    names = list(VARIANTS) if variant is None else variant
    for name in names:
        if name not in VARIANTS:
            raise BadInput(f"'{name}'", nearest(name, VARIANTS), "--variant")
    sizes = list(KEYS) if keys is None else keys
    if quick:
        sizes, rows, turns = sizes[:1], min(rows, 10_000), 1
    result = bench_spark_state(
        sizes,
        names,
        rows=rows,
        turns=turns,
        batches=1 if quick else 2,
        overhead=overhead,
        limit_s=limit,
        say=say,
    )
    columns = ("case", "keys", "variant", "rows_per_cpu_s", "batch_s", "state_bytes", "baseline", "ratio", "measure")
    _print(result, "State per key", columns, json=json)


def spark_drop_in(
    keys: Annotated[
        list[int] | None, typer.Option(min=1, help="Distinct keys per batch; 1000, 10000 and 50000 if not given.")
    ] = None,
    job: Annotated[list[str] | None, typer.Option(help="Which to measure; all if not given.")] = None,
    rows: Annotated[int, typer.Option(min=10, help="Rows per batch.")] = 100_000,
    turns: Annotated[int, typer.Option(min=1, help="Times each is measured.")] = 3,
    limit: Annotated[float, typer.Option(min=1, help="CPU seconds after which a batch is given up.")] = 240.0,
    small: Annotated[bool, typer.Option(help="Measure batches of few rows as well.")] = True,
    quick: Quick = False,
    json: Json = False,
) -> None:
    """Run stateful jobs of Spark unchanged, through Spark's own door and through evenflow's."""
    _needed()
    from evenflow.bench.spark_drop_in import JOBS, bench_spark_drop_in
    from evenflow.bench.spark_state import KEYS

    names = list(JOBS) if job is None else job
    for name in names:
        if name not in JOBS:
            raise BadInput(f"'{name}'", nearest(name, JOBS), "--job")
    sizes = list(KEYS) if keys is None else keys
    if quick:
        sizes, rows, turns = sizes[:1], min(rows, 10_000), 1
    result = bench_spark_drop_in(
        sizes, names, rows=rows, turns=turns, batches=1 if quick else 2, small=small, limit_s=limit, say=say
    )
    columns = (
        "job",
        "keys",
        "rows_per_batch",
        "spark_rows_per_cpu_s",
        "rows_per_cpu_s",
        "ratio",
        "batch_s_ratio",
        "state_ratio",
    )
    _print(result, "Stateful jobs, unchanged", columns, json=json)


def spark_skew(
    case: Annotated[list[str] | None, typer.Option(help="drift, steady, waiting; all if not given.")] = None,
    batches: Annotated[int, typer.Option(min=1, help="Of every arm; the first 8 are not counted.")] = 30,
    rows: Annotated[int, typer.Option(min=100, help="Rows per batch.")] = 40_000,
    quick: Quick = False,
    json: Json = False,
) -> None:
    """Keep lanes even under skewed keys: evenflow, the same without rebalancing, plain hash partitions."""
    _needed()
    from evenflow.bench.spark_skew import NAMES, bench_spark_skew

    names = list(NAMES) if case is None else case
    for name in names:
        if name not in NAMES:
            raise BadInput(f"'{name}'", nearest(name, NAMES), "--case")
    if quick:
        batches, rows = min(batches, 9), min(rows, 4_000)
    result = bench_spark_skew(names, batches=batches, rows=rows, scale=0.1 if quick else 1.0, say=say)
    columns = (
        "case",
        "variant",
        "max_over_mean",
        "floor",
        "over_floor",
        "batch_s",
        "moves",
        "baseline",
        "ratio",
        "measure",
    )
    _print(result, "Skewed keys", columns, json=json)


def _needed() -> None:
    for module in ("pyspark", "psutil", "pandas"):
        need(module, "bench")


def _print(result: dict[str, Any], title: str, columns: Sequence[str], *, json: bool) -> None:
    if json:
        print_json(result)
        return
    from rich.table import Table

    table = Table(title=title)
    for name in columns:
        table.add_column(name.replace("_", " "))
    for row in result["rows"]:
        table.add_row(*("–" if row.get(name) is None else _cell(row[name]) for name in columns))
    print_rich(table)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
