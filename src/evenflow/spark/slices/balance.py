"""The public interface: ``balance(stream, by=…).process(…).writeStream…start()``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from evenflow.errors import BadInput
from evenflow.slices.by_field import Nulls, check_nulls, check_slices
from evenflow.spark.kit.control_source import ControlSource
from evenflow.spark.kit.controller import Balancing
from evenflow.spark.kit.plane import Plane
from evenflow.spark.kit.storage import checked_url
from evenflow.spark.slices.assign import HASH, SLICE, Assign
from evenflow.spark.slices.pack import PUT_OUT, STAMP, Pack, unpack
from evenflow.spark.slices.per_key import Each, PerKey
from evenflow.spark.slices.processor import SliceProcessor
from evenflow.spark.slices.stateful import door
from evenflow.spark.slices.stateless import MapLane
from evenflow.spark.slices.turn import Job, Process

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData, SparkSession
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    from evenflow.spark.slices.writer import Writer


KEYED_ABOVE: Final = 1 << 20
PROCESS, PROCESS_EACH, MAP = "process", "process_each", "map"


def balance(
    stream: DataFrame,
    by: str | Sequence[str] = (),
    *,
    slices: int = 256,
    lanes: int = 8,
    used: int | None = None,
    assign: str = HASH,
    nulls: Nulls | None = None,
    balancing: Balancing | None = None,
) -> Balance:
    """Divide a stream into slices and keep its lanes evenly loaded while it runs.

    Parameters
    ----------
    stream
        Any streaming DataFrame.
    by
        Key column or columns; rows with equal keys are in the same slice, and so on the same lane.
    slices
        Number of slices; more slices balance more finely, but each costs a little time per batch.
    lanes
        Partitions of every micro-batch. The number is fixed with the checkpoint, so choose a generous one.
    used
        Number of lanes that own slices at the beginning, by default all; ``query.add`` puts more into use.
        A checkpoint keeps its first number, so you may leave it out when the query restarts.
    assign
        ``"hash"``, ``"modulo"`` (one column of whole numbers), or a Spark SQL expression that gives the slice.
    nulls
        What a null key means: ``"refuse"``, ``"drop"`` or the slice for nulls.
        The default refuses it, except in Spark's own doors, where a null is a key as in Spark.
        A checkpoint that began with ``"refuse"`` may go on with another.
    balancing
        The settings that decide when slices move; unlike the others, they may change at a restart.

    Returns
    -------
    Balance
        Call ``process``, ``process_each`` or ``map`` on it to define the processing.

    Examples
    --------
    >>> query = (  # doctest: +SKIP
    ...     evenflow.balance(stream, by="device_id", slices=256, lanes=8)
    ...     .process(update, output="device_id long, mean double")
    ...     .writeStream.format("parquet")
    ...     .option("checkpointLocation", checkpoint)
    ...     .start(out)
    ... )
    """
    if not stream.isStreaming:
        raise BadInput("a batch DataFrame", "a streaming one (spark.readStream…)", "balance")
    check_slices(slices)
    given, nulls = nulls is not None, "refuse" if nulls is None else nulls
    check_nulls(nulls, slices)
    if used is not None and not 1 <= used <= lanes:
        raise BadInput(f"used={used}", f"1 to {lanes} lanes", "balance")
    columns = (by,) if isinstance(by, str) else tuple(by)
    how = Assign(columns, slices, assign, nulls)
    if not columns and not how.computed:
        raise BadInput("no key columns", "by='column', or assign='expression'", "balance")
    how.check(stream.columns)
    if not how.computed:
        keys = StructType([stream.schema[name] for name in columns])
        how.check_types(to_arrow_schema(keys, timezone="UTC").empty_table())
    return Balance(stream, how, lanes, used, balancing or Balancing(), nulls_given=given)


@dataclass(frozen=True)
class Balance:
    """A stream divided into slices, whose processing is not defined yet."""

    stream: DataFrame
    assign: Assign
    lanes: int
    used: int | None
    balancing: Balancing
    nulls_given: bool = False

    def process(
        self,
        update: Process,
        output: str | StructType,
        state: Any = None,
        *,
        correlate: bool = False,
        dead_letters: str | None = None,
    ) -> Processed:
        """Process all rows of a slice in one call, with the slice's state.

        Parameters
        ----------
        update
            ``(rows: pa.Table, state) -> (pa.Table, state)``; called once per slice and batch with all rows of the slice.
            It must return the same result for the same input, because Spark may run a batch again.
        output
            Schema of the returned table.
        state
            The initial state of a slice: ``None``, a function without arguments that returns it,
            or an Arrow schema, for a table without rows.
            States are pickled, except Arrow tables, which are stored as Arrow.
        correlate
            Call ``update(rows, state, others)``, where ``others`` are this batch's rows of all other slices.
            They are sorted by slice, and within a slice in the order of the source, on whatever lanes the slices are.
            ``update`` is not called for a slice that has no rows in a batch.
            Every row is then sent once to every lane that owns slices.
        dead_letters
            A directory for rows on which ``update`` fails; without it, a failure ends the query.
            Rows are split in halves until only the failing ones are left, so ``update`` may run several times per batch.
        """
        kind = f"{PROCESS}, correlate" if correlate else PROCESS  # held rows then include those of other slices
        letters = _letters(dead_letters)
        return Processed(self, update, output, _maker(state), kind, correlate=correlate, letters=letters)

    def process_each(
        self,
        function: Each,
        output: str | StructType,
        *,
        dead_letters: str | None = None,
        keyed_above: int = KEYED_ABOVE,
    ) -> Processed:
        """Process the rows of one key at a time.

        Parameters
        ----------
        function
            ``(key, rows, state) -> (output, state)``; the key is a tuple if there are several key columns.
            The initial state of every key is ``None``; a key is deleted when the function returns ``None`` as its state.
            The output is a table, rows as dictionaries, or ``None``.
        output
            Schema of the output.
        dead_letters
            As for :meth:`process`.
        keyed_above
            A slice with a state of more bytes stores it divided by key, so that a batch rewrites only the parts it changes.
        """
        if not self.assign.by:
            raise BadInput("no key columns", "by='column'", "process_each")
        schema = arrow_schema(self.stream.sparkSession, output)
        each = PerKey(function, self.assign.by, schema)
        letters = _letters(dead_letters)
        return Processed(self, each, output, _nothing, PROCESS_EACH, letters=letters, keyed_above=max(1, keyed_above))

    def map(
        self, function: Callable[[Any], Any], output: str | StructType, *, dead_letters: str | None = None
    ) -> Processed:
        """Process rows without state: ``(rows: pa.Table) -> pa.Table``, called once per slice and batch."""
        return Processed(self, Stateless(function), output, _nothing, MAP, letters=_letters(dead_letters))

    def transformWithState(  # noqa: N802 - Spark's names, here and below
        self,
        statefulProcessor: StatefulProcessor,  # noqa: N803
        outputStructType: str | StructType,  # noqa: N803
        outputMode: str,  # noqa: N803
        timeMode: str,  # noqa: N803
        initialState: GroupedData | None = None,  # noqa: N803
        eventTimeColumnName: str = "",  # noqa: N803
    ) -> Processed:
        """Run a Spark ``StatefulProcessor`` over rows, as ``GroupedData.transformWithState`` does; the class stays as it is."""
        given = (statefulProcessor, outputStructType, outputMode, timeMode, initialState, eventTimeColumnName)
        return door.transform_with_state(self, *given, pandas=False)

    def transformWithStateInPandas(  # noqa: N802
        self,
        statefulProcessor: StatefulProcessor,  # noqa: N803
        outputStructType: str | StructType,  # noqa: N803
        outputMode: str,  # noqa: N803
        timeMode: str,  # noqa: N803
        initialState: GroupedData | None = None,  # noqa: N803
        eventTimeColumnName: str = "",  # noqa: N803
    ) -> Processed:
        """Run a Spark ``StatefulProcessor`` over pandas frames, as ``GroupedData.transformWithStateInPandas`` does."""
        given = (statefulProcessor, outputStructType, outputMode, timeMode, initialState, eventTimeColumnName)
        return door.transform_with_state(self, *given, pandas=True)

    def applyInPandasWithState(  # noqa: N802
        self,
        func: Callable[..., Any],
        outputStructType: str | StructType,  # noqa: N803
        stateStructType: str | StructType,  # noqa: N803
        outputMode: str,  # noqa: N803
        timeoutConf: str,  # noqa: N803
    ) -> Processed:
        """Run a function of frames and a ``GroupState``, as ``GroupedData.applyInPandasWithState`` does."""
        return door.apply_in_pandas_with_state(self, func, outputStructType, stateStructType, outputMode, timeoutConf)


@dataclass(frozen=True)
class Stateless:
    """An adapter that gives a function without state the signature of one with state."""

    function: Callable[[Any], Any]

    def __call__(self, rows: Any, state: None) -> tuple[Any, None]:
        """Process one slice."""
        return self.function(rows), None


def arrow_schema(spark: SparkSession, output: str | StructType) -> Any:
    """Return a declared output as an Arrow schema.

    Timestamps are always in UTC, whatever the session's time zone, because a query may restart in another zone.
    """
    return to_arrow_schema(spark.createDataFrame([], output).schema, timezone="UTC")


def _letters(location: str | None) -> str:
    return "" if location is None else checked_url(location)


def _maker(state: Any) -> Callable[[], Any]:
    if isinstance(state, pa.Schema):
        return state.empty_table  # type: ignore[no-any-return]  # pyarrow has no types
    if state is None or callable(state):
        return state or _nothing
    raise BadInput(f"state={state!r}"[:80], "None, a function that makes a state, or an Arrow schema", "process")


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class Processed:
    """The output of a balanced stream; write it with ``writeStream``, or change it first with ``transform``."""

    balance: Balance
    update: Process
    output: str | StructType
    fresh: Callable[[], Any]
    kind: str
    then: tuple[Callable[[DataFrame], DataFrame], ...] = ()
    correlate: bool = False
    letters: str = ""
    keyed_above: int = 0
    clocked: door.Clocked | None = None

    @property
    def writeStream(self) -> Writer:  # noqa: N802 - Spark's name
        """A writer with the methods of Spark's ``DataStreamWriter``."""
        from evenflow.spark.slices.writer import Writer  # noqa: PLC0415 - the two modules import each other

        return Writer(self)

    def transform(self, change: Callable[[DataFrame], DataFrame]) -> Processed:
        """Apply stateless operations to the output before it is written."""
        return replace(self, then=(*self.then, change))

    def plane(self, checkpoint: str) -> Plane:
        """Return the plane that describes this stream on a checkpoint."""
        assign = self.balance.assign
        return Plane(
            checkpoint=checkpoint,
            slices=assign.slices,
            lanes=self.balance.lanes,
            used=self.balance.used or 0,
            by=assign.by,
            assign=assign.how,
            nulls=assign.nulls,
            schema=self.balance.stream.schema.simpleString(),
            output=arrow_schema(self.balance.stream.sparkSession, self.output).to_string(),
            kind=self.kind,
        )

    def frame(self, plane: Plane, mode: str, *, driver: int, stamped: bool = False) -> DataFrame:
        """Return the whole data plane as one streaming DataFrame: pack, orders, slices, unpack.

        ``driver`` is the number of the driver that runs it, see :mod:`evenflow.spark.kit.drivers`.
        ``stamped`` adds the batch's timestamp to rows, for tasks that cannot get the batch's number from Spark.
        """
        stream, assign = self.balance.stream, self.balance.assign
        spark = stream.sparkSession
        if assign.computed:
            stream = stream.withColumn(SLICE, sf.expr(assign.how).cast("int"))
        if stamped:
            stream = stream.withColumn(STAMP, sf.current_timestamp())
        spark.dataSource.register(ControlSource)
        described = {"plane": asdict(plane), "balancing": self.balance.balancing.plain(), "driver": driver}
        options = {name: json.dumps(value) for name, value in described.items()}
        orders = spark.readStream.format(ControlSource.name()).options(**options).load()
        job = Job(
            self.update,
            self.fresh,
            arrow_schema(spark, self.output),
            sift=bool(self.letters),
            keyed_above=self.keyed_above,
            keys_of=self.update.keys_of if isinstance(self.update, PerKey) else Job.keys_of,
        )
        late = None if self.clocked is None else self.clocked.late_on(plane)
        packed = stream.mapInArrow(Pack(plane, assign, self.correlate, late), orders.schema).union(orders)
        if self.kind == MAP:
            frame = packed.repartition(plane.lanes, "k").mapInArrow(MapLane(plane, job, self.letters), self.output)
        elif self.clocked is not None:
            frame = self.clocked.frame(packed, plane, assign, job, mode).mapInArrow(unpack, self.output)
        else:
            slices = SliceProcessor(plane, job, letters=self.letters, correlate=self.correlate)
            frame = (
                packed.groupBy("k").transformWithState(slices, PUT_OUT, mode, "None").mapInArrow(unpack, self.output)
            )
        for change in self.then:
            frame = change(frame)
        return frame
