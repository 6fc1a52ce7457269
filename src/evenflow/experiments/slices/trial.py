"""A trial of exactness: numbered items, one file per batch, and a state that sees any loss, repetition or disorder."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.spark.kit.pins import write_numbered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "id long, device long, value double"
OUTPUT = "id long, device long, n long, total double, trail long"


def put(folder: Path, number: int, rows: int = 100, devices: int = 40) -> None:
    """Write one file of items; ids go on from file to file."""
    chance = random.Random(number)
    first = number * rows
    table = pa.table(
        {
            "id": pa.array(range(first, first + rows), pa.int64()),
            "device": pa.array([chance.randrange(devices) for _ in range(rows)], pa.int64()),
            "value": pa.array([float(chance.randrange(1000)) for _ in range(rows)], pa.float64()),
        }
    )
    write_numbered(folder, number, table)


def stream_of(spark: SparkSession, folder: Path) -> DataFrame:
    """Read one file per batch."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def follow(rows: Any, state: Any) -> tuple[Any, Any]:
    """Put out one row per item: how many of its device came, their total, and a trail that depends on their order."""
    state = dict(state or {})
    found = []
    for item in rows.to_pylist():
        n, total, trail = state.get(item["device"], (0, 0.0, 0))
        known = (n + 1, total + item["value"], (trail * 31 + item["id"]) % 1_000_003)
        state[item["device"]] = known
        found.append({"id": item["id"], "device": item["device"], "n": known[0], "total": known[1], "trail": known[2]})
    return pa.Table.from_pylist(found), state


def expected(folder: Path, order: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return what an undisturbed run over the files puts out, in order of id; ``order`` has the names as they were read."""
    names = order or sorted(file.name for file in folder.glob("*.parquet"))
    rows = pa.concat_tables([pq.read_table(folder / name) for name in names])
    found: list[dict[str, Any]] = follow(rows, None)[0].to_pylist()
    return sorted(found, key=lambda row: int(row["id"]))


def read_order(checkpoint: Path) -> list[str]:
    """Return the names of the files as Spark has read them.

    A driver that dies when its file source has chosen a file, and before the batch has its offset, leaves a batch of
    two files behind; and of the files of one batch Spark reads the largest first, whatever their times.
    """
    chosen: dict[int, list[tuple[int, str]]] = {}
    for log in (checkpoint / "sources" / "0").iterdir():
        if not log.name.startswith("."):
            for line in log.read_text().splitlines()[1:]:
                entry = json.loads(line)
                path = Path(unquote(urlsplit(entry["path"]).path))
                found = chosen.setdefault(entry["batchId"], [])
                if (-path.stat().st_size, path.name) not in found:  # a compact log repeats the ones before it
                    found.append((-path.stat().st_size, path.name))
    names, before = [], -1
    for batch in sorted(int(f.name) for f in (checkpoint / "offsets").iterdir() if f.name.isdigit()):
        last = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[2])["logOffset"]
        names += [name for _, name in sorted(file for n in range(before + 1, last + 1) for file in chosen.get(n, []))]
        before = last
    return names


def written(spark: SparkSession, out: Path) -> list[dict[str, Any]]:
    """Return what the sink holds, in order of id."""
    rows = spark.read.parquet(str(out)).toArrow().select(["id", "device", "n", "total", "trail"])
    found: list[dict[str, Any]] = rows.sort_by([("id", "ascending"), ("n", "ascending")]).to_pylist()
    return found
