"""``evenflow demo``: watch a drifting stream being kept even, in the terminal."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    seconds: Annotated[float, typer.Option(help="Seconds of your time that the demonstration takes.", min=1.0)] = 30.0,
    seed: Annotated[int, typer.Option(help="Another seed, another stream.", min=0)] = 1,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of a live picture.")] = False,
) -> None:
    """Show a skewed stream whose hot keys jump, and what the balancer does about it."""
    from evenflow.cli.demo_show import show

    show(seconds, seed, plain=plain)
