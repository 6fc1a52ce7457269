"""The door: every way a command can end becomes an exit code, and a refusal becomes one sentence.

0 success, 1 a bug (with its traceback), 2 bad input, 130 interrupted, 141 nobody reads the output any more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from evenflow.cli.bench import bench_group
from evenflow.cli.cover import cover
from evenflow.cli.demo import demo
from evenflow.cli.doctor import doctor
from evenflow.cli.experiment import experiment_group
from evenflow.cli.grow import grow
from evenflow.cli.match import match
from evenflow.cli.node import balancer, node
from evenflow.cli.offload import offload
from evenflow.cli.output import say
from evenflow.cli.plan import plan
from evenflow.cli.run import run
from evenflow.cli.web import web
from evenflow.errors import BadInput
from evenflow.extras import refusal_for

app = typer.Typer(
    name="evenflow",
    help="Keeps distributed event processing evenly loaded while it runs.",
    add_completion=False,
    rich_markup_mode=None,  # plain help pages take half the time, and a pipe can search them
    pretty_exceptions_enable=False,  # a bug shows Python's own traceback, which a report can quote
)
app.command()(balancer)
app.command()(cover)
app.command()(demo)
app.command()(doctor)
app.command()(grow)
app.command()(match)
app.command()(node)
app.command()(offload)
app.command()(plan)
app.command()(run)
app.command()(web)
app.add_typer(bench_group, name="bench")
app.add_typer(experiment_group, name="experiment")


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and end.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as version_of

        typer.echo(version_of("evenflow"))
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # a person's own policy lies beside them; last, so that it hides nothing
    command = typer.main.get_command(app)
    try:
        code = command.main(args=arguments, prog_name="evenflow", standalone_mode=False)
        sys.stdout.flush()
    except BadInput as refusal:
        say(f"evenflow: {refusal}")
        return 2
    except ImportError as error:
        missing = refusal_for(error)
        if missing is None:
            raise
        say(f"evenflow: {missing}")
        return 2
    except TyperException as refusal:
        say(f"evenflow: {_one_sentence(refusal.format_message())}")
        return 2
    except BrokenPipeError:
        return _nobody_reads()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            return _nobody_reads()
        raise
    if code == 130:
        say("evenflow: interrupted")
    return code if isinstance(code, int) else 0


def _one_sentence(message: str) -> str:
    parts = " ".join(message.split()).rstrip(".?").split(". ")
    return "; ".join(part[:1].lower() + part[1:] for part in parts) + "."


def _nobody_reads() -> int:
    # What is still buffered must not raise again when the interpreter flushes at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141
