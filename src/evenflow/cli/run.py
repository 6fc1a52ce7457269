"""``evenflow run FILE.toml``: a person's own pipeline, from source to sink, kept even while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlsplit

import typer

from evenflow.cli.output import print_json, say
from evenflow.errors import BadInput


def run(
    file: Annotated[Path, typer.Argument(help="TOML with [source], [balance], [process] and [sink].")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything and start nothing.")] = False,
    web: Annotated[bool, typer.Option("--web", help="Serve the page of the run meanwhile.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Run a pipeline on Spark until it ends or is interrupted."""
    from evenflow.cli.run_show import follow
    from evenflow.cli.served import check_web, served
    from evenflow.spark.pipeline import check_functions, processed_of, session_for, start
    from evenflow.spark.pipeline_file import read_pipeline
    from evenflow.spark.submitted import make_importable

    if web:
        check_web()
    pipeline = read_pipeline(file)
    make_importable(file.parent, Path.cwd())
    check_functions(pipeline)  # before Spark, which takes a while to start
    spark = session_for(pipeline)
    try:
        processed = processed_of(pipeline, spark)
        if dry_run:
            divide = pipeline.divide
            say(f"{file}: all is well; {divide.slices} slices on {divide.lanes} lanes, nothing was started")
            return
        with served(_traced(pipeline.balancing.run, pipeline.sink.checkpoint) if web else Path(), wanted=web):
            result = follow(start(pipeline, processed))
    finally:
        spark.stop()
    if json:
        print_json(result)
    if result["error"] is not None:
        say(f"evenflow: the query failed: {result['error']}")
        raise typer.Exit(1)
    say(f"{result['ended']} after {result['batches']} batches, {result['rows']:,} rows and {result['moves']} moves")
    if result["ended"] == "interrupted":
        raise typer.Exit(130)


def _traced(run: str, checkpoint: str) -> Path:
    """Return where the trace of a pipeline will be on this machine."""
    parts = urlsplit(checkpoint)
    if not run and parts.scheme not in ("", "file"):
        raise BadInput(f"the checkpoint '{checkpoint}'", "one on this machine, or run=DIRECTORY in [balance]", "--web")
    return Path(run or unquote(parts.path))
