"""Operators on Spark: units are lanes, levels of the tree are stages, and transfers happen between two batches.

A batch flows through the tree from the leaves to the root, one stage per level, in one Spark job.
The state of the operators is written with the batch. The next batch reads it on the lane where each operator then runs,
so the state moves with the operator. During a transfer the source holds readings back, as in Figure 6.
The state between two batches is written before the next one starts (see ``batch_state``). So a repeated batch does the
same and overwrites its own output, and a restarted driver continues with the open windows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from evenflow.operators.even import EvenUnit
from evenflow.operators.query import Meters, Queries
from evenflow.operators.settings import UnitSettings
from evenflow.operators.sizes import Sizes
from evenflow.operators.tree import Tree
from evenflow.operators.unit import MeteringUnit
from evenflow.spark.operators import batch_state as standings
from evenflow.spark.operators.batch_state import OUTPUT, Readings, Standing
from evenflow.spark.operators.mailbox import Mailbox
from evenflow.spark.operators.stage import (
    BROKEN,
    CELL,
    FIELDS,
    HELD,
    READINGS,
    RESULT,
    SAMPLE,
    UNKNOWN,
    Enter,
    Level,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOREVER = 2**60  # a watermark that closes every window
CODE_BYTES = 512  # memory of an operator without any tuples
END = "end"  # the output folder of ``finish``; not a number, because a stream may use that for its next batch
QUERY = "sql.streaming.queryId"  # Spark's local property with the id of the streaming query
_log = logging.getLogger(__name__)


@dataclass
class Moved:
    """One operator's transfer: after which batch, from which unit to which, and the size of its state."""

    op: int
    batch: int
    giver: str
    taker: str
    state_bytes: int


