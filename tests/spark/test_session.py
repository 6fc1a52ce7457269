from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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


def test_a_plain_session_in_another_zone_and_one_without_our_python(tmp_path):
    """What our own session sets must not hide what a user's does not: the zone, and the workers' Python."""
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text(f'#!/bin/sh\nexec {sys._base_executable} -S "$@"\n')  # has none of our packages
    other.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    env |= {
        "PATH": f"{other.parent}:{os.environ['PATH']}",
        "TZ": "Europe/Berlin",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    child = [sys.executable, str(Path(__file__).with_name("plain_child.py")), str(tmp_path)]
    ended = subprocess.run(child, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["zone"] == "Europe/Berlin"
    assert "No module named" in found["refusal"]
    assert f"PYSPARK_PYTHON={sys.executable} in the environment" in found["refusal"]
    assert found["error"] == "None"
    assert found["exact"], found["rows"]
