"""A batch's rows of all slices, for an application that also sees the rows of other slices.

What a slice sees must not depend on which lanes the slices are on, so every lane gets every row once.
Rows are sorted by slice, and within a slice they are in the order of the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.slices.by_field import NO_SLICE, SliceIds
from evenflow.spark.slices.assign import SLICE
from evenflow.spark.slices.cells import of_cells, to_cell


def marked(rows: Any, ids: SliceIds) -> bytes:
    """Return rows as one cell with a column for the slice; rows without a slice are left out."""
    return to_cell(rows.append_column(SLICE, pa.array(ids, pa.int32())).filter(pa.array(ids != NO_SLICE)))


class Together:
    """The rows of one batch on one lane, sorted by slice at the first access.

    Parameters
    ----------
    cells
        Cells from :func:`marked`, in the order of the source.

    Examples
    --------
    >>> batch = Together([marked(pa.table({"a": [1, 2, 3]}), np.array([7, 0, 4]))])
    >>> [rows["a"].to_pylist() for rows in batch.apart(4)]
    [[3], [2, 1]]
    """

    def __init__(self, cells: Sequence[bytes]) -> None:
        self._cells = cells

    @cached_property
    def _ordered(self) -> tuple[Any, SliceIds]:
        rows = of_cells(self._cells).combine_chunks()
        ids = rows.column(SLICE).to_numpy()
        order = np.argsort(ids, kind="stable")
        return rows.drop_columns([SLICE]).take(pa.array(order)), ids[order]

    def apart(self, slice_id: int) -> tuple[Any, Any]:
        """Return a slice's rows, and the rows of all other slices."""
        rows, ids = self._ordered
        start, end = np.searchsorted(ids, [slice_id, slice_id + 1]).tolist()
        return rows.slice(start, end - start), pa.concat_tables([rows.slice(0, start), rows.slice(end)])

    def cell(self) -> bytes:
        """Return all rows as one cell, to store until a slice can be processed."""
        rows, ids = self._ordered
        return marked(rows, ids)
