"""A program as its user writes it: a plain session, with nothing of what ``local_session`` sets.

Started as ``python plain_child.py DIRECTORY``, twice in one process: without ``PYSPARK_PYTHON``, and then with it.
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

OUTPUT = (
    "n long, at timestamp, day date, local timestamp_ntz, many array<timestamp>, "
    "deep struct<at: timestamp, by: map<string, timestamp>>"
)
AT = dt.datetime(2024, 3, 31, 1, 30, tzinfo=dt.UTC)  # clocks change in Berlin
LOCAL = dt.datetime(2024, 3, 31, 2, 30)  # an hour that Berlin does not have  # noqa: DTZ001


def rows_of(n):
    at = AT + dt.timedelta(microseconds=n)
    return {"n": n, "at": at, "day": at.date(), "local": LOCAL, "many": [at, AT], "deep": {"at": at, "by": {"a": at}}}


def as_they_are(rows, state):
    """Return times as they came in, and in the state."""
    seen = rows if state is None else pa.concat_tables([state, rows])
    return seen, seen


def each(key, rows, state):
    """Return times of plain Python; the key is one."""
    state = (state or 0) + rows.num_rows
    return [{**row, "n": state, "at": key} for row in rows.to_pylist()], state


def result(spark, place, name, divided):
    query = (
        divided.writeStream.format("parquet")
        .option("checkpointLocation", str(place / f"check-{name}"))
        .trigger(availableNow=True)
        .start(str(place / name))
    )
    query.awaitTermination(240)
    if query.exception() is not None:
        raise query.exception()
    found = spark.read.parquet(str(place / name)).selectExpr(
        "n", "unix_micros(at) at", "cast(day as string) day", "cast(local as string) local",
        "transform(many, x -> unix_micros(x)) many", "unix_micros(deep.at) deep_at", "unix_micros(deep.by['a']) by_a",
    )  # fmt: skip
    return sorted((row.asDict() for row in found.collect()), key=lambda row: (row["n"], row["at"]))


def main(place: Path) -> None:
    (place / "in").mkdir()
    columns = {
        "n": pa.int64(),
        "at": pa.timestamp("us", "UTC"),
        "day": pa.date32(),
        "local": pa.timestamp("us"),
        "many": pa.list_(pa.timestamp("us", "UTC")),
        "deep": pa.struct({"at": pa.timestamp("us", "UTC"), "by": pa.map_(pa.string(), pa.timestamp("us", "UTC"))}),
    }
    pq.write_table(pa.Table.from_pylist([rows_of(n) for n in range(6)], pa.schema(columns)), place / "in" / "0.parquet")
    found = {}
    for with_python in (False, True):
        if with_python:
            os.environ["PYSPARK_PYTHON"] = sys.executable
        spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        stream = spark.readStream.schema(OUTPUT).parquet(str(place / "in"))
        whole = evenflow.balance(stream, by="n", slices=4, lanes=2).process(as_they_are, OUTPUT)
        if with_python:
            found["whole"] = result(spark, place, "whole", whole)
            found["each"] = result(
                spark, place, "each", evenflow.balance(stream, by="at", slices=4, lanes=2).process_each(each, OUTPUT)
            )
            found["zone"] = spark.conf.get("spark.sql.session.timeZone")
        else:
            try:
                result(spark, place, "lost", whole)
            except BadInput as refusal:
                found["refusal"] = str(refusal)
        spark.stop()
    (place / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
