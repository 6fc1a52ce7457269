"""Runs one experiment for a person: progress while it runs, then a table, a JSON object, a run directory, a report."""

from __future__ import annotations

import dataclasses
import json as json_module
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from evenflow.cli.output import console, print_json, print_rich, say
from evenflow.cli.served import served
from evenflow.errors import BadInput
from evenflow.experiments.campaign import Elsewhere, run_campaign
from evenflow.experiments.figures import SERIES
from evenflow.experiments.registry import Experiment
from evenflow.experiments.rows_file import ROWS, write_rows
from evenflow.experiments.settings import parse_settings
from evenflow.experiments.summary import aggregate, plain
from evenflow.rundir import PAGE, TRACE, claim_run_directory, is_report, write_run


def run_experiment(
    experiment: Experiment,
    seeds: Sequence[int],
    words: Sequence[str],
    options: Mapping[str, str],
    run: Path | None,
    report: Path | None,
    json: bool,
    spark: bool = False,
    web: bool = False,
) -> None:
    """Run ``experiment`` over ``seeds`` and show the result in every form that was asked for."""
    settings = _settings(experiment, words, options)
    plain_settings: dict[str, Any] = {k: plain(v) for k, v in dataclasses.asdict(settings).items()}
    if web and (run is None or len(seeds) > 1 or spark):
        raise BadInput("--web", "a single seed with --run DIR, where its trace goes", "--web")
    if report is not None:
        claim_report_directory(report)
    if run is not None:
        claim_run_directory(run)
        (run / ROWS).unlink(missing_ok=True)
        write_run(run, {"experiment": experiment.name, "settings": plain_settings, "seeds": list(seeds)})
    begun = time.perf_counter()
    with (
        served(run or Path(), wanted=web),
        _workers(experiment.name, spark=spark) as elsewhere,
        _progress(hidden=len(seeds) == 1) as progress,
    ):
        task = progress.add_task(experiment.name, total=len(seeds))
        trace = None if run is None else run / TRACE
        rows = run_campaign(experiment, settings, seeds, trace, lambda: progress.advance(task), elsewhere, flush=web)
    if run is not None and spark:
        write_rows(run / ROWS, rows)
    result = {
        "experiment": experiment.name,
        "settings": plain_settings,
        "seeds": list(seeds),
        "rows": rows,
        **aggregate(rows),
        "seconds": round(time.perf_counter() - begun, 3),
    }
    if run is not None:
        say(f"wrote {run}")
    if report is not None:
        say(f"wrote {_write_report(report, experiment, settings, result)}")
    if json:
        print_json(result)
    else:
        print_rich(summary_table(result))


def summary_table(result: Mapping[str, Any]) -> Table:
    """Lay the numbers of an experiment's result out for reading."""
    rows = result["rows"]
    if len(rows) == 1:
        table = Table("", "value", title=f"{result['experiment']}, seed {rows[0]['seed']}")
        for name, value in rows[0].items():
            if name not in ("seed", SERIES):
                table.add_row(words_of(name), text_of(value))
    else:
        measures = ("total", "mean", "median", "max")
        table = Table("", *measures, title=f"{result['experiment']}, {len(rows)} seeds")
        for name in result["mean"]:
            table.add_row(words_of(name), *(text_of(result[measure].get(name)) for measure in measures))
    table.caption = f"{result['seconds']:.1f} s"
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def words_of(name: str) -> str:
    """Turn a field's name into words: ``max_over_mean`` into ``max over mean``."""
    return name.replace("_", " ")


def text_of(value: Any) -> str:
    """Show one value the way a person reads it; nothing stays empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e6 else f"{value:,.0f}"
    return value if isinstance(value, str) else json_module.dumps(value)


def _settings(experiment: Experiment, words: Sequence[str], options: Mapping[str, str]) -> Any:
    for key in options:
        if any(word.partition("=")[0] == key for word in words):
            raise BadInput(f"--{key} and --set {key}", "one of the two", f"--{key}")
    return parse_settings(experiment.settings, [*words, *(f"{key}={value}" for key, value in options.items())])


def _progress(*, hidden: bool) -> Progress:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    screen = console(stderr=True)
    # A log file wants no bars; a single seed is over before a bar says anything.
    return Progress(*columns, console=screen, transient=True, disable=hidden or not screen.is_terminal)


@contextmanager
def _workers(name: str, *, spark: bool) -> Iterator[Elsewhere | None]:
    """Give the campaign Spark's workers, if they were asked for, and let them go afterwards."""
    if not spark:
        yield None
        return
    from evenflow.spark.submitted import make_importable, session
    from evenflow.spark.sweep import sweep

    make_importable(Path.cwd())  # a person's own policy lies beside them
    started = session(f"evenflow experiment {name}")
    try:
        yield partial(sweep, started)
    finally:
        started.stop()


def claim_report_directory(path: Path) -> None:
    """Make sure that a report can be written there, before hours of work.

    Raises
    ------
    BadInput
        For a file, a place that cannot be written, or one that holds another page.
    """
    if path.exists() and not path.is_dir():
        raise BadInput(f"'{path}', which is a file", "a directory", "--report")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"'{path}' ({error.strerror})", "a directory that can be written", "--report") from None
    page = path / PAGE
    if not os.access(page if page.exists() else path, os.W_OK):
        raise BadInput(f"'{path}', which is read-only", "a directory that can be written", "--report")
    if page.exists() and not (page.is_file() and is_report(page)):
        raise BadInput(f"'{path}', which holds another {PAGE}", "a new directory, or that of a report", "--report")


def _write_report(path: Path, experiment: Experiment, settings: Any, result: Mapping[str, Any]) -> Path:
    from evenflow.web.report import write_experiment_report

    parts = experiment.figures(result["rows"], settings) if experiment.figures is not None else ()
    return write_experiment_report(path, result, experiment.summary, parts)
