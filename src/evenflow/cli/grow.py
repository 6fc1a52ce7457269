"""``evenflow grow CHECKPOINT --lanes N``: more lanes than a checkpoint began with, while its query does not run."""

from __future__ import annotations

from typing import Annotated

import typer

from evenflow.cli.output import say


def grow(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint of a balanced query that does not run.")],
    lanes: Annotated[int, typer.Option(help="The new number of lanes, over which Spark has spread the state.")],
) -> None:
    """Let a checkpoint's slices follow its state to more lanes; docs/spark-clusters.md has the steps."""
    from evenflow.spark.slices import grow as growing

    plane = growing.grow(checkpoint, lanes)
    say(f"{checkpoint}: {plane.lanes} lanes; start the query with lanes={plane.lanes}, used={plane.used}")
