"""Assignment of rows to slices, for whole Arrow batches: by hash of columns, by remainder, or by a column that Spark computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from evenflow.errors import BadInput, nearest
from evenflow.slices.assignment import checked
from evenflow.slices.by_field import NO_SLICE, Hash, Modulo, Nulls, SliceIds, null_slice
from evenflow.slices.hashing import hash_column

HASH, MODULO = "hash", "modulo"
SLICE: Final = "_evenflow_slice"
"""The column with the slice if the user gave an expression; the process function does not see it."""


@dataclass(frozen=True, slots=True)
class Assign:
    """The rule that assigns rows to slices.

    Parameters
    ----------
    by
        Key columns.
    slices
        Number of slices.
    how
        ``hash``, ``modulo`` (one column of whole numbers), or a Spark SQL expression that gives the slice.
    nulls
        How to treat a null key: ``refuse``, ``drop`` or the number of a slice.

    Examples
    --------
    >>> rows = pa.table({"site": ["a", "a", "b"], "device": [1, 2, 1]})
    >>> Assign(("site", "device"), 8).of(rows).tolist()
    [7, 3, 4]
    """

    by: tuple[str, ...]
    slices: int
    how: str = HASH
    nulls: Nulls = "refuse"

    def check(self, columns: list[str]) -> None:
        """Check that the stream has all key columns."""
        for name in self.by:
            if name not in columns:
                raise BadInput(f"by='{name}'", nearest(name, columns), "balance")
        if self.how == MODULO and len(self.by) != 1:
            raise BadInput(f"assign='modulo' by {len(self.by)} columns", "one column of whole numbers", "balance")

    def check_types(self, keys: Any) -> None:
        """Check that the key columns have supported types; ``keys`` is a table of them without rows."""
        try:
            self.of(keys)
        except BadInput as error:
            raise BadInput(error.given, error.allowed, f"balance, by {', '.join(self.by)}") from None

    @property
    def computed(self) -> bool:
        """Whether Spark computes the slice."""
        return self.how not in (HASH, MODULO)

    def of(self, table: Any) -> SliceIds:
        """Return the slice of every row."""
        if self.computed:
            return self._computed(table.column(SLICE).combine_chunks())
        if len(self.by) == 1:
            kind = Modulo if self.how == MODULO else Hash
            return kind(self.by[0], self.slices, self.nulls).assign_batch(table)
        return self._hashed(table)

    def _hashed(self, table: Any) -> SliceIds:
        total = np.zeros(table.num_rows, np.uint64)
        nulls = np.zeros(table.num_rows, np.bool_)
        for name in self.by:
            column = table.column(name).combine_chunks()
            chunk = column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
            total = (total ^ hash_column(chunk)) * np.uint64(0x9E3779B97F4A7C15)
            total ^= total >> np.uint64(32)
            if chunk.null_count:
                nulls |= chunk.is_null().to_numpy(zero_copy_only=False)
        ids = ((total >> np.uint64(32)) * np.uint64(self.slices) >> np.uint64(32)).astype(np.int32)
        if nulls.any():
            ids[nulls] = self._null_slice(int(nulls.argmax()))
        return ids

    def _computed(self, column: Any) -> SliceIds:
        if column.null_count:
            row = int(column.is_null().to_numpy(zero_copy_only=False).argmax())
            filled = column.fill_null(NO_SLICE).to_numpy(zero_copy_only=False)
            known = filled != NO_SLICE
            ids = np.full(len(filled), self._null_slice(row), np.int32)
            ids[known] = checked(filled[known], self.slices, f"assign '{self.how}'")
            return ids
        return checked(column.to_numpy(zero_copy_only=False), self.slices, f"assign '{self.how}'")

    def _null_slice(self, row: int) -> int:
        try:
            return null_slice(self.nulls)
        except BadInput as error:
            raise BadInput(error.given, error.allowed, f"row {row}, columns {', '.join(self.by) or self.how}") from None
