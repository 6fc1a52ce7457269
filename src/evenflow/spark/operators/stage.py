"""One level of the tree as a stage of a Spark job: every unit is a partition that runs its operators on its rows."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from evenflow.operators.execute import STATE, execute
from evenflow.operators.query import Meters, Spec

ROW, HELD, RESULT, SAMPLE = 0, 1, 2, 3  # kinds of cells: input row, operator state, result, measurement
CELL = "kind int, op long, lane int, side long, ts long, key long, value long, blob binary"
FIELDS = pa.schema(
    [
        ("kind", pa.int32()),
        ("op", pa.int64()),
        ("lane", pa.int32()),
        ("side", pa.int64()),
        ("ts", pa.int64()),
        ("key", pa.int64()),
        ("value", pa.int64()),
        ("blob", pa.binary()),
    ]
)
READINGS, UNKNOWN, BROKEN = -1, -2, -3  # used as the operator in samples that count readings


def cells(kind: int, op: int, lane: int, rows: Any) -> Any:
    """Return rows with ``side, ts, key, value`` as cells."""
    count = rows.num_rows
    return pa.table(
        [
            pa.array(np.full(count, kind, np.int32)),
            pa.array(np.full(count, op, np.int64)),
            pa.array(np.full(count, lane, np.int32)),
            *(rows.column(name) for name in STATE.names),
            pa.nulls(count, pa.binary()),
        ],
        schema=FIELDS,
    )


def one(kind: int, op: int, lane: int, numbers: tuple[int, int, int, int], blob: bytes | None = None) -> Any:
    """Return a table with a single cell."""
    values = (kind, op, lane, *numbers, blob)
    return pa.table([pa.array([v], f.type) for v, f in zip(values, FIELDS, strict=True)], schema=FIELDS)


def packed(table: Any) -> bytes:
    """Return an operator's state as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def unpacked(blob: bytes) -> Any:
    """Return an operator's state from bytes."""
    with pa.ipc.open_stream(blob) as reader:
        return reader.read_all()


@dataclass(frozen=True)
class Enter:
    """The function for ``mapInArrow`` that sends each reading to the operators it feeds, on the lanes where they run.

    A reading that lacks a field, or whose leaf is not in ``leaves``, is counted and dropped.
    """

    fed: tuple[tuple[int, int, Meters], ...]  # operator, which of its inputs, its meters
    lanes: Mapping[int, int]
    leaves: frozenset[str]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the cells of the readings, and samples with their counts."""
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            if not rows.num_rows:
                continue
            yield from one(SAMPLE, READINGS, 0, (0, 0, 0, rows.num_rows)).to_batches()
            whole = reduce(pc.and_, (pc.is_valid(column) for column in rows.columns))
            rows = yield from self._with(rows, whole, BROKEN)
            known = pc.is_in(rows.column("leaf"), pa.array(sorted(self.leaves)))
            rows = yield from self._with(rows, known, UNKNOWN)
            if rows.num_rows:
                yield from self._fan_out(rows)

    def _with(self, rows: Any, right: Any, otherwise: int) -> Generator[Any, None, Any]:
        """Return the rows where ``right`` is true; yield the count of the others with one of them as an example."""
        kept = rows.filter(right)
        if kept.num_rows < rows.num_rows:
            example = json.dumps(rows.filter(pc.invert(right)).slice(0, 1).to_pylist()[0], default=str)
            count = rows.num_rows - kept.num_rows
            yield from one(SAMPLE, otherwise, 0, (0, 0, 0, count), example.encode()).to_batches()
        return kept

    def _fan_out(self, rows: Any) -> Iterator[Any]:
        leaf, meter = rows.column("leaf"), rows.column("meter")
        for op, side, meters in self.fed:
            mine = pc.and_(
                pc.equal(leaf, meters.leaf),
                pc.and_(pc.greater_equal(meter, meters.first), pc.less_equal(meter, meters.last)),
            )
            part = rows.filter(mine)
            if part.num_rows:
                sides = pa.array(np.full(part.num_rows, side, np.int64))
                columns = [sides, part.column("ts"), part.column("meter"), part.column("value")]
                yield from cells(ROW, op, self.lanes[op], pa.table(columns, schema=STATE)).to_batches()
        top = pc.max(rows.column("ts")).as_py()
        yield from one(SAMPLE, READINGS, 0, (0, top, 0, 0)).to_batches()


@dataclass(frozen=True)
class Level:
    """The function for ``mapInArrow`` after ``repartitionById``: it runs the operators of one level's units.

    All other cells pass through unchanged.

    Parameters
    ----------
    specs
        All operators, by number.
    downs
        The operator that each one feeds, and the number of the input there.
    lanes
        The lane of the unit on which each operator runs in this batch.
    level
        The lanes of this level.
    closed, watermark
        As for :func:`evenflow.operators.execute.execute`.
    """

    specs: tuple[Spec, ...]
    downs: Mapping[int, tuple[int, int]]
    lanes: Mapping[int, int]
    level: frozenset[int]
    closed: int
    watermark: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Run the operators of one lane."""
        tables = [pa.Table.from_batches([batch]) for batch in batches if batch.num_rows]
        if not tables:
            return
        everything = pa.concat_tables(tables).cast(FIELDS)
        kind, op = everything.column("kind").to_numpy(), everything.column("op").to_numpy()
        here = np.array([self.lanes.get(int(o), -1) in self.level for o in op]) & (kind <= HELD)
        yield from everything.filter(pa.array(~here)).to_batches()
        if here.any():
            yield from self._run(everything.filter(pa.array(here)))

    def _run(self, mine: Any) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        kind, op = mine.column("kind").to_numpy(), mine.column("op").to_numpy()
        rows: dict[int, list[Any]] = {}
        states: dict[int, Any] = {}
        for number in np.unique(op):
            part = mine.filter(pa.array((op == number) & (kind == ROW)))
            if part.num_rows:
                rows[int(number)] = [part.select(STATE.names)]
            held = mine.filter(pa.array((op == number) & (kind == HELD)))
            if held.num_rows:
                states[int(number)] = unpacked(held.column("blob")[0].as_py())
        for spec in self.specs:  # inputs come before the operators that they feed
            if spec.id not in rows and spec.id not in states:
                continue
            begun = time.process_time_ns()
            came = pa.concat_tables(rows.pop(spec.id, [STATE.empty_table()]))
            done = execute(spec, came, states.get(spec.id), self.closed, self.watermark)
            blob = packed(done.state) if done.state is not None and done.state.num_rows else None
            yield from self._passed_on(spec.id, done.output, rows)
            if blob is not None:
                yield from one(HELD, spec.id, partition, (0, 0, 0, 0), blob).to_batches()
            spent = (time.process_time_ns() - begun) // 1000
            size = 0 if blob is None else len(blob)
            yield from one(SAMPLE, spec.id, partition, (came.num_rows, size, done.late, spent)).to_batches()

    def _passed_on(self, op: int, output: Any, rows: dict[int, list[Any]]) -> Iterator[Any]:
        if not output.num_rows:
            return
        down = self.downs.get(op)
        side = 0 if down is None else down[1]
        sided = pa.table([pa.array(np.full(output.num_rows, side, np.int64)), *output.columns], schema=STATE)
        if down is None:
            yield from cells(RESULT, op, 0, sided).to_batches()
        elif self.lanes[down[0]] == self.lanes[op]:
            rows.setdefault(down[0], []).append(sided)
        else:
            yield from cells(ROW, down[0], self.lanes[down[0]], sided).to_batches()
