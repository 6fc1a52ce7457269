"""The state between two batches of a metering pipeline, written before a batch starts so that it can be repeated.

The file of batch *n* contains everything besides the readings that determines its output: where every operator runs,
which windows are closed and which close now. A batch that Spark repeats, in this process or after a restart of the
driver, reads the same file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from evenflow.errors import BadInput
from evenflow.operators.query import Queries
from evenflow.operators.tree import Tree
from evenflow.spark.kit.pins import write_whole

FOLDER = "before"
OUTPUT = "batches"


@dataclass(frozen=True)
class Readings:
    """Counts of readings since the first batch.

    Parameters
    ----------
    read
        All readings.
    late
        Rows that came after their window had closed. A reading that feeds several operators may be late for each.
    unknown
        Readings whose leaf is not in the tree.
    broken
        Readings that lack a field.
    """

    read: int = 0
    late: int = 0
    unknown: int = 0
    broken: int = 0


@dataclass(frozen=True)
class Standing:
    """The state at the start of a batch.

    Parameters
    ----------
    batch
        The number of the batch.
    where
        The unit of every operator.
    closed, watermark
        Windows that end at or before ``closed`` are already closed; those up to ``watermark`` close in this batch.
    newest
        The time of the newest reading so far.
    state_bytes
        The size of each operator's state after the last batch.
    life
        How many times a driver has started on this directory; restarted units use it to number their negotiations.
    plan
        A hash of the queries and the tree.
    query
        The id of the streaming query, as in its checkpoint.
    finished
        Whether every window is closed, so that no batch may follow.
    """

    batch: int
    where: Mapping[int, str]
    plan: str
    closed: int = 0
    watermark: int = 0
    newest: int = 0
    state_bytes: Mapping[int, int] = field(default_factory=dict)
    readings: Readings = field(default_factory=Readings)
    life: int = 0
    query: str | None = None
    finished: bool = False


def plan_of(queries: Queries, tree: Tree) -> str:
    """Return a hash of the queries and the tree."""
    said = repr((queries.specs, list(tree.parent.items())))
    return blake2b(said.encode(), digest_size=16).hexdigest()


def write(place: Path, standing: Standing) -> None:
    """Write the state for a batch."""
    write_whole(place / FOLDER / f"{standing.batch}.json", asdict(standing))


def read(place: Path, batch: int) -> Standing:
    """Return the state that was written for a batch."""
    found: dict[str, Any] = json.loads((place / FOLDER / f"{batch}.json").read_text())
    for name in ("where", "state_bytes"):
        found[name] = {int(op): value for op, value in found[name].items()}
    return Standing(**{**found, "readings": Readings(**found["readings"])})


def last(place: Path, plan: str) -> Standing | None:
    """Return the last state that an earlier driver wrote, or ``None`` if there is none.

    Raises
    ------
    BadInput
        If the directory belongs to other queries or another tree, or has batches but no saved state.
    """
    numbers = [int(file.stem) for file in (place / FOLDER).glob("*.json")]
    if not numbers:
        if (place / OUTPUT).exists():
            raise BadInput("batches without what stood between them", "an empty directory", str(place))
        return None
    found = read(place, max(numbers))
    if found.plan != plan:
        allowed = "the queries and the tree that this directory began with, or an empty directory"
        raise BadInput("other queries or another tree", allowed, str(place))
    return found


def belongs(place: Path, now: Standing, batch: int, query: str | None) -> None:
    """Refuse a batch that does not continue this directory, because then the checkpoint belongs to another run.

    Spark repeats at most the last batch; any other number would mix two runs.
    """
    both = "the directory and the checkpoint of one run, or an empty directory and an empty checkpoint"
    if now.finished:
        raise BadInput(
            f"batch {batch} after the end", "an empty directory: this run closed all its windows", str(place)
        )
    if query is not None and now.query not in (None, query):
        raise BadInput("the checkpoint of another run", both, str(place))
    if batch not in (now.batch, now.batch - 1) or batch < 0:
        raise BadInput(f"batch {batch} where batch {now.batch} is next", both, str(place))
