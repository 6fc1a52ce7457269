"""``evenflow bench dds``: samples of a DDS topic into Spark rows."""

from __future__ import annotations

from typing import Annotated

import typer

from evenflow.cli.output import print_json, print_rich, say


def dds(
    samples: Annotated[int, typer.Option(min=1000, help="Samples of one turn.")] = 100_000,
    turns: Annotated[int, typer.Option(min=1, help="Times each is measured.")] = 5,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Count DDS samples per CPU-second that become Spark rows, next to a bare cyclonedds reader."""
    from evenflow.bench.dds import bench_dds

    result = bench_dds(samples, turns, say=say)
    if json:
        print_json(result)
        return
    for row in result["rows"]:
        print_rich(
            f"{row['variant']:32} {row['samples_per_cpu_s']:>10,.0f} samples per CPU-second (× {row['ratio']:.2f})"
        )
