"""A run directory that may still grow: each look takes in what was written since the last one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evenflow.errors import BadInput
from evenflow.rundir import RUN, TRACE
from evenflow.trace import Run, record_in

INSIDE = Path("evenflow") / "run"  # where the checkpoint of a live query keeps its run directory
REQUESTS = "requests"


def has_trace(directory: Path) -> bool:
    """Say whether there is a run to look at."""
    return any((place / TRACE).is_file() for place in (directory, directory / INSIDE))


class Followed:
    """A run, as far as its trace goes by now.

    Parameters
    ----------
    directory
        A run directory, or the checkpoint of a live query, which holds one.
    seed
        Of a trace with several runs, the one to follow; the first if not given.
    """

    def __init__(self, directory: Path, seed: int | None = None) -> None:
        inside = directory / INSIDE
        self.directory = inside if (inside / TRACE).is_file() else directory
        self.path = self.directory / TRACE
        if not self.path.is_file():
            raise BadInput(f"'{directory}'", f"a run directory or a checkpoint, with {TRACE} in it", "DIR")
        self.run = Run()
        self.seed = seed
        self.settings = _settings(self.directory / RUN)
        self._read = self._lines = 0

    @property
    def requests(self) -> Path | None:
        """Where a live query looks for what is asked of it; ``None`` if nobody would look."""
        told = self.settings.get("requests")
        if told is not None:
            return Path(told) if Path(told).parent.is_dir() else None
        beside = self.directory.parent
        return beside / REQUESTS if self.directory.name == "run" and (beside / "log").is_dir() else None

    def look(self) -> int:
        """Take in what is new and return how many records that were; a line that is still being written waits.

        Raises
        ------
        BadInput
            For a line that is no record; the next look refuses it again.
        """
        taken = 0
        with self.path.open("rb") as trace:
            trace.seek(self._read)
            for line in trace:
                if not line.endswith(b"\n"):
                    break
                record = record_in(line, f"{self.path}, line {self._lines + 1}")
                self._read += len(line)
                self._lines += 1
                if self.seed is None:
                    self.seed = record.get("seed")
                if record.get("seed") == self.seed:
                    self.run.add(record)
                    taken += 1
        return taken


def _settings(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found
