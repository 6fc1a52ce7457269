"""The run behind ``ami-live``: queries of Figures 3 and 5 on Spark with surges, transfers and a check of results."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.errors import BadInput
from evenflow.experiments.operators.plain_sql import plain
from evenflow.experiments.operators.readings import SCHEMA, Grid
from evenflow.invariants import compare
from evenflow.operators.query import Queries
from evenflow.operators.settings import UnitSettings
from evenflow.operators.tree import Tree, balanced
from evenflow.spark.operators.plane import Pipeline
from evenflow.spark.session import QUICK_START, local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = 3600
# The plain query is one large plan; with the small code cache of a quick start the JVM would print warnings.
ROOMY = {
    "spark.driver.extraJavaOptions": QUICK_START["spark.driver.extraJavaOptions"] + " -XX:ReservedCodeCacheSize=160m"
}


def figure_queries(tree: Tree, meters: int, streets: int) -> Queries:
    """Return the queries of Figures 3 and 5, for every street, neighbourhood and district of a tree."""
    queries = Queries()
    width = -(-meters // streets)
    hoods: dict[str, Any] = {}
    for number, leaf in enumerate(sorted(tree.leaves[tree.root])):
        for street in range(streets):
            part = queries.meters(leaf, street * width, (street + 1) * width - 1)
            part.aggregate("mean", HOUR, f"{leaf} users {street}").filter(">", 900)  # Figure 3, end users
            part.aggregate("sum", 6 * HOUR, f"{leaf} heavy {street}").filter(">", 16_000)  # Figure 5
        everyone = queries.meters(leaf)
        hoods[leaf] = everyone.map(key=number).aggregate("mean", HOUR, f"{leaf} mean")  # Figure 3, neighbourhood
        everyone.sort(HOUR, 5, f"{leaf} highest")
        high, mean = everyone.aggregate("max", HOUR), everyone.aggregate("mean", HOUR)
        high.join(mean, HOUR, f"{leaf} peaks").filter(">", 300)
    flows = hoods
    for depth, units in enumerate(reversed(tree.levels()[:-1])):
        above: dict[str, Any] = {}
        for number, unit in enumerate(units):
            first, *others = [flows[child] for child in tree.children[unit]]
            both = first.union(*others).map(key=1000 * (depth + 1) + number)
            above[unit] = both.aggregate("mean", HOUR, f"{unit} mean")  # Figure 3, district and city
        flows = above
    return queries


def live(
    seconds: float,
    seed: int,
    *,
    mode: str = "even",
    levels: int = 3,
    meters: int = 24,
    streets: int = 2,
    capacity: int = 130_000,
    batches: int = 16,
    readings: str | None = None,
    lateness_s: int = 0,
    trace: Callable[[Mapping[str, Any]], object] | None = None,
    spark: SparkSession | None = None,
) -> dict[str, Any]:
    """Run the pipeline for ``seconds`` or ``batches``, whichever ends first, and compare its results with plain Spark.

    With ``readings``, a directory of Parquet or CSV files, nothing is generated: each file is one batch.
    """
    tree = balanced(levels)
    leaves = tuple(sorted(tree.leaves[tree.root]))
    surges = ((leaves[0], 3 * HOUR, 7 * HOUR), (leaves[-1], 9 * HOUR, 13 * HOUR))
    grid = Grid(leaves, meters, surges=surges, seed=seed)
    queries = figure_queries(tree, meters, streets)
    session = spark or local_session(lanes=2, name="evenflow ami-live", settings=ROOMY)
    with tempfile.TemporaryDirectory(prefix="evenflow-ami-", ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        source = place / "in" if readings is None else Path(readings)
        kind = kind_of(source) if readings is not None else "parquet"
        options = UnitSettings(crowd=100.0)  # here a few operators are large, so their number says little
        where = queries.lowest(tree)
        pipeline = Pipeline(
            session, queries, tree, where, place, capacity, mode, options, lateness_s=lateness_s, trace=trace
        )
        try:
            begun = time.monotonic()
            generated = grid if readings is None else None
            _flow(session, pipeline, generated, (source, kind), begun + seconds, batches)
            flowed = time.monotonic() - begun
            pipeline.finish(session.createDataFrame([], SCHEMA))
            files = sorted(source.glob(f"*.{kind}"), key=lambda f: (f.stat().st_mtime, f.name))
            seen = [str(file) for file in files[: len(pipeline.memory) - 1]]
            rows = session.read.format(kind).schema(SCHEMA).option("header", "true").load(seen).dropna().cache()
            wanted = [(r["op"], r["ts"], r["key"], r["value"]) for r in plain(queries, rows).collect()]
            return {**findings(pipeline, wanted), "batches": len(seen), "flow_s": flowed, "curves": curves(pipeline)}
        finally:
            if spark is None:
                session.stop()


def kind_of(folder: Path) -> str:
    """Return the type of files in a directory of readings, ``parquet`` or ``csv``; refuse both and neither."""
    found = {file.suffix[1:] for file in folder.iterdir()} & {"parquet", "csv"} if folder.is_dir() else set()
    if len(found) != 1:
        raise BadInput(f"'{folder}'", "a directory with Parquet files or with CSV files", "--set readings")
    return found.pop()


def _flow(
    session: SparkSession, pipeline: Pipeline, grid: Grid | None, source: tuple[Path, str], until: float, batches: int
) -> None:
    """Run the stream, and write generated readings meanwhile; one file is one batch, generated ones hold one hour."""
    folder, kind = source
    if grid is not None:
        grid.write(folder, 0, 0, HOUR)
    reader = session.readStream.format(kind).schema(SCHEMA).option("header", "true")
    stream = reader.option("maxFilesPerTrigger", 1).load(str(folder))
    place = str(pipeline.place / "check")
    query = stream.writeStream.foreachBatch(pipeline).option("checkpointLocation", place).start()
    written = 1
    try:
        while time.monotonic() < until and len(pipeline.memory) < batches and query.exception() is None:
            if grid is None:
                if not query.status["isDataAvailable"] and not query.status["isTriggerActive"] and pipeline.memory:
                    break
            elif written <= len(pipeline.memory) + 1 and written < batches:
                # Stay one or two files ahead, so that readings never stop.
                grid.write(folder, written, written * HOUR, (written + 1) * HOUR)
                written += 1
            time.sleep(0.02)
        if grid is not None:
            query.processAllAvailable()
        error = query.exception()
    finally:
        query.stop()
    if error is not None:
        raise error


def findings(pipeline: Pipeline, wanted: list[tuple[int, int, int, int]]) -> dict[str, Any]:
    """Return the counts that the experiment reports."""
    got = pipeline.results()
    compared = compare(wanted, got).judged("ami-live")
    upper = pipeline.settings.upper
    last = max(pipeline.memory)
    flowing = [batch for batch in sorted(pipeline.memory) if batch < last]
    over = {u: [b for b in flowing if pipeline.memory[b][u] > upper] for u in pipeline.tree.units}
    back = {u: [b for b in flowing if bs and b > bs[0] and pipeline.memory[b][u] <= upper] for u, bs in over.items()}
    given = {(m.giver, m.batch) for m in pipeline.moved}
    stateful = {spec.id for spec in pipeline.queries.specs if spec.stateful}
    return {
        "readings": pipeline.counted.read,
        "late": pipeline.counted.late,
        "unknown": pipeline.counted.unknown,
        "broken": pipeline.counted.broken,
        "operators": len(pipeline.queries.specs),
        "transfers": len(pipeline.moved),
        "stateful_transfers": sum(m.op in stateful for m in pipeline.moved),
        "open_window_transfers": sum(m.op in stateful and m.state_bytes > 0 for m in pipeline.moved),
        "moved_bytes": sum(m.state_bytes for m in pipeline.moved),
        "messages": pipeline.mailbox.messages,
        "lane_changes": sum(_changed(pipeline, m.op, m.batch, m.giver, m.taker) for m in pipeline.moved),
        "wrong_lanes": _wrong_lanes(pipeline),
        "overloaded_units": sum(bool(bs) for bs in over.values()),
        "relieved_units": sum(
            bool(bs) and bool(back[u]) and any(g == u and b >= bs[0] for g, b in given) for u, bs in over.items()
        ),
        "max_memory": max(max(m.values()) for m in pipeline.memory.values()),
        "rows": len(got),
        "plain_rows": len(wanted),
        "equal": compared.equal,
        "differing_rows": compared.differing,
    }


def curves(pipeline: Pipeline) -> dict[str, Any]:
    """Return the data of the report: every unit's memory by batch, and every transfer."""
    batches = sorted(pipeline.memory)
    names = {spec.id: spec.name for spec in pipeline.queries.specs}
    return {
        "batch": batches,
        "upper": pipeline.settings.upper,
        "memory": {u: [round(pipeline.memory[b][u], 2) for b in batches] for u in pipeline.tree.units},
        "moved": [
            {
                "batch": m.batch,
                "operator": names[m.op],
                "giver": m.giver,
                "taker": m.taker,
                "state_bytes": m.state_bytes,
            }
            for m in pipeline.moved
        ],
    }


def _changed(pipeline: Pipeline, op: int, batch: int, giver: str, taker: str) -> bool:
    """Return whether an operator ran on the giver's lane before its transfer, and on the taker's lane after it."""
    before = [b for b, ran in pipeline.partitions.items() if b <= batch and op in ran]
    after = [b for b, ran in pipeline.partitions.items() if b > batch and op in ran]
    if not before or not after:
        return False
    was, became = pipeline.partitions[max(before)][op], pipeline.partitions[min(after)][op]
    return (was, became) == (pipeline.lane[giver], pipeline.lane[taker])


def _wrong_lanes(pipeline: Pipeline) -> int:
    """Return how many times an operator ran on another lane than the routes of its batch say."""
    wrong = 0
    for batch, ran in pipeline.partitions.items():
        lanes = pipeline.lanes_of(batch)
        wrong += sum(lanes[op] != lane for op, lane in ran.items())
    return wrong
