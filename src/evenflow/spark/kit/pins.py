"""Files that appear whole: a batch's pin, and the numbered files of a folder that Spark streams."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FIRST_FILE = 1_700_000_000  # the time that file 0 carries


def pinned(file: Path, make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Return what a file says; if there is none, write it first. A batch that is run again finds the same."""
    if not file.exists():
        write_whole(file, make())
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def write_whole(file: Path, record: Mapping[str, Any]) -> None:
    """Write a record as JSON; a reader finds the whole file, or the one before it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    hidden = file.with_suffix(".new")
    hidden.write_text(json.dumps(record))
    hidden.rename(file)


def write_numbered(folder: Path, number: int, table: pa.Table) -> None:
    """Write one file of a stream.

    Spark reads files in the order of their times, and two that are written quickly may share one; so the number is the time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{number:05}"
    pq.write_table(table, hidden)
    os.utime(hidden, (FIRST_FILE + number, FIRST_FILE + number))
    hidden.rename(folder / f"{number:05}.parquet")
