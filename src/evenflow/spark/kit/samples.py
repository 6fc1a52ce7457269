"""Measurements of each lane and its slices per batch: one small file per task, read between batches and deleted soon after."""

from __future__ import annotations

import json
import logging
import re
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Final

from evenflow.spark.kit.storage import Storage

FOLDER: Final = "samples"
KEPT: Final = 20  # batches
_NAME: Final = re.compile(r"(\d{12})-\d{6}")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sample:
    """The measurements of one lane in one batch; ``slices`` has the cost of each slice's turn.

    ``cpu_s`` and ``wall_s`` cover the whole task in the Python worker: Spark's task metrics do not include Python's CPU time.
    """

    batch: int
    lane: int
    at: float
    rows: int
    cpu_s: float
    wall_s: float
    memory_bytes: int
    state_bytes: int
    held_rows: int
    slices: dict[int, Cost] = field(default_factory=dict)


class Meter:
    """Collects a task's costs and writes them when the task ends.

    The file is named after batch and lane, so a task that runs again replaces the file of its first attempt.
    """

    def __init__(self) -> None:
        self._began = time.perf_counter(), time.process_time()
        self._costs: dict[int, Cost] = {}

    def add(self, slice_id: int, cost: Cost) -> None:
        """Record the cost of a slice's turn; a slice has one turn per lane and batch."""
        self._costs[slice_id] = cost

    def write(self, place: Storage, batch: int, lane: int) -> None:
        """Write the sample."""
        costs = self._costs.values()
        sample = Sample(
            batch=batch,
            lane=lane,
            at=time.time(),
            rows=sum(c.rows for c in costs),
            cpu_s=time.process_time() - self._began[1],
            wall_s=time.perf_counter() - self._began[0],
            memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            state_bytes=sum(c.state_bytes for c in costs),
            held_rows=sum(c.held_rows for c in costs),
            slices=self._costs,
        )
        content = json.dumps(asdict(sample), separators=(",", ":")).encode()
        place.write(f"{FOLDER}/{batch:012}-{lane:06}", content, lasting=False)  # a sample may be lost


class Samples:
    """Reads each sample once and deletes old ones."""

    def __init__(self, place: Storage) -> None:
        self._place = place
        self._read_up_to = -1

    def new(self) -> list[Sample]:
        """Return the samples of batches that have not been read yet, in order."""
        batches = {name: int(known[1]) for name in self._place.names(FOLDER) if (known := _NAME.fullmatch(name))}
        newest = max(batches.values(), default=-1)
        found = []
        for name, batch in batches.items():
            if batch > self._read_up_to:
                sample = self._one(name)
                found += [] if sample is None else [sample]
            elif batch <= newest - KEPT:
                self._place.delete(f"{FOLDER}/{name}")
        self._read_up_to = max(self._read_up_to, newest)
        return found

    def _one(self, name: str) -> Sample | None:
        """Return a sample, or ``None`` if it is broken or deleted: balancing can do without it."""
        try:
            fields = json.loads(self._place.read(f"{FOLDER}/{name}"))
            return Sample(**{**fields, "slices": {int(s): Cost(**cost) for s, cost in fields["slices"].items()}})
        except FileNotFoundError:  # deleted by the control loop while an operator's call reads it
            return None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            _log.warning("%s/%s/%s cannot be read and is passed over: %s", self._place.url, FOLDER, name, error)
            return None


@dataclass(slots=True)
class Cost:
    """The cost of one turn."""

    rows: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    state_bytes: int = 0
    held_rows: int = 0


@contextmanager
def stopwatch(cost: Cost) -> Iterator[Cost]:
    """Add the CPU and wall seconds of a ``with`` block to a cost."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield cost
    cost.wall_s += time.perf_counter() - wall
    cost.cpu_s += time.process_time() - cpu
