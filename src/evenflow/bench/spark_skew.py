"""Skewed keys on Spark, side by side: evenflow, the same plane without rebalancing, and plain hash partitions.

How even lanes are is measured by the CPU of the lanes themselves (by their wall clock where they wait), which a busy
machine disturbs little. The floor of a batch is what no placement can go below: the mean, or the largest slice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from evenflow.bench.spark_skew_arms import Arm, Arms, Work
from evenflow.bench.spark_turns import bench_session
from evenflow.experiments.slices.demo_stream import points_for
from evenflow.spark.kit.controller import Balancing

KEYS: Final = 2_000
CORES: Final = 2
LANES: Final = 8
SLICES: Final = 256
EVENFLOW, STILL = "evenflow", "no rebalancing"
LEARNING: Final = 8  # batches until the first plan was carried out
KEEN: Final = Balancing(keep_up=0.0)  # arms wait for each other here, so that no lane is ever busy all the time
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Case:
    """One stream: how skewed, whether the hot keys change, and what a batch's rows cost all lanes together."""

    name: str
    zipf: float
    drift: bool
    cpu_s: float = 0.0
    wait_s: float = 0.0


CASES: Final = (
    Case("drift", 1.2, drift=True, cpu_s=4.0),
    Case("steady", 0.8, drift=False, cpu_s=4.0),
    Case("waiting", 1.2, drift=False, wait_s=24.0),
)
NAMES: Final = tuple(case.name for case in CASES)


def shares(case: Case, batch: int, batches: int) -> Any:
    """Return each key's share of a batch; with drift other keys take over from the hot ones, little by little."""
    weight = 1.0 / np.arange(1, KEYS + 1) ** case.zipf
    weight /= weight.sum()
    first, second = (np.random.default_rng([7, n]).permutation(KEYS) for n in (0, 1))
    passed = batch / max(1, batches - 1) if case.drift else 0.0
    found = np.zeros(KEYS)
    found[first] += (1 - passed) * weight
    found[second] += passed * weight
    return found


def write_files(place: Path, case: Case, batches: int, rows: int) -> tuple[list[Path], list[float]]:
    """Write the batches; return the files and the hottest key's share of each."""
    place.mkdir(parents=True)
    files, hottest = [], []
    for batch in range(batches):
        chance = np.random.default_rng([11, batch])
        keys = chance.choice(KEYS, rows, p=shares(case, batch, batches))
        files.append(place / f"{batch:05}.parquet")
        pq.write_table(pa.table({"key": keys, "value": chance.normal(20.0, 5.0, rows)}), files[-1])
        os.utime(files[-1], (1e9 + batch, 1e9 + batch))  # Spark reads files in the order of their times
        hottest.append(float(np.bincount(keys).max() / rows))
    return files, hottest


def bench_spark_skew(
    names: Sequence[str] = NAMES,
    *,
    batches: int = 30,
    rows: int = 40_000,
    scale: float = 1.0,
    spark: SparkSession | None = None,
    say: Say = lambda _: None,
) -> dict[str, Any]:
    """Run the cases and give the rows.

    Parameters
    ----------
    names
        Of the cases.
    batches, rows
        Of every arm; the first 8 batches, in which evenflow learns, are not counted.
    scale
        Of the work: 1 is what a result to quote needs.
    spark
        A session to use for all cases.
    say
        Told what is under way.
    """
    began = time.perf_counter()
    found: list[dict[str, Any]] = []
    for case in (case for case in CASES if case.name in names):
        say(f"{case.name}: Zipf {case.zipf}, {batches} batches of {rows:,} rows")
        with bench_session(LANES if case.wait_s else CORES, spark) as (session, place):
            files, hottest = write_files(place / "files", case, batches, rows)
            arms = Arms(session, place, files)
            try:
                found += (
                    _waiting(case, arms, hottest, rows, scale, say)
                    if case.wait_s
                    else _busy(case, arms, hottest, rows, scale, say)
                )
            finally:
                arms.close()
    return {"bench": "spark-skew", "rows": found, "seconds": round(time.perf_counter() - began, 1)}


def _busy(case: Case, arms: Arms, hottest: Sequence[float], rows: int, scale: float, say: Say) -> list[dict[str, Any]]:
    work = Work(points=points_for(case.cpu_s * scale, rows))
    opened = partial(arms.evenflow, lanes=LANES, slices=SLICES, measure="cpu_s")
    ours = opened(EVENFLOW, work, balancing=KEEN)
    still = opened(STILL, work, balancing=Balancing(policy=""))
    plain = [arms.plain(f"hash, {n} partitions", work, partitions=n, measure="cpu_s") for n in (CORES, 8 * CORES)]
    arms.run(hottest, say)
    return [_row(case, arm, still, "max_over_mean", rows) for arm in (ours, still, *plain)]


def _waiting(
    case: Case, arms: Arms, hottest: Sequence[float], rows: int, scale: float, say: Say
) -> list[dict[str, Any]]:
    wait_s = case.wait_s * scale
    work = Work(wait_s=wait_s / rows)
    opened = partial(arms.evenflow, lanes=LANES, slices=SLICES, measure="wall_s")
    ours = opened(EVENFLOW, work, balancing=KEEN)
    bare = opened("evenflow, no waiting", Work(), balancing=Balancing(policy=""))
    plain = arms.plain(f"hash, {LANES} partitions", work, partitions=LANES, measure="wall_s")
    arms.run(hottest, say)
    found = [_row(case, arm, plain, "batch_s", rows) for arm in (ours, plain)]
    # What a batch takes without any waiting, and the waiting of the fullest lane when lanes are as even as can be.
    least = [b.batch_s + wait_s / LANES * o.floor for o, b in zip(_counted(ours), _counted(bare), strict=True)]
    found[0] |= {
        "overhead_s": round(median(b.batch_s for b in _counted(bare)), 3),
        "floor_s": round(median(least), 3),
        "over_floor_s": round(median(o.batch_s / f for o, f in zip(_counted(ours), least, strict=True)), 3),
    }
    return found


def _counted(arm: Arm) -> list[Any]:
    return arm.seen[LEARNING:] or arm.seen[-1:]


def _row(case: Case, arm: Arm, baseline: Arm, measure: str, rows: int) -> dict[str, Any]:
    counted = _counted(arm)
    level, floor = fmean(s.max_over_mean for s in counted), fmean(s.floor for s in counted)
    pairs = zip(counted, _counted(baseline), strict=True)
    return {
        "case": case.name,
        "zipf": case.zipf,
        "keys": KEYS,
        "variant": arm.variant,
        "lanes": arm.lanes,
        "batches": len(counted),
        "max_over_mean": round(level, 4),
        "floor": round(floor, 4),
        "over_floor": round(level / floor, 4),
        "worst_over_floor": round(max(s.max_over_mean / s.floor for s in counted), 4),
        "batch_s": round(median(s.batch_s for s in counted), 3),
        "rows_per_cpu_s": round(rows * len(counted) / sum(s.cpu_s for s in counted), 1),
        "moves": arm.seen[-1].moves,
        "moves_counted": arm.seen[-1].moves - counted[0].moves,
        "rows_held_batches": arm.held_batches(),
        "measure": measure,
        "baseline": baseline.variant,
        "ratio": round(median(getattr(mine, measure) / getattr(other, measure) for mine, other in pairs), 3),
    }
