"""A DDS topic as a stream of rows: ``spark.readStream.format("dds")`` after :func:`register`.

The offset is the total number of rows ever written to the journal. A row is on disk before an offset includes it, and
it stays there until its batch is committed. So after a crash, a batch can be read again exactly as it was.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from evenflow.errors import BadInput
from evenflow.spark.dds.options import WHERE, ReadOptions, read_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenflow.dds.collector import Collector
    from evenflow.dds.segments import Piece

OFFSET = "rows"
PER_TASK = 25_000  # rows
QUIET_S = 2.0  # with the trigger availableNow, input ends when no row arrives for this long
AVAILABLE_S = 10.0  # the longest time to collect rows with availableNow
HIDDEN = ("settled", "cost")  # fields of an item that only publisher and reader use


def register(spark: SparkSession) -> None:
    """Register the format ``dds`` with a session.

    Parameters
    ----------
    spark
        A classic or a Connect session.
    """
    spark.dataSource.register(DdsSource)


class DdsSource(DataSource):
    """The Spark data source for DDS topics, for reading and writing; ``docs/dds.md`` lists the options."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "dds"

    def schema(self) -> StructType | str:
        """Return the columns of the topic's type; Spark parses a schema that is given inline."""
        from evenflow.dds.wire.columns import is_name  # noqa: PLC0415 - Cyclone is loaded where it is used

        options = read_options(self.options)
        if not is_name(options.type):
            return options.type + (", slice int" if options.assign else "")
        return StructType(list(from_arrow_schema(_visible(_struct(options, None), options))))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader; it opens nothing until Spark asks for an offset."""
        return DdsReader(read_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        """Return the writer for one batch."""
        from evenflow.spark.dds.sink import BatchToDds  # noqa: PLC0415

        return BatchToDds(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802
        """Return the writer for micro-batches."""
        from evenflow.spark.dds.sink import StreamToDds  # noqa: PLC0415

        return StreamToDds(self.options, schema)


class Rows(InputPartition):
    """A part of a batch's rows, given by their places in the journal."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(None)
        self.pieces = pieces


class DdsReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream reader: Spark calls it in one process on the driver's machine, and copies of it read rows in executors."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._collector: Collector | None = None
        self._last: int | None = None
        struct = _struct(options, schema)
        options.condition(_arrow(struct))
        options.slice_of(_arrow(struct))
        _check_policies(options)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Collect rows until none arrive for ``QUIET_S`` seconds, but for at most ``AVAILABLE_S`` seconds."""
        collector = self._started()
        began = time.monotonic()
        while time.monotonic() < min(max(began, collector.arrived_at) + QUIET_S, began + AVAILABLE_S):
            self._last = collector.end()
            time.sleep(0.05)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the offset of the first row in the journal."""
        return {OFFSET: self._started().segments.first}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the end of the next batch.

        Raises
        ------
        BadInput
            The error that stopped the collector, such as a publisher of another type, or a journal that is too short.
        """
        end = self._started().end()
        if end < start[OFFSET]:
            given = f"{end} rows while the checkpoint has seen {start[OFFSET]}"
            allowed = "the journal that was written together with the checkpoint"
            raise BadInput(given, allowed, f"journal '{self._options.journal}'")
        if self._last is not None:
            end = max(start[OFFSET], min(end, self._last))
        return {OFFSET: min(end, start[OFFSET] + self._options.max_rows)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return where the rows of a batch are, one task per ``PER_TASK`` rows."""
        collector = self._started()
        first, last = start[OFFSET], end[OFFSET]
        return [Rows(collector.pieces(at, min(at + PER_TASK, last))) for at in range(first, last, PER_TASK)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the rows of a partition in an executor."""
        from evenflow.dds.segments import read_piece  # noqa: PLC0415

        assert isinstance(partition, Rows)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        for piece in partition.pieces:
            yield from read_piece(piece).select(schema.names).cast(schema).to_batches()

    def commit(self, end: dict[str, int]) -> None:
        """Delete the rows of committed batches."""
        self._started().forget(end[OFFSET])

    def stop(self) -> None:
        """Leave the domain."""
        if self._collector is not None:
            self._collector.stop()

    def _started(self) -> Collector:
        if self._collector is None:
            from evenflow.dds.collector import Collector, Wanted  # noqa: PLC0415

            options = self._options
            struct = _struct(options, self._schema)
            wanted = Wanted(
                topic=options.topic,
                kind=struct,
                domain=options.domain,
                journal=options.journal,
                keep=options.condition(_arrow(struct)),
                slice_of=options.slice_of(_arrow(struct)),
                most=options.max_backlog,
                acknowledge=options.acknowledge,
                policies=dict(options.policies),
            )
            collector = Collector(wanted)
            collector.start()
            self._collector = collector
        return self._collector


def _struct(options: ReadOptions, schema: StructType | None) -> Any:
    """Return the topic's type."""
    from evenflow.dds.wire.columns import is_name, load_type, struct_of  # noqa: PLC0415

    if is_name(options.type):
        return load_type(options.type, f"{WHERE}, option type")
    assert schema is not None  # Spark has parsed the inline schema
    fields = schema.fields[:-1] if options.assign and schema.fields[-1].name == "slice" else schema.fields
    return struct_of(to_arrow_schema(StructType(fields), timezone="UTC"), "Inline", f"{WHERE}, option type")


def _arrow(struct: Any) -> Any:
    from evenflow.dds.wire.columns import schema_of  # noqa: PLC0415

    return schema_of(struct)


def _visible(struct: Any, options: ReadOptions) -> Any:
    """Return the columns that Spark sees: for an item, without the fields that only publisher and reader use."""
    import pyarrow as pa  # noqa: PLC0415

    from evenflow.dds.wire.columns import is_item  # noqa: PLC0415

    fields = [f for f in _arrow(struct) if not (is_item(struct) and f.name in HIDDEN)]
    if options.assign and "slice" not in {f.name for f in fields}:
        fields.append(pa.field("slice", pa.int32()))
    return pa.schema(fields)


def _check_policies(options: ReadOptions) -> None:
    from evenflow.dds.domain import quality  # noqa: PLC0415

    quality(options.policies)
