"""Writes rows to a DDS topic: ``df.writeStream.format("dds")`` and ``df.write.format("dds")``.

Tasks write rows with their batch's id. The commit then lists the valid rows, for readers that need each batch exactly once.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from evenflow.errors import BadInput
from evenflow.spark.dds.options import WHERE, WriteOptions, write_options

if TYPE_CHECKING:
    from evenflow.dds.rows import RowWriter, Written

_WRITERS: dict[Any, RowWriter] = {}  # writers of this worker process, which Spark reuses for the next batch


@dataclass
class Wrote(WriterCommitMessage):
    """The message of a task to the commit: the rows it wrote."""

    written: Written


class _Rows:
    """The code that batch and stream writers share."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options: WriteOptions = write_options(options)
        self._columns = to_arrow_schema(schema, timezone="UTC")
        _struct(self._options, self._columns)
        self._number = secrets.randbits(62)  # a random batch number for writes without a streaming query

    def _write(self, query: str, batch: int, tables: Iterator[Any]) -> Wrote:
        rows = (row for table in tables for row in table.to_pylist())
        return Wrote(self._writer(query).write(query, batch, rows))

    def _commit(self, batch: int, messages: list[WriterCommitMessage | None]) -> None:
        self._writer("").commit(batch, [m.written for m in messages if isinstance(m, Wrote)])

    def _writer(self, query: str) -> RowWriter:
        """Return this process's writer for a query; each query has its own publisher, so readers can tell them apart."""
        from evenflow.dds.rows import RowWriter  # noqa: PLC0415 - Cyclone is loaded where it is used

        options = self._options
        key = (query, options.topic, options.domain, str(self._columns), str(options))
        if key not in _WRITERS:
            struct = _struct(options, self._columns)
            _WRITERS[key] = RowWriter(
                options.topic, struct, options.domain, options.policies, options.readers, options.patience_s
            )
        return _WRITERS[key]


class StreamToDds(_Rows, DataSourceStreamArrowWriter):
    """The writer of micro-batches."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of one task of a batch."""
        context = TaskContext.get()
        batch = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
        query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
        if batch is None or query is None:
            raise BadInput("a task without a batch id", "a micro-batch of a streaming query", WHERE)
        return self._write(query, int(batch), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Publish which rows of the batch are valid."""
        self._commit(batchId, messages)


class BatchToDds(_Rows, DataSourceArrowWriter):
    """The writer of one DataFrame as one batch."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return self._write("", self._number, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish which rows of the batch are valid."""
        self._commit(self._number, messages)


def _struct(options: WriteOptions, columns: Any) -> Any:
    """Return the DDS struct of the columns; reject a type that does not match them."""
    from evenflow.dds.domain import quality  # noqa: PLC0415
    from evenflow.dds.rows import BATCH  # noqa: PLC0415
    from evenflow.dds.wire.columns import load_type, schema_of, struct_of  # noqa: PLC0415
    from evenflow.dds.wire.idl import ENVELOPE  # noqa: PLC0415

    quality(options.policies)
    for name in (*ENVELOPE, BATCH):
        if name in columns.names:
            raise BadInput(f"a column {name!r}", f"other names than {', '.join((*ENVELOPE, BATCH))}", WHERE)
    if not options.type:
        return struct_of(columns, "Columns", WHERE)
    struct = load_type(options.type, f"{WHERE}, option type")
    wanted = {f.name: f.type for f in schema_of(struct) if f.name not in (*ENVELOPE, BATCH)}
    given = {f.name: f.type for f in columns}
    for name in [*wanted, *given]:
        if wanted.get(name) != given.get(name):
            one, other = (str(kinds.get(name, "missing")) for kinds in (given, wanted))
            raise BadInput(f"a column {name!r} of type {one}", other, f"{WHERE}, type {options.type}")
    return struct
