"""A program as its user writes it: a plain session, with nothing of what ``local_session`` sets.

Started as ``python plain_child.py DIRECTORY``. It runs without ``PYSPARK_PYTHON`` first, and then with it.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import evenflow
from evenflow.errors import BadInput

TIMES = (
    "n long, at timestamp, day date, local timestamp_ntz, many array<timestamp>, "
    "deep struct<at: timestamp, by: map<string, timestamp>>"
)
AT = pa.timestamp("us", "UTC")
COLUMNS = {
    "n": pa.int64(),
    "at": AT,
    "day": pa.date32(),
    "local": pa.timestamp("us"),
    "many": pa.list_(AT),
    "deep": pa.struct({"at": AT, "by": pa.map_(pa.string(), AT)}),
}


def row(n):
    at = dt.datetime(2024, 3, 31, 1, 30, n, tzinfo=dt.UTC)  # clocks have just changed in Berlin
    local = dt.datetime(2024, 3, 31, 2, 30, n)  # noqa: DTZ001 - a time that Berlin's clocks did not show
    return {
        "n": n,
        "at": at,
        "day": at.date(),
        "local": local,
        "many": [at, None],
        "deep": {"at": at, "by": [("a", at)]},
    }


def so_far(rows, state):
    """Put times out as they came, from the state too."""
    seen = rows if state is None else pa.concat_tables([state, rows])
    return seen, seen


def main(place: Path) -> None:
    for n in range(2):
        pq.write_table(pa.Table.from_pylist([row(n)], pa.schema(COLUMNS)), place / f"{n}.parquet")
    found = {}
    for run in ("without", "with"):
        if run == "with":
            os.environ["PYSPARK_PYTHON"] = sys.executable
        spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        stream = spark.readStream.schema(TIMES).option("maxFilesPerTrigger", 1).parquet(str(place))
        writer = evenflow.balance(stream, by="day", assign="0", slices=1, lanes=1).process(so_far, TIMES).writeStream
        writer = writer.format("parquet").option("checkpointLocation", str(place / "check")).trigger(availableNow=True)
        try:
            query = writer.start(str(place / "out"))
            query.awaitTermination(300)
            found["error"] = str(query.exception())
        except BadInput as refusal:
            found["refusal"] = str(refusal)
        found["zone"] = spark.conf.get("spark.sql.session.timeZone")
        spark.stop()
    schema = pa.schema(COLUMNS)
    files = sorted((place / "out").glob("*.parquet"))
    rows = pa.concat_tables([pq.read_table(file).select(schema.names).cast(schema) for file in files]).sort_by("n")
    found["exact"] = rows.equals(pa.Table.from_pylist([row(n) for n in (0, 0, 1)], schema))
    (place / "found.json").write_text(json.dumps({**found, "rows": str(rows.to_pylist())}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
