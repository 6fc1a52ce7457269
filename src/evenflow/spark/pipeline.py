"""Checks and starts the query that a pipeline file describes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException

from evenflow.errors import BadInput
from evenflow.spark.kit.storage import checked_url
from evenflow.spark.pipeline_file import Pipeline, Work, load_function, load_value
from evenflow.spark.slices.balance import Processed, balance
from evenflow.spark.submitted import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from evenflow.spark.kit.query import BalancedQuery

ARGUMENTS = {"function": 2, "each": 3, "map": 1}


def check_functions(pipeline: Pipeline) -> None:
    """Check that the functions exist and accept the right number of arguments."""
    key, name = _work(pipeline.work)
    where = pipeline.place("process", key)
    function = load_function(name, where)
    wanted = ARGUMENTS[key] + pipeline.work.correlate
    try:
        inspect.signature(function).bind(*range(wanted))
    except TypeError as error:
        raise BadInput(f"'{name}' ({error})", f"a function of {wanted} arguments", where) from None
    except ValueError:
        pass  # a function written in C may have no signature
    if pipeline.work.state:
        _state(pipeline)


def session_for(pipeline: Pipeline) -> SparkSession:
    """Return the session of ``spark-submit``, or start the one that ``[spark]`` describes."""
    wanted = pipeline.spark
    return session(
        wanted.name, wanted.master, {"spark.sql.shuffle.partitions": str(pipeline.divide.lanes), **wanted.settings}
    )


def processed_of(pipeline: Pipeline, spark: SparkSession) -> Processed:
    """Build the divided and processed stream; check everything that can be checked before it starts."""
    stream = _stream(pipeline, spark)
    divide = pipeline.divide
    try:
        divided = balance(
            stream, divide.by, slices=divide.slices, lanes=divide.lanes, used=divide.used, assign=divide.assign,
            nulls=divide.nulls,  # type: ignore[arg-type]  # checked by balance
            balancing=pipeline.balancing,
        )  # fmt: skip
    except BadInput as error:
        raise BadInput(error.given, error.allowed, f"{pipeline.where}: [balance]") from None
    work = pipeline.work
    key, name = _work(work)
    function = load_function(name, pipeline.place("process", key))
    options: dict[str, Any] = {"dead_letters": work.dead_letters}
    if key == "function":
        options |= {"state": _state(pipeline) if work.state else None, "correlate": work.correlate}
    verbs: dict[str, Callable[..., Processed]] = {
        "function": divided.process,
        "each": divided.process_each,
        "map": divided.map,
    }
    try:
        processed = verbs[key](function, work.output, **options)
        plane = processed.plane(checked_url(pipeline.sink.checkpoint))
    except PySparkException as error:
        raise BadInput(f"'{work.output}' ({_sentence(error)})", "columns and types", pipeline.place("process", "output")) from None  # fmt: skip
    plane.agreed()
    return processed


def start(pipeline: Pipeline, processed: Processed) -> BalancedQuery:
    """Start the query."""
    sink = pipeline.sink
    writer = processed.writeStream.format(sink.format).outputMode(sink.mode).options(**sink.options)
    writer = writer.queryName(pipeline.spark.name).option("checkpointLocation", sink.checkpoint)
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    if sink.trigger == "availableNow":
        writer = writer.trigger(availableNow=True)
    elif sink.trigger:
        writer = writer.trigger(processingTime=sink.trigger)
    try:
        return writer.toTable(sink.table) if sink.table else writer.start(sink.path or None)
    except AnalysisException as error:
        raise BadInput(f"'{sink.format}' ({_sentence(error)})", "a sink that Spark can start", f"{pipeline.where}: [sink]") from None  # fmt: skip


def _stream(pipeline: Pipeline, spark: SparkSession) -> DataFrame:
    source = pipeline.source
    where = f"{pipeline.where}: [source]"
    try:
        reader = spark.readStream.format(source.format).options(**source.options)
        if source.schema:
            reader = reader.schema(source.schema)
        stream = reader.table(source.table) if source.table else reader.load(source.path or None)
        if source.where:
            stream = stream.where(source.where)
        if source.select:
            stream = stream.selectExpr(*source.select)
        stream.schema  # noqa: B018 - makes Spark resolve it now, not when the query starts
    except PySparkException as error:
        raise BadInput(f"what Spark refuses ({_sentence(error)})", "a stream that it can read", where) from None
    return stream


def _state(pipeline: Pipeline) -> Any:
    where = pipeline.place("process", "state")
    found = load_value(pipeline.work.state, where)
    if not (callable(found) or isinstance(found, pa.Schema)):
        given = f"'{pipeline.work.state}', of type {type(found).__name__}"
        raise BadInput(given, "a function that makes a state, or an Arrow schema", where)
    return found


def _work(work: Work) -> tuple[str, str]:
    return next((key, getattr(work, key)) for key in ARGUMENTS if getattr(work, key))


def _sentence(error: PySparkException) -> str:
    """Return the first line of Spark's error message."""
    lines = str(error.getMessage() or error).strip().splitlines()
    return lines[0].rstrip(".")[:300] if lines else type(error).__name__
