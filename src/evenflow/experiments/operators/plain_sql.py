"""The same queries in plain Spark SQL over all readings at once: the live pipeline must give the same rows."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from evenflow.operators.query import Meters, Queries, Spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def plain(queries: Queries, readings: DataFrame) -> DataFrame:
    """Return every result as ``op, ts, key, value``; readings have ``ts, leaf, meter, value``."""
    outputs: dict[int, DataFrame] = {}
    for spec in queries.specs:  # inputs come before the operators that they feed
        outputs[spec.id] = _output(spec, [_input(end, outputs, readings) for end in spec.inputs])
    ends = [spec.id for spec in queries.specs if spec.id not in queries.fed]
    tagged = [outputs[op].select(F.lit(op).cast("long").alias("op"), "ts", "key", "value") for op in ends]
    return reduce(lambda a, b: a.unionByName(b), tagged)


def _input(end: int | Meters, outputs: dict[int, DataFrame], readings: DataFrame) -> DataFrame:
    if isinstance(end, int):
        return outputs[end]
    mine = (F.col("leaf") == end.leaf) & F.col("meter").between(end.first, end.last)
    return readings.where(mine).select("ts", F.col("meter").alias("key"), "value")


def _output(spec: Spec, inputs: list[DataFrame]) -> DataFrame:
    rows = inputs[0]
    if spec.kind == "filter":
        return rows.where(f"value {spec.test} {spec.value}")
    if spec.kind == "map":
        key = F.col("key") if spec.key is None else F.lit(spec.key).cast("long")
        return rows.select("ts", key.alias("key"), (F.col("value") * spec.factor).alias("value"))
    if spec.kind == "union":
        return reduce(lambda a, b: a.unionByName(b), inputs)
    if spec.kind == "join":
        left, right = (_windowed(spec, part).select("begin", "key", "value") for part in inputs)
        both = left.join(right.withColumnRenamed("value", "other"), ["begin", "key"])
        return both.select(F.col("begin").alias("ts"), "key", (F.col("value") - F.col("other")).alias("value"))
    if spec.kind == "sort":
        order = Window.partitionBy("begin").orderBy(F.desc("value"), "key", "ts")
        ranked = _windowed(spec, rows).withColumn("rank", F.row_number().over(order))
        return ranked.where(F.col("rank") <= spec.limit).select("ts", "key", "value")
    measure: Any = F.expr("sum(value) div count(value)" if spec.measure == "mean" else f"{spec.measure}(value)")
    grouped = _windowed(spec, rows).groupBy("begin", "key").agg(measure.cast("long").alias("value"))
    return grouped.select(F.col("begin").alias("ts"), "key", "value")


def _windowed(spec: Spec, rows: DataFrame) -> DataFrame:
    return rows.withColumn("begin", F.col("ts") - F.col("ts") % spec.window_s)
