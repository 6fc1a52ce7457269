from __future__ import annotations

import subprocess
import sys

# A worker that is not our interpreter would miss our packages, so the function says which one it runs on.
CONNECT = """
import sys
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute

from evenflow.spark.session import QUICK_START, local_session


def double(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        values = pa.compute.multiply(batch.column("id"), 2)
        python = pa.array([sys.executable] * batch.num_rows)
        yield pa.RecordBatch.from_arrays([values, python], ["twice", "python"])


spark = local_session(lanes=2, connect=True, settings=QUICK_START)
assert type(spark).__module__ == "pyspark.sql.connect.session", type(spark)
assert spark.conf.get("spark.ui.enabled") == "false"
assert spark.conf.get("spark.driver.memory") == "1g"
rows = spark.range(5).mapInArrow(double, "twice long, python string").collect()
assert sorted(row.twice for row in rows) == [0, 2, 4, 6, 8], rows
assert {row.python for row in rows} == {sys.executable}, rows
spark.stop()
print("done")
"""


def test_classic_session_runs_our_functions(spark):
    import pyarrow as pa
    import pyarrow.compute as pc

    def double(batches):
        for batch in batches:
            values = pc.multiply(batch.column("id"), 2)
            python = pa.array([sys.executable] * batch.num_rows)
            yield pa.RecordBatch.from_arrays([values, python], ["twice", "python"])

    rows = spark.range(5).mapInArrow(double, "twice long, python string").collect()
    assert sorted(row.twice for row in rows) == [0, 2, 4, 6, 8]
    assert {row.python for row in rows} == {sys.executable}
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_connect_session_runs_our_functions():
    # Its own process: one process holds classic or Connect sessions, not both.
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", CONNECT], capture_output=True, text=True, timeout=300, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
