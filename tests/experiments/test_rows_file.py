from __future__ import annotations

import pyarrow.parquet as pq

from evenflow.experiments.rows_file import write_rows


def test_every_plain_row_can_be_written(tmp_path):
    rows = [
        {"seed": 1, "gap": None, "loads": [1, 2], "mixed": 1, "empty": None},
        {"seed": 2, "gap": 0.5, "loads": None, "mixed": "many", "empty": None, "late": True},
    ]
    write_rows(tmp_path / "rows.parquet", rows)
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == [
        {"seed": 1, "gap": None, "loads": "[1, 2]", "mixed": "1", "empty": None, "late": None},
        {"seed": 2, "gap": 0.5, "loads": None, "mixed": '"many"', "empty": None, "late": True},
    ]
