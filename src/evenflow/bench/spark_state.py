"""State per key on Spark, side by side: evenflow, Spark's own ways to keep state in Python, and the JVM's aggregate.

The variants of a case take turns, so that whatever else the machine does meets all of them alike.
CPU is that of the JVM and all Python workers together.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from evenflow.bench.spark_state_variants import EVENFLOW, SCHEMA, TWS_ROW, VARIANTS, writer_of
from evenflow.bench.spark_turns import Line, bench_session, paired

KEYS: Final = (1_000, 10_000, 50_000)
ROWS: Final = 100_000
FEW_ROWS, FEW_KEYS = 1_000, 10  # of the case that shows what a batch costs before it has rows
LANES: Final = 2
SLICES: Final = 32
Say = Callable[[str], None]


def bench_spark_state(
    keys: Sequence[int] = KEYS,
    variants: Sequence[str] = tuple(VARIANTS),
    *,
    rows: int = ROWS,
    turns: int = 5,
    batches: int = 2,
    overhead: bool = True,
    limit_s: float = 120.0,
    spark: SparkSession | None = None,
    say: Say = lambda _: None,
) -> dict[str, Any]:
    """Run the cases and give the rows.

    Parameters
    ----------
    keys
        Distinct keys per batch, a case each.
    variants
        Which to measure.
    rows
        Of a batch.
    turns, batches
        How often it is each variant's turn, 5 or more for a result to quote, and how many batches are measured then.
    overhead
        Whether to measure batches of few rows as well.
    limit_s
        CPU seconds after which a batch is given up; its rate is then an upper bound, and it gets no further turn.
    spark
        A session to use, warm already; by default one of two cores is started.
    say
        Told what is under way.
    """
    began = time.perf_counter()
    found: list[dict[str, Any]] = []
    with bench_session(LANES, spark) as (session, place):
        if spark is None:
            say("warming up")
            for line in _lines(session, place / "warm", variants, FEW_ROWS, FEW_KEYS, limit_s):
                line.turn(1)
        if overhead:
            say(f"{FEW_ROWS:,} rows, {FEW_KEYS} keys per batch")
            pair = [name for name in (EVENFLOW, TWS_ROW) if name in variants]
            lines = _lines(session, place / "few", pair, FEW_ROWS, FEW_KEYS, limit_s)
            found += _overhead(_measured(lines, turns, 2 * batches, say))
        for count in keys:
            say(f"{rows:,} rows, {count:,} keys per batch")
            lines = _lines(session, place / str(count), variants, rows, count, limit_s)
            found += _state(_measured(lines, turns, batches, say), count)
    return {"bench": "spark-state", "rows": found, "seconds": round(time.perf_counter() - began, 1)}


def write_rows(place: Path, rows: int, keys: int, files: int = 3) -> list[Path]:
    """Write batches in which every key comes equally often, in random order."""
    place.mkdir(parents=True, exist_ok=True)
    found = []
    for number in range(files):
        chance = np.random.default_rng([keys, number])
        table = pa.table({"key": chance.permutation(np.arange(rows) % keys), "value": chance.normal(size=rows)})
        found.append(place / f"{number}.parquet")
        pq.write_table(table, found[-1])
        os.utime(found[-1], (1e9 + number, 1e9 + number))  # Spark reads files in the order of their times
    return found


def _lines(
    spark: SparkSession, place: Path, variants: Sequence[str], rows: int, keys: int, limit_s: float
) -> list[Line]:
    files = write_rows(place / "files", rows, keys)
    return [
        Line(
            variant=name,
            spark=spark,
            place=place / name.replace(" ", "-"),
            schema=SCHEMA,
            start=lambda stream, name=name: writer_of(name, stream, LANES, SLICES),  # type: ignore[misc]
            files=files,
            rows=rows,
            limit_s=limit_s,
        )
        for name in variants
    ]


def _measured(lines: list[Line], turns: int, batches: int, say: Say) -> list[Line]:
    for number in range(turns):
        for line in lines:
            line.turn(batches)
            if line.batches:
                say(f"  turn {number + 1}: {line.variant}, {line.rates()[-1]:,.0f} rows per CPU-second")
    return lines


def _row(line: Line, case: str, keys: int) -> dict[str, Any]:
    control, used = sum(b.control_s for b in line.all()), sum(b.cpu_s for b in line.all())
    return {
        "case": case,
        "keys": keys,
        "variant": line.variant,
        "rows_per_batch": line.rows,
        "rows_per_cpu_s": round(median(line.rates()), 1),
        "batch_s": round(median(line.each(lambda b: b.batch_s)), 3),
        "cpu_s": round(median(line.each(lambda b: b.cpu_s)), 3),
        "control_cpu_share": round(control / used, 4) if line.variant == EVENFLOW else None,
        "state_bytes": line.state_bytes(),
        "turns": len(line.batches),
        "batches": len(line.all()),
        "finished": all(b.finished for b in line.all()),
    }


def _state(lines: list[Line], keys: int) -> list[dict[str, Any]]:
    by_name = {line.variant: line for line in lines}
    baseline, ours = by_name.get(TWS_ROW, lines[0]), by_name.get(EVENFLOW)
    return [
        _row(line, "state", keys)
        | {
            "measure": "rows_per_cpu_s",
            "baseline": baseline.variant,
            "ratio": paired(line.rates(), baseline.rates()),
            "evenflow_over_this": None if ours is None else paired(ours.rates(), line.rates()),
        }
        for line in lines
    ]


def _overhead(lines: list[Line]) -> list[dict[str, Any]]:
    baseline = next((line for line in lines if line.variant == TWS_ROW), lines[0])
    return [
        _row(line, "overhead", FEW_KEYS)
        | {
            "measure": "batch_s",
            "baseline": baseline.variant,
            "ratio": paired(line.each(lambda b: b.batch_s), baseline.each(lambda b: b.batch_s)),
            "cpu_ratio": paired(line.each(lambda b: b.cpu_s), baseline.each(lambda b: b.cpu_s)),
        }
        for line in lines
    ]
