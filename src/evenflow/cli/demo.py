"""``evenflow demo``: watch a drifting stream being kept even, in the terminal."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from evenflow.errors import BadInput
from evenflow.extras import to_install


def demo(
    seconds: Annotated[float, typer.Option(help="About how long the runs take together.", min=1.0)] = 60.0,
    seed: Annotated[int, typer.Option(help="Another seed, another stream.", min=0)] = 1,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of a live picture.")] = False,
    master: Annotated[str, typer.Option(help="Spark's master, such as spark://host:7077.")] = "local[*]",
    lanes: Annotated[int, typer.Option(help="Lanes; 0 takes twice the cores, from 4 to 16.", min=0, max=256)] = 0,
    place: Annotated[
        Path | None, typer.Option(help="Directory for all files; a cluster needs one that its workers share.")
    ] = None,
    web: Annotated[bool, typer.Option("--web", help="Serve the page of the balanced run meanwhile.")] = False,
    virtual: Annotated[bool, typer.Option("--virtual", help="The same idea in virtual time, without Spark.")] = False,
) -> None:
    """Run a skewed stream whose hot sensors change on Spark, unbalanced and balanced, and compare the two."""
    if virtual and web:
        raise BadInput("--virtual --web", "one of the two", "--web")
    if virtual:
        from evenflow.cli.demo_show import show

        show(seconds / 2, seed, plain=plain)
        return
    _check_spark()
    from evenflow.cli.demo_spark import show_spark

    if not show_spark(seconds, seed, plain=plain, master=master, lanes=lanes, place=place, web=web):
        raise typer.Exit(1)


def _check_spark() -> None:
    from evenflow.cli.checks import check_java

    without = "or evenflow demo --virtual, which needs no Spark"
    if find_spec("pyspark") is None:
        raise BadInput("no pyspark", f"{to_install('pyspark')}, {without}", "demo")
    java = check_java()
    if not java.ok:
        raise BadInput(f"Java: {java.found}", f"{java.remedy}, {without}", "demo")
