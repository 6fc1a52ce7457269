"""Dead letters: rows on which the application fails are written to a directory with the reason, and the stream continues."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.spark.kit.storage import Storage

ERROR: Final = "_error"
SLICE: Final = "_slice"


def write_letters(place: Storage, batch: int, slice_id: int, poison: list[tuple[Any, str]]) -> None:
    """Write the rows that failed, each with its error; a batch that runs again replaces the same file."""
    tables = [
        rows.append_column(ERROR, pa.array([why] * rows.num_rows)).append_column(
            SLICE, pa.array([slice_id] * rows.num_rows, pa.int32())
        )
        for rows, why in poison
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.concat_tables(tables), sink)
    place.write(f"{batch:012}-{slice_id:06}.parquet", sink.getvalue().to_pybytes())
