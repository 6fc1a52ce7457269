"""A running aggregate per key (count, sum, exponentially weighted mean) as users write it today, and with evenflow.

Every variant reads ``key long, value double`` and puts out ``key, n, total, mean`` once per key and batch,
except that the JVM's aggregate knows no weighted mean and puts out the plain one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from evenflow.spark.slices.balance import balance
from evenflow.spark.slices.running import OUTPUT, Running

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SCHEMA: Final = "key long, value double"
STATE: Final = "n long, total double, mean double"
ALPHA: Final = 0.1
EVENFLOW: Final = "evenflow"
TWS_ROW: Final = "transformWithState Row"
TWS_PANDAS: Final = "transformWithState Pandas"
APPLY: Final = "applyInPandasWithState"
JVM: Final = "JVM aggregate"

Known = tuple[int, float, float] | None
Start = Callable[[DataFrame, int, int], Any]
"""A stream, lanes and slices become something with a ``writeStream``."""


def followed(values: Iterable[float], known: Known) -> tuple[int, float, float]:
    """Bring one key up to date, value by value."""
    n, total, mean = known if known is not None else (0, 0.0, 0.0)
    for value in values:
        mean = value if n == 0 else ALPHA * value + (1 - ALPHA) * mean
        n += 1
        total += value
    return n, total, mean


def followed_at_once(values: Any, known: Known) -> tuple[int, float, float]:
    """Bring one key up to date with an array of values."""
    n, total, mean = known if known is not None else (0, 0.0, float(values[0]))
    weights = ALPHA * (1 - ALPHA) ** np.arange(len(values) - 1, -1, -1)
    mean = mean * (1 - ALPHA) ** len(values) + float(weights @ values)
    return n + len(values), total + float(values.sum()), mean


class ByRow(StatefulProcessor):
    """For ``transformWithState``."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._known = handle.getValueState("known", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 - Spark's names
        """Follow one key."""
        known = self._known.get()
        new = followed((row.value for row in rows), None if known is None else tuple(known))
        self._known.update(new)
        return iter([Row(key=key[0], n=new[0], total=new[1], mean=new[2])])

    def close(self) -> None:
        """Nothing is open."""


class ByPandas(StatefulProcessor):
    """For ``transformWithStateInPandas``."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._known = handle.getValueState("known", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's names
        """Follow one key."""
        known = self._known.get()
        values = np.concatenate([frame["value"].to_numpy() for frame in rows])
        new = followed_at_once(values, None if known is None else tuple(known))
        self._known.update(new)
        yield pd.DataFrame({"key": [key[0]], "n": [new[0]], "total": [new[1]], "mean": [new[2]]})

    def close(self) -> None:
        """Nothing is open."""


def by_state(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
    """For ``applyInPandasWithState``."""
    known = state.get if state.exists else None
    values = np.concatenate([frame["value"].to_numpy() for frame in frames])
    new = followed_at_once(values, known)
    state.update(new)
    yield pd.DataFrame({"key": [key[0]], "n": [new[0]], "total": [new[1]], "mean": [new[2]]})


def _evenflow(stream: DataFrame, lanes: int, slices: int) -> Any:
    divided = balance(stream, by="key", slices=slices, lanes=lanes)
    return divided.process(Running("key", "value", ALPHA), OUTPUT)


VARIANTS: Mapping[str, Start] = {
    EVENFLOW: _evenflow,
    TWS_ROW: lambda s, lanes, slices: s.groupBy("key").transformWithState(ByRow(), OUTPUT, "update", "None"),
    TWS_PANDAS: lambda s, lanes, slices: s.groupBy("key").transformWithStateInPandas(
        ByPandas(), OUTPUT, "update", "None"
    ),
    APPLY: lambda s, lanes, slices: s.groupBy("key").applyInPandasWithState(
        by_state, OUTPUT, STATE, "update", "NoTimeout"
    ),
    JVM: lambda s, lanes, slices: s.groupBy("key").agg(
        sf.count("*").alias("n"), sf.sum("value").alias("total"), sf.avg("value").alias("mean")
    ),
}


def writer_of(variant: str, stream: DataFrame, lanes: int, slices: int) -> DataStreamWriter:
    """Return a variant's writer, in update mode."""
    found: DataStreamWriter = VARIANTS[variant](stream, lanes, slices).writeStream.outputMode("update")
    return found
