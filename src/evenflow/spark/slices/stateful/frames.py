"""Arrow rows as pandas frames per key, and output frames as Arrow: as Spark's pandas forms hand them over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.errors import PySparkValueError
from pyspark.sql.conversion import ArrowBatchTransformer, PandasToArrowConversion

from evenflow.spark.slices.stateful.rows import keys_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from evenflow.spark.slices.stateful.book import Key


@dataclass(frozen=True)
class Settings:
    """What a session says about frames: Spark gives its workers the same."""

    zone: str
    most_rows: int
    by_name: bool
    safe: bool
    decimals: bool

    @staticmethod
    def of(spark: SparkSession) -> Settings:
        """Return a session's settings."""

        def said(name: str, default: str) -> str:
            return str(spark.conf.get(f"spark.sql.{name}", default))

        most = int(said("execution.arrow.maxRecordsPerBatch", "10000"))
        return Settings(
            zone=said("session.timeZone", "UTC"),
            most_rows=most if most > 0 else 2**31 - 1,
            by_name=said("legacy.execution.pandas.groupedMap.assignColumnsByName", "true") == "true",
            safe=said("execution.pandas.convertToArrowArraySafely", "false") == "true",
            decimals=said("execution.pythonUDF.pandas.intToDecimalCoercionEnabled", "false") == "true",
        )

    def series(self, table: Any) -> list[Any]:
        """Return a table's columns as pandas has them."""
        return list(ArrowBatchTransformer.to_pandas(table.combine_chunks(), timezone=self.zone))

    def table(self, frames: Sequence[Any], output: StructType) -> Any:
        """Return frames as one table of the declared output: those that look alike go together."""
        batches = []
        for alike in _alike(frames):
            whole = alike[0] if len(alike) == 1 else pd.concat(alike, ignore_index=True)
            batch = PandasToArrowConversion.convert(
                whole,
                output,
                timezone=self.zone,
                safecheck=self.safe,
                arrow_cast=True,
                assign_cols_by_name=self.by_name,
                int_to_decimal_coercion_enabled=self.decimals,
            )
            batches.append(batch.rename_columns(output.names))
        return pa.Table.from_batches(batches) if batches else None


def _alike(frames: Sequence[Any]) -> Iterator[list[Any]]:
    found: list[Any] = []
    looks: tuple[list[Any], list[Any]] | None = None
    for frame in frames:
        own = (list(frame.columns), list(frame.dtypes))
        if found and own != looks:
            yield found
            found = []
        found.append(frame)
        looks = own
    if found:
        yield found


def parts_of(table: Any, keys: Sequence[Key]) -> Iterator[tuple[Key, Any, int, int]]:
    """Yield every key with the table sorted by key and the key's place in it; rows of a key keep their order."""
    numbers: dict[Key, int] = {}
    ids = np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.int64, len(keys))
    ordered = table.take(pa.array(np.argsort(ids, kind="stable")))
    end = 0
    for key, count in zip(numbers, np.bincount(ids).tolist(), strict=True):
        start, end = end, end + count
        yield key, ordered, start, end


class PandasForm:
    """What ``transformWithStateInPandas`` hands to a processor and takes from it."""

    def __init__(self, keys: StructType, output: StructType, settings: Settings) -> None:
        self.keys = keys
        self._output = output
        self._settings = settings

    def groups(self, table: Any) -> Iterator[tuple[Key, Key, Iterable[Any]]]:
        """Yield every key, as it is kept and as the processor sees it, with its frames."""
        frame: Any = None
        for kept, ordered, start, end in parts_of(table, keys_of(table, self.keys.names)):
            if frame is None:
                frame = _widened(pd.concat(self._settings.series(ordered), axis=1))
                keys = [frame[name].tolist() for name in self.keys.names]
            yield kept, tuple(column[start] for column in keys), self._chunks(frame, start, end)

    def _chunks(self, frame: Any, start: int, end: int) -> Iterator[Any]:
        for first in range(start, end, self._settings.most_rows):
            part = frame.iloc[first : min(end, first + self._settings.most_rows)]
            part.index = pd.RangeIndex(len(part))
            part._is_copy = None  # noqa: SLF001 - it is nobody else's: a job that writes into it need not be warned
            yield part

    def table(self, output: Sequence[Any]) -> Any:
        """Return the output of a slice as one table."""
        for frame in output:
            if not isinstance(frame, pd.DataFrame):
                raise PySparkValueError(
                    "Invalid return type. Please make sure that the UDF returns a "
                    "pandas.DataFrame when the specified return type is StructType."
                )
        return self._settings.table(output, self._output)


def _widened(frame: Any) -> Any:
    """Return a frame with the types that Spark's gets: it makes one of Python's numbers, which know no small ones."""
    wide = {
        name: np.int64 if np.issubdtype(kind, np.integer) else np.float64
        for name, kind in frame.dtypes.items()
        if isinstance(kind, np.dtype) and kind.kind in "iuf" and kind.itemsize < 8
    }
    return frame.astype(wide) if wide else frame
