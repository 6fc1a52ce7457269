"""What a Spark user writes for matching without evenflow: the joins that the benchmarks compare with."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom

from evenflow.spark.matching.match import match, ship
from evenflow.spark.session import local_session

BOUNDS: dict[str, Callable[[Any, Any], Any]] = {
    "is": lambda value, bound: value == bound,
    "above": lambda value, bound: value > bound,
    "below": lambda value, bound: value < bound,
    "from": lambda value, bound: value >= bound,
    "to": lambda value, bound: value <= bound,
}
"""A column ``high_above`` of the rules holds the bound of ``high``, null where a rule has none."""


class SparkSide:
    """A session with events and rules in its memory, and the ways to match them."""

    def __init__(self, memory: str = "5g") -> None:
        settings = {
            "spark.driver.memory": memory,
            "spark.sql.autoBroadcastJoinThreshold": "-1",
            # On a busy machine a compiler in the background comes late, and the joins would run interpreted meanwhile.
            "spark.driver.extraJavaOptions": "-XX:-BackgroundCompilation",
        }
        self.spark: SparkSession = local_session(2, name="evenflow bench", settings=settings)

    def frame(self, table: pa.Table) -> DataFrame:
        """Make a DataFrame."""
        return self.spark.createDataFrame(table)

    def held(self, table: pa.Table) -> DataFrame:
        """Bring a table into the session's memory, in as many partitions as there are cores."""
        frame = self.frame(table).repartition(2).cache()
        frame.count()
        return frame

    def forget(self) -> None:
        """Free the memory of the session."""
        self.spark.catalog.clearCache()

    def stop(self) -> None:
        """End the session."""
        self.spark.stop()


def nested_loop(events: DataFrame, rules: DataFrame) -> DataFrame:
    """Join on all bounds at once, which Spark can only do by trying every pair."""
    names = [name for name in rules.columns if name != "subscription"]
    return events.join(F.broadcast(rules), reduce(and_, map(_holds, names))).select("event", "subscription")


def equal_then_filter(events: DataFrame, rules: DataFrame) -> DataFrame:
    """Join on the symbol and filter by the other bounds; rules without a symbol are tried with every event."""
    others = [name for name in rules.columns if name not in ("subscription", "symbol_is")]
    holds = reduce(and_, map(_holds, others))
    by_symbol = rules.where(F.col("symbol_is").isNotNull())
    general = rules.where(F.col("symbol_is").isNull())
    one = events.join(F.broadcast(by_symbol), (F.col("symbol") == F.col("symbol_is")) & holds)
    two = events.join(F.broadcast(general), holds)
    return one.select("event", "subscription").unionByName(two.select("event", "subscription"))


def _holds(name: str) -> Column:
    attribute, _, bound = name.rpartition("_")
    holds: Column = F.col(name).isNull() | BOUNDS[bound](F.col(attribute), F.col(name))
    return holds


def summed(pairs: DataFrame) -> tuple[int, int]:
    """Count pairs and sum their check number, without carrying them anywhere."""
    number = (F.col("event").cast("long") + 1) * (F.col("subscription").cast("long") + 1)
    row = pairs.agg(F.count("*").alias("pairs"), F.sum(number).alias("checksum")).collect()[0]
    return int(row["pairs"]), int(row["checksum"] or 0)


def first(events: DataFrame, count: int) -> DataFrame:
    """Keep the first events, by their number."""
    return events.where(F.col("event") < count)


def drained(frame: DataFrame) -> None:
    """Make Spark produce every row and drop it."""
    frame.write.format("noop").mode("overwrite").save()


__all__ = ["SparkSide", "drained", "equal_then_filter", "first", "match", "nested_loop", "ship", "summed"]
