"""The doors of Spark's ``GroupedData`` on a balanced stream: same arguments, same meaning, wrong ones refused at the call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkTypeError
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from evenflow.errors import BadInput
from evenflow.spark.kit.orders import PACKED
from evenflow.spark.kit.plane import Plane, homes
from evenflow.spark.slices.assign import Assign
from evenflow.spark.slices.cells import by_slice, to_cell
from evenflow.spark.slices.pack import PUT_OUT
from evenflow.spark.slices.stateful.handle import EVENT, NONE, PROCESSING
from evenflow.spark.slices.stateful.late import Late, event_time
from evenflow.spark.slices.stateful.processor import StatefulSlices
from evenflow.spark.slices.stateful.rows import RowForm
from evenflow.spark.slices.stateful.work import Form, Processing, Work
from evenflow.spark.slices.turn import Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData, SparkSession

    from evenflow.spark.slices.balance import Balance, Processed

TIME_MODES: Final = {NONE: "None", PROCESSING: "ProcessingTime", EVENT: "EventTime"}
OUTPUT_MODES: Final = ("append", "update")
NULL_SLICE: Final = 0
"""Rows with a null in their key are a group of their own, as in Spark: in this slice."""


@dataclass(frozen=True)
class Clocked:
    """How a stream's plane runs stateful work.

    Parameters
    ----------
    work
        The user's.
    mode
        Spark's time mode for the plane.
    kind
        Which of Spark's doors it is: a checkpoint holds the state of one.
    late
        The column by which late rows are dropped, if they are.
    initial
        Initial states.
    """

    work: Work
    mode: str
    kind: str
    late: str | None = None
    initial: DataFrame | None = None

    def late_on(self, plane: Plane) -> Late | None:
        """Return what drops late rows of a query."""
        return None if self.late is None else Late(plane.checkpoint, self.late)

    def frame(self, packed: DataFrame, plane: Plane, assign: Assign, job: Job, mode: str) -> DataFrame:
        """Return the output cells of packed rows and orders, unpacked by the caller."""
        slices = StatefulSlices(plane, replace(job, stamp=self.work.stamp))
        initial = None
        if self.initial is not None:
            initial = self.initial.mapInArrow(PackInitial(plane, assign), PACKED).groupBy("k")
        return packed.groupBy("k").transformWithState(slices, PUT_OUT, mode, self.mode, initial)


@dataclass(frozen=True)
class PackInitial:
    """For ``mapInArrow``: initial states, packed for the lanes that own their slices at the beginning."""

    plane: Plane
    assign: Assign

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Gather, assign, pack."""
        rows = [batch for batch in batches if batch.num_rows]
        if not rows:
            return
        table = pa.Table.from_batches(rows)
        keys, lanes = self.plane.keys, homes(self.plane)
        found = [(keys.key(s, lanes[s]), to_cell(part)) for s, part in by_slice(table, self.assign.of(table))]
        yield pa.RecordBatch.from_pydict(
            {
                "k": pa.array([k for k, _ in found], pa.int32()),
                "part": pa.array([0] * len(found), pa.int32()),
                "number": pa.array([0] * len(found), pa.int64()),
                "what": pa.nulls(len(found), pa.string()),
                "session": pa.array([0] * len(found), pa.int64()),
                "cell": pa.array([cell for _, cell in found], pa.binary()),
            }
        )


def transform_with_state(
    balance: Balance,
    processor: StatefulProcessor,
    output: StructType | str,
    output_mode: str,
    time_mode: str,
    initial: GroupedData | None,
    event_time_column: str,
    *,
    pandas: bool,
) -> Processed:
    """Return a stream with a user's stateful processor; the door of both forms."""
    where = "transformWithStateInPandas" if pandas else "transformWithState"
    if not isinstance(processor, StatefulProcessor):
        raise PySparkTypeError(
            errorClass="NOT_EXPECTED_TYPE",
            messageParameters={
                "expected_type": "StatefulProcessor",
                "arg_name": "statefulProcessor",
                "arg_type": type(processor).__name__,
            },
        )
    mode = _time_mode(time_mode)
    _check_output_mode(output_mode, where)
    if event_time_column:
        raise BadInput(
            f"eventTimeColumnName='{event_time_column}'",
            "'': no further stateful operator comes behind a balanced stream",
            where,
        )
    balance = _with_nulls(balance)
    spark = balance.stream.sparkSession
    keys = _keys(balance, where)
    declared = _schema(spark, output)
    form: Form
    if pandas:
        from evenflow.spark.slices.stateful.frames import PandasForm, Settings  # noqa: PLC0415 - pandas for those who use it

        form = PandasForm(keys, declared, Settings.of(spark))
    else:
        form = RowForm(keys, _arrow(spark, declared))
    column = event_time(balance.stream.schema) if mode == EVENT else None
    work = Processing(processor, form, keys, mode)
    begun = None if initial is None else _initial(initial, keys, where)
    if begun is not None and balance.assign.computed:
        raise BadInput("initialState with a computed slice", "assign='hash' or 'modulo'", where)
    return _processed(balance, Clocked(work, TIME_MODES[mode], where, column, begun), declared)


