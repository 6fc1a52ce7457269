"""How many DDS samples one second of CPU turns into Spark rows, next to a bare reader of cyclonedds."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from evenflow.bench.dds_processes import TYPE
from evenflow.bench.measure_cpu import cpu_seconds
from evenflow.spark.dds.source import OFFSET, register
from evenflow.spark.session import local_session
from evenflow.spark.slices.writer import begun

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

TURNS: Final = 5
BARE, OURS = "cyclonedds reader", "evenflow source into Spark rows"
PROCESSES: Final = "evenflow.bench.dds_processes"
PATIENCE_S: Final = 900.0


def bench_dds(
    samples: int = 100_000, turns: int = TURNS, domain: int | None = None, say: Callable[[str], object] = print
) -> dict[str, Any]:
    """Measure both in turn, after one round that warms up.

    The CPU of Spark is that of the driver, the JVM, the source's process and the workers; of the bare reader that of its
    process. Writers are processes of their own and count for neither.
    """
    began = time.perf_counter()
    domain = 60 + os.getpid() % 100 if domain is None else domain
    spark = local_session(lanes=2, name="evenflow bench dds")
    register(spark)
    speeds: dict[str, list[float]] = {BARE: [], OURS: []}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        stream = spark.readStream.format("dds").option("topic", "bench_spark").option("type", TYPE)
        stream = stream.option("domain", str(domain)).option("journal", f"{folder}/journal")
        writer = stream.load().writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint")
        query = begun(writer.trigger(processingTime="1 second").start, 10)
        try:
            for turn in range(turns + 1):
                bare = samples / _bare(domain, samples)
                ours = samples / _spark(query, domain, samples)
                say(f"turn {turn}: {bare:,.0f} and {ours:,.0f} samples per CPU-second")
                if turn:
                    speeds[BARE].append(bare)
                    speeds[OURS].append(ours)
        finally:
            query.stop()
    spark.stop()
    ratios = [o / b for b, o in zip(speeds[BARE], speeds[OURS], strict=True)]
    rows = [
        {
            "case": f"{samples} samples of a number, a real and a text",
            "variant": variant,
            "samples_per_cpu_s": statistics.median(found),
            "baseline": BARE,
            "ratio": 1.0 if variant == BARE else statistics.median(ratios),
        }
        for variant, found in speeds.items()
    ]
    return {"bench": "dds", "rows": rows, "seconds": round(time.perf_counter() - began, 1)}


def _started(what: str, domain: int, topic: str, samples: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", PROCESSES, what, str(domain), topic, str(samples)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def _bare(domain: int, samples: int) -> float:
    reader = _started("read", domain, "bench_bare", samples)
    assert reader.stdout is not None
    reader.stdout.readline()  # it is there
    writer = _started("write", domain, "bench_bare", samples)
    try:
        return float(reader.communicate(timeout=PATIENCE_S)[0])
    finally:
        for process in (reader, writer):
            process.kill()
            process.communicate()


def _spark(query: StreamingQuery, domain: int, samples: int) -> float:
    want = _rows(query) + samples
    writer = _started("write", domain, "bench_spark", samples)
    try:
        before = cpu_seconds() - _cpu_of(writer)
        end = time.monotonic() + PATIENCE_S
        while _rows(query) < want:
            error = query.exception()
            if error is not None:
                raise error
            if time.monotonic() > end:
                msg = f"{_rows(query)} of {want} rows after {PATIENCE_S:g} s"
                raise TimeoutError(msg)
            time.sleep(0.1)
        return cpu_seconds() - _cpu_of(writer) - before
    finally:
        writer.kill()
        writer.communicate()


def _cpu_of(process: subprocess.Popen[str]) -> float:
    import psutil  # noqa: PLC0415

    try:
        times = psutil.Process(process.pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _rows(query: StreamingQuery) -> int:
    progress = query.lastProgress
    if progress is None:
        return 0
    end = progress["sources"][0]["endOffset"]
    found = json.loads(end or "{}") if isinstance(end, str) else end
    return int((found or {}).get(OFFSET, 0))
