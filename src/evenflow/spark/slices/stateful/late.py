"""Late rows, dropped by the stream's own event-time column before they are packed: behind the packing Spark does not see it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from evenflow.spark.kit.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

DELAY: Final = "spark.watermarkDelayMs"
"""In the metadata of the column on which a watermark is defined."""


def event_time(schema: StructType) -> str | None:
    """Return the column with the stream's watermark."""
    return next((field.name for field in schema.fields if DELAY in (field.metadata or {})), None)


@dataclass(frozen=True)
class Late:
    """Drops rows that are not later than the watermark of the batch before, as Spark does.

    Parameters
    ----------
    checkpoint
        Of the query: its offset files hold the watermark of every batch.
    column
        The event-time column, a timestamp or a window.
    """

    checkpoint: str
    column: str

    def kept(self, table: Any, batch: int) -> Any:
        """Return the rows that are in time; one without a time is."""
        return in_time(table, self.column, watermark_before(self.checkpoint, batch))


def in_time(table: Any, column: str, watermark_ms: int) -> Any:
    """Return the rows later than a watermark.

    Examples
    --------
    >>> rows = pa.table({"at": pa.array([1_000_000, 2_000_000, None], pa.timestamp("us"))})
    >>> in_time(rows, "at", 1000).num_rows
    2
    """
    times = table.column(column)
    if pa.types.is_struct(times.type):
        times = pc.struct_field(times, "end")
    later = pc.greater(times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64()), watermark_ms * 1000)
    return table if pc.all(later, min_count=0).as_py() else table.filter(pc.or_kleene(later, times.is_null()))


def watermark_before(checkpoint: str, batch: int) -> int:
    """Return the watermark of the batch before, which Spark wrote down and keeps when a batch runs again."""
    if batch < 1:
        return 0
    lines = Storage(checkpoint).read(f"offsets/{batch - 1}").decode().splitlines()
    return int(json.loads(lines[1])["batchWatermarkMs"])
