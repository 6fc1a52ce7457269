"""Files that appear complete or not at all: the pin of a batch, and the numbered files of a folder that Spark streams."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FIRST_FILE = 1_700_000_000  # modification time of file 0, in seconds since the epoch


def pinned(file: Path, make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Return a file's content; write the file first if it does not exist, so that a rerun batch reads the same content."""
    if not file.exists():
        write_whole(file, make())
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def write_whole(file: Path, record: Mapping[str, Any]) -> None:
    """Write a record as JSON; a reader sees the complete new file or the previous one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    hidden = file.with_suffix(".new")
    hidden.write_text(json.dumps(record))
    hidden.rename(file)


def write_numbered(folder: Path, number: int, table: pa.Table) -> None:
    """Write one file of a stream.

    Spark reads files in the order of their modification times, and two files written in quick succession may have
    the same time. So the modification time is set from the number.
    """
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{number:05}"
    pq.write_table(table, hidden)
    os.utime(hidden, (FIRST_FILE + number, FIRST_FILE + number))
    hidden.rename(folder / f"{number:05}.parquet")
