"""What each lane measured of its slices in each batch: one small file per task, read between batches and soon deleted."""

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
    """One lane in one batch; ``slices`` has what each slice's turn took.

    ``cpu_s`` and ``wall_s`` are the whole task's in the Python worker: Spark's own task metrics do not see Python's CPU.
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
    """Gathers a task's costs and writes them down when the task ends.

    The file is named for batch and lane: a task that runs again replaces what its first attempt wrote.
    """

    def __init__(self) -> None:
        self._began = time.perf_counter(), time.process_time()
        self._costs: dict[int, Cost] = {}

    def add(self, slice_id: int, cost: Cost) -> None:
        """Take in one turn: a slice has one per lane and batch."""
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
        place.write(f"{FOLDER}/{batch:012}-{lane:06}", content, lasting=False)  # the next batch is measured again


class Samples:
    """Reads samples, each once, and deletes old ones."""

    def __init__(self, place: Storage) -> None:
        self._place = place
        self._read_up_to = -1

    def new(self) -> list[Sample]:
        """Return the samples of batches that were not read yet, in order."""
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
        """Return a sample, or ``None`` for one that is broken or gone: it only steers, so the stream goes on without it."""
        try:
            fields = json.loads(self._place.read(f"{FOLDER}/{name}"))
            return Sample(**{**fields, "slices": {int(s): Cost(**cost) for s, cost in fields["slices"].items()}})
        except FileNotFoundError:  # deleted by the control loop, while an operator's call reads
            return None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            _log.warning("%s/%s/%s cannot be read and is passed over: %s", self._place.url, FOLDER, name, error)
            return None


@dataclass(slots=True)
class Cost:
    """What a turn took."""

    rows: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    state_bytes: int = 0
    held_rows: int = 0


@contextmanager
def stopwatch(cost: Cost) -> Iterator[Cost]:
    """Add the CPU and wall seconds of a block to a cost."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield cost
    cost.wall_s += time.perf_counter() - wall
    cost.cpu_s += time.process_time() - cpu