def apply_in_pandas_with_state(
    balance: Balance,
    function: Callable[..., Any],
    output: StructType | str,
    state: StructType | str,
    output_mode: str,
    timeout: str,
) -> Processed:
    """Return a stream with a user's function of groups and their states."""
    from evenflow.spark.slices.stateful.frames import Settings  # noqa: PLC0415 - pandas for those who use it
    from evenflow.spark.slices.stateful.groups import Grouped  # noqa: PLC0415

    where = "applyInPandasWithState"
    known = (GroupStateTimeout.NoTimeout, GroupStateTimeout.ProcessingTimeTimeout, GroupStateTimeout.EventTimeTimeout)
    if timeout not in known:
        raise AssertionError(f"timeoutConf={timeout!r}: {', '.join(known)}")  # as Spark: it asserts
    _check_output_mode(output_mode, where)
    balance = _with_nulls(balance)
    spark = balance.stream.sparkSession
    keys = _keys(balance, where)
    declared = _schema(spark, output)
    column = event_time(balance.stream.schema)
    by_event = timeout == GroupStateTimeout.EventTimeTimeout
    if by_event and column is None:
        raise AnalysisException(
            "Watermark must be specified in the query using '[Dataset/DataFrame].withWatermark()' for using event-time "
            "timeout in a [map|flatMap]GroupsWithState. Event-time timeout not supported without watermark."
        )
    work = Grouped(
        function,
        keys=keys,
        output=declared,
        state=_schema(spark, state),
        given=_arrow(spark, balance.stream.schema),
        timeout=timeout,
        watermarked=column is not None,
        settings=Settings.of(spark),
    )
    mode = TIME_MODES[EVENT if by_event else PROCESSING]  # without a timeout too: a group may ask for the batch's time
    return _processed(balance, Clocked(work, mode, where, column if by_event else None), declared)


def _processed(balance: Balance, clocked: Clocked, output: StructType) -> Processed:
    from evenflow.spark.slices.balance import Processed  # noqa: PLC0415 - the two know each other

    return Processed(balance, clocked.work, output, _nothing, clocked.kind, clocked=clocked)


def _nothing() -> None:
    return None


def _time_mode(given: str) -> str:
    if str(given).lower() not in TIME_MODES:
        raise IllegalArgumentException(
            f"[STATEFUL_PROCESSOR_UNKNOWN_TIME_MODE] Unknown time mode {given}. "
            "Accepted timeMode modes are 'none', 'processingTime', 'eventTime'"
        )
    return given.lower()


def _check_output_mode(given: str, where: str) -> None:
    if str(given).lower() in OUTPUT_MODES:
        return
    if str(given).lower() == "complete":
        raise BadInput("outputMode='complete'", "'append' or 'update'", where)
    raise IllegalArgumentException(
        f"[STREAMING_OUTPUT_MODE.INVALID] Invalid streaming output mode: {given}. "
        "Accepted output modes are 'Append', 'Complete', 'Update'."
    )


def _with_nulls(balance: Balance) -> Balance:
    """Return a stream whose null keys are groups, unless the user said what else they are."""
    if balance.nulls_given:
        return balance
    return replace(balance, assign=replace(balance.assign, nulls=NULL_SLICE))


def _keys(balance: Balance, where: str) -> StructType:
    if not balance.assign.by:
        raise BadInput("no key columns", "by='column'", where)
    fields = [balance.stream.schema[name] for name in balance.assign.by]
    for field in fields:
        if isinstance(field.dataType, StructType | ArrayType | MapType | VariantType):
            raise BadInput(
                f"by='{field.name}' of type {field.dataType.simpleString()}", "columns of simple types", where
            )
    return StructType(fields)


def _schema(spark: SparkSession, given: StructType | str) -> StructType:
    found: DataType = spark.createDataFrame([], given).schema
    assert isinstance(found, StructType)
    return found


def _arrow(spark: SparkSession, schema: StructType) -> Any:
    return to_arrow_schema(schema, timezone=spark.conf.get("spark.sql.session.timeZone", None))


def _initial(grouped: GroupedData, keys: StructType, where: str) -> DataFrame:
    from pyspark.sql import GroupedData as Grouping  # noqa: PLC0415 - only for those who have one

    if not isinstance(grouped, Grouping):
        raise BadInput(f"initialState of type {type(grouped).__name__}", "df.groupBy(…), the GroupedData", where)
    columns = grouped.count().schema.fields[:-1]
    if [field.dataType for field in columns] != [field.dataType for field in keys.fields]:
        given = StructType(columns).simpleString()
        raise BadInput(f"initialState grouped by {given}", f"the stream's keys, {keys.simpleString()}", where)
    frame: DataFrame = grouped._df  # noqa: SLF001 - Spark gives it in no other way
    if [field.name for field in columns] != keys.names:
        given = ", ".join(field.name for field in columns)
        raise BadInput(f"initialState grouped by {given}", f"columns of the same names, {', '.join(keys.names)}", where)
    if frame.isStreaming:
        raise BadInput("a streaming initialState", "a batch DataFrame, grouped", where)
    return frame