@dataclass
class Pipeline:
    """The operators of some queries on the units of a tree, balanced while readings flow.

    A pipeline on the directory of an earlier driver continues where that driver stopped. It needs the checkpoint of the
    same run. ``memory``, ``partitions`` and ``moved`` then contain only what has happened since.

    Parameters
    ----------
    spark
        A classic session.
    queries, tree
        The queries to run, and the tree of units.
    where
        The unit of every operator at the start of a run.
    place
        A directory for state, results and routes that Spark's tasks and this process can both access.
    capacity
        Memory of a unit, in bytes.
    mode
        ``fixed`` or ``even``, or ``off`` to move nothing.
    settings
        Settings of the units; one period is one batch.
    lateness_s
        How many seconds older than the newest reading so far a reading may be.
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
    partitions: dict[int, dict[int, int]] = field(default_factory=dict)  # batch → operator → the lane that ran it
    memory: dict[int, dict[str, float]] = field(default_factory=dict)  # batch → unit → per cent, before transfers
    moved: list[Moved] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.graph = self.queries.graph()
        self.lane = {unit: number for number, unit in enumerate(self.tree.units)}
        self._begin()

    def _begin(self) -> None:
        """Continue from the saved state, or start a new run; the units restart."""
        plan = standings.plan_of(self.queries, self.tree)
        found = standings.last(self.place, plan) or Standing(0, dict(self.where), plan)
        self._now = replace(found, life=found.life + 1)
        standings.write(self.place, self._now)
        self._settled = True
        self.moved = [move for move in self.moved if move.batch < self._now.batch]
        self.sizes = Sizes({s.id: self._per_cent(self._now.state_bytes.get(s.id, 0)) for s in self.queries.specs})
        self.mailbox = Mailbox({}, self._note, dict(self._now.where), self._looked(self._now.batch))
        if self.mode != "off":
            kind = EvenUnit if self.mode == "even" else MeteringUnit
            held: dict[str, list[int]] = {unit: [] for unit in self.tree.units}
            for op, unit in self._now.where.items():
                held[unit].append(op)
            self.mailbox.actors = {
                unit: kind(unit, self.graph, self.tree, self.sizes, held[unit], self.settings) for unit in held
            }
            self.mailbox.start(self._now.life)

    def _looked(self, batch: int) -> float:
        """Return a time at which the units have checked their memory once for every batch before this one."""
        # A unit checks once per batch, and every transfer that follows ends before the next check.
        return self.settings.first_s + batch * self.settings.period_s - 1e-6 if batch else 0.0

    def _per_cent(self, size: int) -> float:
        return 100.0 * (size + CODE_BYTES) / self.capacity

    @property
    def counted(self) -> Readings:
        """The number of readings since the start of the run, and of those that were late, unknown or broken."""
        return self._now.readings

    # -- one batch ------------------------------------------------------------------------------

    def __call__(self, readings: DataFrame, batch: int) -> None:
        """Process one batch of readings, for ``foreachBatch``: run it, measure it, and let the units negotiate.

        A batch that Spark repeats uses the same routes and the same state. It is not counted or balanced again.
        """
        query = readings.sparkSession.sparkContext.getLocalProperty(QUERY)
        self._ready()
        standings.belongs(self.place, self._now, batch, query)
        output = self.place / OUTPUT / str(batch)
        if batch < self._now.batch:
            self._flow(readings, standings.read(self.place, batch), output)
            return
        self._flow(readings, self._now, output)
        self._settle(self._now, batch + 1, output, query)

    def finish(self, readings: DataFrame) -> None:
        """Close every window; ``readings`` is an empty DataFrame. No batch may follow."""
        self._ready()
        standings.belongs(self.place, self._now, self._now.batch, None)
        now = replace(self._now, watermark=FOREVER)
        self._flow(readings, now, self.place / OUTPUT / END)
        self._settle(now, now.batch, self.place / OUTPUT / END, None)

    def _ready(self) -> None:
        if not self._settled:  # the last batch failed after its output was written, and will be repeated
            self._begin()

    def _settle(self, now: Standing, following: int, output: Path, query: str | None) -> None:
        """Measure the batch, run the units' negotiations, and write the state for the next batch."""
        self._settled = False
        counts, newest, state_bytes = self._measure(now, output / f"kind={SAMPLE}")
        self._now = replace(now, readings=counts, newest=newest, state_bytes=state_bytes)
        if self.mode != "off":
            self.mailbox.run(self._looked(now.batch + 1))
        assert len(self.mailbox.where) == len(self.queries.specs), "an operator is under way between two batches"
        self._now = replace(
            self._now,
            batch=following,
            where=dict(sorted(self.mailbox.where.items())) if following > now.batch else now.where,
            closed=now.watermark,
            watermark=max(now.watermark, newest - self.lateness_s),
            query=query or now.query,
            finished=following == now.batch,
        )
        standings.write(self.place, self._now)
        self._settled = True

    def _flow(self, readings: DataFrame, now: Standing, output: Path) -> None:
        """Run readings through the tree, from the leaves to the root, and write the output."""
        lanes = {op: self.lane[unit] for op, unit in now.where.items()}
        fed, downs = [], {}
        for spec in self.queries.specs:
            for side, end in enumerate(spec.inputs):
                if isinstance(end, Meters):
                    fed.append((spec.id, side, end))
                else:
                    downs[end] = (spec.id, side)
        enter = Enter(tuple(fed), lanes, self.tree.leaves[self.tree.root])
        cells = readings.select("ts", "leaf", "meter", "value").mapInArrow(enter, CELL)
        if any(now.state_bytes.values()):  # then the file must exist, or windows would be lost silently
            state = self.place / OUTPUT / str(now.batch - 1) / f"kind={HELD}"
            held = self.spark.read.schema(CELL).parquet(str(state)).withColumn("kind", F.lit(HELD))
            where = F.create_map(*(F.lit(x) for pair in lanes.items() for x in pair))
            cells = cells.unionByName(held.withColumn("lane", where[F.col("op").cast("int")]))
        specs, count = tuple(self.queries.specs), len(self.lane)
        for units in reversed(self.tree.levels()):
            level = Level(specs, downs, lanes, frozenset(self.lane[u] for u in units), now.closed, now.watermark)
            cells = cells.repartitionById(count, "lane").mapInArrow(level, CELL)
        cells.write.mode("overwrite").partitionBy("kind").parquet(str(output))

    def lanes_of(self, batch: int) -> dict[int, int]:
        """Return the lane of every operator in a batch."""
        return {op: self.lane[unit] for op, unit in standings.read(self.place, batch).where.items()}

    # -- between two batches --------------------------------------------------------------------

    def _measure(self, now: Standing, samples: Path) -> tuple[Readings, int, dict[int, int]]:
        """Read the samples of a batch; return counts of readings, the newest time, and each operator's state bytes."""
        counts, newest, state_bytes = now.readings, now.newest, {}
        ran: dict[int, int] = {}
        odd: dict[str, list[Any]] = {}
        for row in _rows(samples):
            if row["op"] == READINGS:
                newest = max(newest, row["ts"])
                counts = replace(counts, read=counts.read + row["value"])
            elif row["op"] in (UNKNOWN, BROKEN):
                name = "unknown" if row["op"] == UNKNOWN else "broken"
                counts = replace(counts, **{name: getattr(counts, name) + row["value"]})
                odd.setdefault(name, []).append(row)
            else:
                ran[row["op"]] = row["lane"]
                state_bytes[row["op"]] = row["ts"]
                counts = replace(counts, late=counts.late + row["key"])
        self.partitions[now.batch] = ran
        self._weigh(now.batch, state_bytes)
        for name, rows in odd.items():
            self._tell(now.batch, name, rows)
        return counts, newest, state_bytes

    def _weigh(self, batch: int, state_bytes: Mapping[int, int]) -> None:
        for spec in self.queries.specs:
            self.sizes[spec.id] = self._per_cent(state_bytes.get(spec.id, 0))
        memory = dict.fromkeys(self.tree.units, 0.0)
        for op, unit in self.mailbox.where.items():
            memory[unit] += self.sizes[op]
        self.memory[batch] = memory
        limit = self.settings.upper / 100
        for unit, load in memory.items():
            self._record({"kind": "sample", "at": float(batch), "node": unit, "load": load / 100.0, "limit": limit})

    def _tell(self, batch: int, name: str, rows: list[Any]) -> None:
        """Report readings that were left out of a batch, on the trace and in the log, so that a person sees it."""
        first = min(row["blob"].decode() for row in rows)
        why = {"unknown": "of leaves that the tree does not have", "broken": "without one of ts, leaf, meter and value"}
        said = f"{sum(row['value'] for row in rows)} readings {why[name]}, such as {first}"
        _log.warning("batch %d: left out %s", batch, said)
        self._record({"kind": "refusal", "at": float(batch), "name": f"{name} readings", "why": said, "batch": batch})

    def _note(self, record: Mapping[str, Any]) -> None:
        batch = self._now.batch
        if record["kind"] == "session" and record["step"] == "done":
            for op in record["units"]:
                size = self._now.state_bytes.get(op, 0)
                self.moved.append(Moved(op, batch, record["giver"], record["taker"], size))
        self._record({**record, "batch": batch})

    def _record(self, record: Mapping[str, Any]) -> None:
        if self.trace is not None:
            self.trace(record)

    # -- results --------------------------------------------------------------------------------

    def results(self) -> list[tuple[int, int, int, int]]:
        """Return all results of the complete batches as ``op, ts, key, value``, sorted."""
        folders = [str(batch) for batch in range(self._now.batch)] + [END] * self._now.finished
        found = []
        for folder in folders:
            rows = _rows(self.place / OUTPUT / folder / f"kind={RESULT}")
            found += [(r["op"], r["ts"], r["key"], r["value"]) for r in rows]
        return sorted(found)


def _rows(folder: Path) -> list[dict[str, Any]]:
    if not folder.exists():
        return []
    schema = pa.schema([f for f in FIELDS if f.name != "kind"])
    found: list[dict[str, Any]] = pq.read_table(folder, schema=schema, partitioning=None).to_pylist()
    return found
