from __future__ import annotations

import os
import sys

import pyarrow as pa
import pyarrow.compute as pc


def test_a_session_runs_our_functions(spark):
    def double(batches):
        for batch in batches:
            values = pc.multiply(batch.column("id"), 2)
            python = pa.array([sys.executable] * batch.num_rows)  # a worker that is not ours would miss our packages
            yield pa.RecordBatch.from_arrays([values, python], ["twice", "python"])

    rows = spark.range(5).mapInArrow(double, "twice long, python string").collect()
    assert sorted(row.twice for row in rows) == [0, 2, 4, 6, 8]
    assert {row.python for row in rows} == {sys.executable}
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.driver.memory") == "1g"
    connect = os.environ.get("EVENFLOW_TEST_CONNECT") == "1"
    assert type(spark).__module__.startswith("pyspark.sql.connect") == connect
