"""The directory of a run: ``run.json`` says what was run, ``trace.jsonl`` what happened."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from evenflow.errors import BadInput

RUN, TRACE = "run.json", "trace.jsonl"
PAGE = "index.html"
MADE_BY = '<meta name="generator" content="evenflow">'
"""Marks a page as a report of ours; it is near the top of the file."""


def claim_run_directory(path: Path, where: str = "--run") -> None:
    """Prepare ``path`` for a run: create it, or clear the trace of the run in it.

    Raises
    ------
    BadInput
        If ``path`` is a file, or holds files but no ``run.json``: other data is never overwritten.
    """
    if path.exists() and not path.is_dir():
        raise BadInput(f"'{path}', which is a file", "a directory", where)
    if path.is_dir() and any(path.iterdir()) and not (path / RUN).is_file():
        raise BadInput(f"'{path}', which holds other files", "an empty, a new or a run directory", where)
    try:
        path.mkdir(parents=True, exist_ok=True)
        (path / TRACE).write_text("", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"'{path}' ({error.strerror})", "a directory that can be written", where) from None


def write_run(path: Path, run: Mapping[str, Any]) -> None:
    """Write ``run.json``: what was run, and with which versions of the libraries."""
    text = json.dumps({**run, "versions": versions()}, indent=2, allow_nan=False)
    part = path / f".{RUN}"  # a page may read it while a live query starts again
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(path / RUN)


def is_report(page: Path) -> bool:
    """Return whether a page is a report of ours, so that a new report may replace it."""
    with page.open("rb") as file:
        return MADE_BY.encode() in file.read(1024)


def versions() -> dict[str, str]:
    """Return the versions of Python and the installed libraries that a result may depend on."""
    installed = {"python": platform.python_version()}
    for name in ("evenflow", "numpy", "pyarrow", "numba", "pyspark", "cyclonedds"):
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return installed
