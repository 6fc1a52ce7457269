"""``evenflow bench``: side by side with what a user has today."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from evenflow.cli.bench_dds import dds
from evenflow.cli.bench_spark import spark_drop_in, spark_skew, spark_state
from evenflow.cli.bench_triggers import triggers
from evenflow.cli.output import print_json, print_rich, say
from evenflow.errors import BadInput, nearest

bench_group = typer.Typer(help="Measure side by side with what a user has today.", no_args_is_help=True)
bench_group.command()(spark_state)
bench_group.command()(spark_drop_in)
bench_group.command()(spark_skew)
bench_group.command()(triggers)
bench_group.command()(dds)


@bench_group.command()
def kernel(
    events: Annotated[int, typer.Option(min=1000, help="Events of the simulator, per network.")] = 300_000,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Count simulated events per CPU-second, with a perfect and with a faulty network."""
    from evenflow.bench.kernel import bench_kernel

    result = bench_kernel(events)
    if json:
        print_json(result)
        return
    for row in result["rows"]:
        print_rich(
            f"{row['variant']:16} {row['events_per_cpu_s']:>10,.0f} events per CPU-second (× {row['ratio']:.2f})"
        )


@bench_group.command()
def match(
    workload: Annotated[list[str] | None, typer.Option(help="stock, flat; both if not given.")] = None,
    subscriptions: Annotated[
        list[int] | None, typer.Option(help="How many; 2000, 100000 and 1000000 if not given.")
    ] = None,
    turns: Annotated[int, typer.Option(min=1, help="Times each engine is measured.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.01, help="CPU seconds of one turn, about.")] = 1.0,
    spark: Annotated[bool, typer.Option(help="Measure the joins of Spark and evenflow on Spark.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="Of the workload.")] = 1,
    report: Annotated[Path | None, typer.Option(metavar="DIR", help="Write one standalone HTML page.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Match events with many subscriptions: evenflow, Spark joins, polars, duckdb, per CPU-second."""
    from evenflow.bench.match import SIZES, WORKLOADS, bench_match
    from evenflow.cli.experiment_run import claim_report_directory

    names = list(WORKLOADS) if workload is None else workload
    for name in names:
        if name not in WORKLOADS:
            raise BadInput(f"'{name}'", nearest(name, WORKLOADS), "--workload")
    sizes = list(SIZES) if subscriptions is None else subscriptions
    if min(sizes) < 1:
        raise BadInput(str(min(sizes)), "a number of at least 1", "--subscriptions")
    if report is not None:
        claim_report_directory(report)
    result = bench_match(names, sizes, turns=turns, seconds=seconds, spark=spark, seed=seed, say=say)
    if report is not None:
        from evenflow.bench.match_figures import LEAD, match_figures
        from evenflow.web.report import write_report

        say(f"wrote {write_report(report, 'bench match', LEAD, match_figures(result))}")
    if json:
        print_json(result)
    else:
        print_rich(_table(result))


def _table(result: dict[str, Any]) -> Any:
    from rich.table import Table

    table = Table(title="Events per CPU-second")
    for name in ("workload", "subscriptions", "engine", "events per CPU-s", "×", "baseline"):
        table.add_column(name, justify="right" if name in ("subscriptions", "events per CPU-s", "×") else "left")
    for row in result["rows"]:
        rate, size = f"{row['events_per_cpu_s']:,.0f}", f"{row['subscriptions']:,}"
        table.add_row(row["workload"], size, row["engine"], rate, f"{row['ratio']:g}", row["baseline"])
    return table
