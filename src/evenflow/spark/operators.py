"""Operators live on Spark: units are lanes, levels of the tree are stages, and transfers happen between two batches.

A batch flows through the tree from the leaves to the root, one stage per level, in one Spark job.
What the operators keep is written with the batch and read by the next one, on whichever lane an operator then runs:
the state travels with the operator. While a transfer is made the source holds readings back, as Figure 6 has it.
The routes of a batch are pinned before it runs, so a repeated batch does the same and overwrites its own output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from evenflow.operators.even import EvenUnit
from evenflow.operators.query import Meters, Queries
from evenflow.operators.settings import UnitSettings
from evenflow.operators.sizes import Sizes
from evenflow.operators.tree import Tree
from evenflow.operators.unit import MeteringUnit
from evenflow.spark.operators_mailbox import Mailbox
from evenflow.spark.operators_stage import CELL, FIELDS, HELD, READINGS, RESULT, SAMPLE, Enter, Level
from evenflow.spark.pins import pinned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOREVER = 2**60  # a watermark that closes every window
CODE_BYTES = 512  # what an operator takes without any tuple


@dataclass
class Moved:
    """One operator's transfer: after which batch, between whom, and what it carried."""

    op: int
    batch: int
    giver: str
    taker: str
    state_bytes: int


@dataclass
class Pipeline:
    """The operators of some queries on the units of a tree, balanced while readings flow.

    Parameters
    ----------
    spark
        A classic session.
    queries, tree
        What runs, and on which units.
    where
        The unit of every operator at the start.
    place
        A directory for state, results and routes, which Spark's tasks and this process both reach.
    capacity
        Bytes that are a unit's memory.
    mode
        ``fixed`` or ``even``, or ``off`` to leave everything where it is.
    settings
        Thresholds of the units; their period is one batch.
    lateness_s
        How much later than the newest reading so far a reading may come.
    """

    spark: SparkSession
    queries: Queries
    tree: Tree
    where: Mapping[int, str]
    place: Path
    capacity: int
    mode: str = "even"
    settings: UnitSettings = field(default_factory=UnitSettings)
    lateness_s: int = 0
    trace: Callable[[Mapping[str, Any]], object] | None = None
    sizes: Sizes = field(default_factory=Sizes)
    state_bytes: dict[int, int] = field(default_factory=dict)
    partitions: dict[int, dict[int, int]] = field(default_factory=dict)  # batch → operator → the lane that ran it
    memory: dict[int, dict[str, float]] = field(default_factory=dict)  # batch → unit → per cent, before transfers
    moved: list[Moved] = field(default_factory=list)
    late: int = 0
    readings: int = 0

    def __post_init__(self) -> None:
        self.graph = self.queries.graph()
        self.lane = {unit: number for number, unit in enumerate(self.tree.units)}
        self.mailbox = Mailbox({}, self._note, dict(self.where))
        self._closed, self._newest, self._batch = 0, 0, -1
        for spec in self.queries.specs:
            self.sizes[spec.id] = self._per_cent(0)
        if self.mode != "off":
            kind = EvenUnit if self.mode == "even" else MeteringUnit
            held: dict[str, list[int]] = {unit: [] for unit in self.tree.units}
            for op, unit in self.where.items():
                held[unit].append(op)
            self.mailbox.actors = {
                unit: kind(unit, self.graph, self.tree, self.sizes, held[unit], self.settings) for unit in held
            }
            self.mailbox.start()

    def _per_cent(self, size: int) -> float:
        return 100.0 * (size + CODE_BYTES) / self.capacity

    # -- one batch ------------------------------------------------------------------------------

    def __call__(self, readings: DataFrame, batch: int) -> None:
        """Take one batch of readings, for ``foreachBatch``."""
        self.process(readings, batch, self._newest - self.lateness_s)

    def finish(self, readings: DataFrame) -> None:
        """Close every window; ``readings`` is an empty frame."""
        self.process(readings, self._batch + 1, FOREVER)

    def process(self, readings: DataFrame, batch: int, watermark: int) -> None:
        """Let one batch flow through the tree, measure it, and let the units negotiate.

        A batch that Spark repeats is routed as it was, reads the same state, and is neither counted nor acted on again.
        """
        pin = self._pinned(batch, watermark)
        lanes = {int(op): lane for op, lane in pin["lanes"].items()}
        fed, downs = [], {}
        for spec in self.queries.specs:
            for side, end in enumerate(spec.inputs):
                if isinstance(end, Meters):
                    fed.append((spec.id, side, end))
                else:
                    downs[end] = (spec.id, side)
        cells = readings.select("ts", "leaf", "meter", "value").mapInArrow(Enter(tuple(fed), lanes), CELL)
        state = self.place / "batches" / str(pin["after"]) / f"kind={HELD}"
        if state.exists():
            held = self.spark.read.schema(CELL).parquet(str(state)).withColumn("kind", F.lit(HELD))
            where = F.create_map(*(F.lit(x) for pair in lanes.items() for x in pair))
            cells = cells.unionByName(held.withColumn("lane", where[F.col("op").cast("int")]))
        specs, count = tuple(self.queries.specs), len(self.lane)
        for units in reversed(self.tree.levels()):
            level = Level(specs, downs, lanes, frozenset(self.lane[u] for u in units), pin["closed"], pin["watermark"])
            cells = cells.repartitionById(count, "lane").mapInArrow(level, CELL)
        output = self.place / "batches" / str(batch)
        cells.write.mode("overwrite").partitionBy("kind").parquet(str(output))
        if batch <= self._batch:
            return
        self._closed, self._batch = pin["watermark"], batch
        self._measure(batch, output / f"kind={SAMPLE}")
        self._negotiate(batch)

    def _pinned(self, batch: int, watermark: int = 0) -> dict[str, Any]:
        """Return what decides a batch's output beside its readings, as it was when the batch first began."""

        def pin() -> dict[str, Any]:
            lanes = {op: self.lane[unit] for op, unit in sorted(self.mailbox.where.items())}
            assert len(lanes) == len(self.queries.specs), "an operator is under way between two batches"
            later = max(watermark, self._closed)
            return {"lanes": lanes, "closed": self._closed, "watermark": later, "after": self._batch}

        return pinned(self.place / "routes" / f"{batch}.json", pin)

    def lanes_of(self, batch: int) -> dict[int, int]:
        """Return the lane that every operator had in a batch."""
        return {int(op): lane for op, lane in self._pinned(batch)["lanes"].items()}

    # -- between two batches --------------------------------------------------------------------

    def _measure(self, batch: int, samples: Path) -> None:
        self.partitions[batch] = {}
        self.state_bytes = {}
        for row in _rows(samples):
            if row["op"] == READINGS:
                self._newest = max(self._newest, row["ts"])
                self.readings += row["value"]
                continue
            self.partitions[batch][row["op"]] = row["lane"]
            self.state_bytes[row["op"]] = row["ts"]
            self.late += row["key"]
        for spec in self.queries.specs:
            self.sizes[spec.id] = self._per_cent(self.state_bytes.get(spec.id, 0))
        memory = dict.fromkeys(self.tree.units, 0.0)
        for op, unit in self.mailbox.where.items():
            memory[unit] += self.sizes[op]
        self.memory[batch] = memory
        for unit, load in memory.items():
            self._record(
                {
                    "kind": "sample",
                    "at": float(batch),
                    "node": unit,
                    "load": load / 100.0,
                    "limit": self.settings.upper / 100,
                }
            )

    def _negotiate(self, batch: int) -> None:
        if self.mode != "off":
            # A unit looks once per batch, and everything that follows from it is over before the next one.
            self.mailbox.run(self.settings.first_s + (batch + 1) * self.settings.period_s - 1e-6)

    def _note(self, record: Mapping[str, Any]) -> None:
        if record["kind"] == "session" and record["step"] == "done":
            for op in record["units"]:
                size = self.state_bytes.get(op, 0)
                self.moved.append(Moved(op, self._batch, record["giver"], record["taker"], size))
        self._record({**record, "batch": self._batch})

    def _record(self, record: Mapping[str, Any]) -> None:
        if self.trace is not None:
            self.trace(record)

    # -- what came of it ------------------------------------------------------------------------

    def results(self) -> list[tuple[int, int, int, int]]:
        """Return every result as ``op, ts, key, value``, in order."""
        found = []
        for folder in sorted((self.place / "batches").iterdir()):
            found += [(r["op"], r["ts"], r["key"], r["value"]) for r in _rows(folder / f"kind={RESULT}")]
        return sorted(found)


def _rows(folder: Path) -> list[dict[str, Any]]:
    if not folder.exists():
        return []
    schema = pa.schema([f for f in FIELDS if f.name != "kind"])
    found: list[dict[str, Any]] = pq.read_table(folder, schema=schema, partitioning=None).to_pylist()
    return found
