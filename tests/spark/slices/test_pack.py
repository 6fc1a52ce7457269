"""What travels to lanes and slices, without Spark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from evenflow.slices.by_field import NO_SLICE
from evenflow.spark.kit.plane import Plane
from evenflow.spark.kit.storage import checked_url
from evenflow.spark.slices import pack
from evenflow.spark.slices.assign import Assign
from evenflow.spark.slices.correlation import Together
from evenflow.spark.slices.pack import Pack


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """Pack a table that comes in parts; return what each key gets."""
    monkeypatch.setattr(pack, "batch_id", lambda: 0)

    def go(table, lanes, parts=1):
        plane = Plane(checked_url(str(tmp_path / str(lanes))), 6, lanes, lanes, ("device",), "hash", "drop")
        found = {}
        for part in range(parts):
            rows = table.slice(part * table.num_rows // parts, table.num_rows // parts)
            packing = Pack(plane, Assign(plane.by, plane.slices, nulls="drop"), correlate=True)
            for batch in packing(iter(rows.to_batches())):
                for row in batch.to_pylist():
                    found.setdefault(row["k"], []).append(row["cell"])
        return plane, found

    return go


TABLE = pa.table({"device": [None, *range(29)], "id": range(30)})


def test_every_lane_gets_every_row_once_and_every_slice_a_mark(packed):
    for lanes in (1, 2, 4):
        plane, found = packed(TABLE, lanes, parts=3)
        copies = {plane.keys.lane_of(key): cells for key, cells in found.items() if key < 0}
        assert set(copies) == set(range(lanes))
        size = len(Together(copies[0]).cell())
        assert all(len(Together(cells).cell()) == size for cells in copies.values())
        marks = {plane.keys.slice_of(key): cells for key, cells in found.items() if key >= 0}
        assert set(marks) == set(range(6))
        assert {cell for cells in marks.values() for cell in cells} == {b""}


def test_others_are_all_rows_but_ones_own_in_one_order(packed):
    ids = Assign(("device",), 6, nulls="drop").of(TABLE)
    in_order = [n for s in range(6) for n in np.flatnonzero(ids == s).tolist()]
    assert int((ids == NO_SLICE).sum()) == 1
    for lanes, parts in ((1, 1), (2, 3), (4, 5)):
        _, found = packed(TABLE, lanes, parts)
        for cells in (cells for key, cells in found.items() if key < 0):
            for s in range(6):
                rows, others = Together(cells).apart(s)
                assert rows["id"].to_pylist() == [n for n in in_order if ids[n] == s]
                assert others["id"].to_pylist() == [n for n in in_order if ids[n] != s]
                assert others.schema.equals(TABLE.schema)
