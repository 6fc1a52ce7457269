"""``evenflow experiment NAME``: runs a published experiment, or one of ours, in virtual time.

Each experiment is a subcommand, built when it is asked for, so that ``evenflow --help`` loads none of them.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from evenflow.errors import BadInput
from evenflow.experiments.registry import Experiment, experiments, find
from evenflow.experiments.settings import settings_help

DEFAULT_SEED = 1
MOST_SEEDS = 1_000_000


class ExperimentGroup(TyperGroup):
    """The subcommands are the registry's names."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # the public name of the context
        """Return every name, for the help page."""
        return [experiment.name for experiment in experiments()]

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]  # the public name of the context
        """Return the subcommand of one name; an unknown name is refused with the nearest ones."""
        return None if cmd_name.startswith("-") else _subcommand(find(cmd_name))


experiment_group = typer.Typer(
    cls=ExperimentGroup,
    help="Run an experiment in virtual time; the same seed gives the same result.",
    rich_markup_mode=None,
    subcommand_metavar="NAME [OPTIONS]...",
    pretty_exceptions_enable=False,
)


@experiment_group.callback(invoke_without_command=True)
def _without_name(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        names = ", ".join(e.name for e in experiments())
        raise BadInput("no name", f"one of {names}", "NAME")


def parse_seeds(seed: str | None, seeds: str | None) -> list[int]:
    """Read ``--seed N`` or ``--seeds A-B`` (both ends included).

    Examples
    --------
    >>> parse_seeds(None, "3-5")
    [3, 4, 5]
    """
    if seed is not None and seeds is not None:
        raise BadInput("--seed and --seeds", "one of the two", "--seed")
    if seeds is None:
        if seed is None:
            return [DEFAULT_SEED]
        if not re.fullmatch(r"[0-9]{1,18}", seed):
            raise BadInput(repr(seed), "a whole number of at least 0", "--seed")
        return [int(seed)]
    ends = re.fullmatch(r"([0-9]{1,18})-([0-9]{1,18})", seeds)
    first, last = (int(ends[1]), int(ends[2])) if ends else (1, 0)
    if not 0 <= last - first < MOST_SEEDS:
        raise BadInput(repr(seeds), f"A-B with A at most B and at most {MOST_SEEDS} seeds", "--seeds")
    return list(range(first, last + 1))


def _subcommand(experiment: Experiment) -> Any:
    """Build the typer command of one experiment; its own options come from its settings."""

    def command(**given: Any) -> None:
        from evenflow.cli.experiment_run import run_experiment

        run_experiment(
            experiment,
            seeds=_seeds(experiment, given.pop("seed"), given.pop("seeds")),
            words=given.pop("set"),
            run=given.pop("run"),
            report=given.pop("report"),
            json=given.pop("json"),
            spark=given.pop("spark"),
            web=given.pop("web"),
            options={name: str(value) for name, value in given.items() if value not in (None, False)},
        )

    command.__signature__ = inspect.Signature(_parameters(experiment))  # type: ignore[attr-defined]  # read by typer
    command.__annotations__ = {p.name: p.annotation for p in _parameters(experiment)}
    one = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    one.command(name=experiment.name, help=experiment.summary, epilog=_epilog(experiment))(command)
    return typer.main.get_command(one)


def _parameters(experiment: Experiment) -> list[inspect.Parameter]:
    texts = {s.name: s.help for s in settings_help(experiment.settings)}
    return [
        _option("seed", str | None, None, "Seed of every stream of chance.", "N", show_default=str(DEFAULT_SEED)),
        _option("seeds", str | None, None, "Seeds A to B, on all cores.", "A-B"),
        _option("set", list[str], [], "One setting; may be repeated.", "KEY=VALUE"),
        *(_own_option(experiment, key, texts[key]) for key in experiment.options),
        _option("run", Path | None, None, "Write run.json and trace.jsonl here.", "DIR"),
        _option("report", Path | None, None, "Write a page with numbers and figures here.", "DIR"),
        _option(
            "spark", bool, False, "Run every seed as a task of Spark, and write rows.parquet to the --run directory."
        ),
        _option("web", bool, False, "Serve the page of the --run directory meanwhile."),
        _option("json", bool, False, "Print one JSON object."),
    ]


def _seeds(experiment: Experiment, seed: str | None, seeds: str | None) -> list[int]:
    return parse_seeds(seed, seeds) if seed or seeds or not experiment.seeds else list(experiment.seeds)


def _own_option(experiment: Experiment, key: str, text: str) -> inspect.Parameter:
    if get_type_hints(experiment.settings)[key] is bool:
        return _option(key, bool, False, text)
    return _option(key, str | None, None, text, "VALUE")


def _option(
    name: str, kind: Any, default: Any, text: str, metavar: str | None = None, show_default: str | bool = False
) -> inspect.Parameter:
    info = typer.Option(f"--{name.replace('_', '-')}", help=text, metavar=metavar, show_default=show_default)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info])


def _epilog(experiment: Experiment) -> str:
    lines = [f"  {s.name}={s.default}  ({s.allowed}) {s.help}".rstrip() for s in settings_help(experiment.settings)]
    return "\n".join(["\b", "Settings for --set, with their defaults:", *lines])  # \b: the lines stay lines
