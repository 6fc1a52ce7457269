"""A run directory holds what a run was and what happened in it: ``run.json`` and ``trace.jsonl``."""

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
"""What tells a report from a page that somebody else wrote; it stands near the top."""


def claim_run_directory(path: Path, where: str = "--run") -> None:
    """Make ``path`` ready for a run: it is created, or an older run in it is cleared.

    Raises
    ------
    BadInput
        When ``path`` is a file, or holds files but no ``run.json``: what may be somebody's data is never overwritten.
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
    """Write ``run.json``: what was run, with the versions of everything that took part."""
    text = json.dumps({**run, "versions": versions()}, indent=2, allow_nan=False)
    part = path / f".{RUN}"  # a page may read it while a live query starts again
    part.write_text(text + "\n", encoding="utf-8")
    part.replace(path / RUN)


def is_report(page: Path) -> bool:
    """Return whether a page is a report of ours, which a new one may replace."""
    with page.open("rb") as file:
        return MADE_BY.encode() in file.read(1024)


def versions() -> dict[str, str]:
    """Return the versions a result may depend on; what is not installed is left out."""
    found = {"python": platform.python_version()}
    for name in ("evenflow", "numpy", "pyarrow", "numba", "pyspark", "cyclonedds"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
