"""``evenflow bench triggers``: one balancing decision at large sizes."""

from __future__ import annotations

from typing import Annotated

import typer

from evenflow.cli.output import print_json, print_rich


def triggers(
    workers: Annotated[int, typer.Option(min=2, help="Workers.")] = 1000,
    triggers: Annotated[int, typer.Option(min=2, help="Waiting triggers, in all.")] = 1_000_000,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Time one balancing decision over many workers and waiting triggers, per policy."""
    from evenflow.bench.triggers import bench_triggers

    result = bench_triggers(workers, triggers)
    if json:
        print_json(result)
        return
    for row in result["rows"]:
        print_rich(
            f"{row['variant']:14} decides in {row['decision_s']:.3f} s, the slowest giver forms its groups in "
            f"{row['grouping_s']:.3f} s, {row['moved']:,} triggers move"
        )
