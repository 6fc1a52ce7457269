"""Content-based matching on DataFrames: finds the subscriptions that each row matches, in batches and in streams.

Each Python worker loads the index once: from a file that Spark distributes, or from a directory of changing subscriptions.
The worker then keeps the index and reads only changes. Only public DataFrame APIs are used, so Spark Connect works too.
"""

from __future__ import annotations

import gc
import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkFiles, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name in Spark programs
from pyspark.sql import types as T  # noqa: N812 - as above
from pyspark.sql.utils import is_remote

from evenflow.errors import BadInput
from evenflow.spark.matching.event_reading import EventReader
from evenflow.spark.matching.subscription_log import LiveIndex, pinned_version, read_changes
from evenflow.subscriptions.columns import Predicates, read_lines
from evenflow.subscriptions.matching import Index

Output = Literal["list", "pairs", "counts"]
OUTPUTS = ("list", "pairs", "counts")
V = TypeVar("V")
_FAULTS_SHOWN = 5
_INDEXES_KEPT = 4


def match(
    events: DataFrame,
    subscriptions: DataFrame | Shipped | str | Path,
    *,
    output: Output = "list",
    keep: Sequence[str] | None = None,
    publication: str | None = None,
    types: Mapping[str, str] | None = None,
) -> DataFrame:
    """Find the subscriptions that each event matches.

    Parameters
    ----------
    events
        A batch or streaming DataFrame. Each column of strings or numbers is an attribute; null means a missing attribute.
    subscriptions
        A DataFrame with the columns ``id`` (strings or integers) and ``subscription`` (text), which this call reads once;
        or the result of :func:`ship`, to match several DataFrames without reading the subscriptions again;
        or a directory with lines ``+id<TAB>subscription`` and ``-id``. A stream reads the directory for every
        micro-batch, so appended lines take effect in the next one. A replayed batch sees the same lines as at first.
    output
        ``"list"``: a column ``matches`` with the ids, sorted by id (or in the order of the directory's lines).
        ``"counts"``: a column ``matches`` with the number of matches.
        ``"pairs"``: one row per match with a column ``subscription``. It returns many more rows, so use it only if needed.
    keep
        The columns of ``events`` to keep, by default all. Fewer columns mean less data to transfer.
    publication
        The column with the whole event as text, such as ``[class,'STOCK'],[volume,5]``, instead of one column per attribute.
    types
        Required types of attributes: ``{"volume": "number"}`` parses numbers that arrive as text.

    Returns
    -------
    DataFrame
        It also has a column ``error``: null, or the reason why the row cannot be read. Such a row has no matches.

    Raises
    ------
    BadInput
        If a subscription cannot be read (the message has the number of faults and shows the first), or an argument is wrong.

    Examples
    --------
    >>> import evenflow  # doctest: +SKIP
    >>> rules = spark.createDataFrame([(1, "[price,>,100]")], "id int, subscription string")  # doctest: +SKIP
    >>> evenflow.match(quotes, rules).select("symbol", "matches")  # doctest: +SKIP
    """
    if output not in OUTPUTS:
        raise BadInput(repr(output), "'list', 'pairs' or 'counts'", "match: output")
    reader = EventReader(publication, dict(types or {}))
    names = list(events.columns if keep is None else keep)
    _check_columns(events, names, publication, output)
    source, id_type = _source(events, subscriptions)
    counted = output == "counts"
    matches = T.LongType() if counted else T.ArrayType(id_type, containsNull=False)
    schema = T.StructType(
        [
            *(events.schema[name] for name in names),
            T.StructField("matches", matches),
            T.StructField("error", T.StringType()),
        ]
    )
    plain = events.toDF(
        *(f"c{place}" for place in range(len(events.columns)))
    )  # mapInArrow fails on dots in column names
    found = plain.mapInArrow(_Matching(source, reader, tuple(events.columns), tuple(names), counted), schema)
    if output != "pairs":
        return found
    some = found.where(F.col("error").isNotNull() | (F.size("matches") > 0))
    kept = [F.col("`" + name.replace("`", "``") + "`") for name in names]
    return some.select(*kept, F.explode_outer("matches").alias("subscription"), "error")


@dataclass(frozen=True)
class Shipped:
    """Subscriptions that were sent to the executors; :func:`match` accepts them instead of a DataFrame."""

    source: Source
    id_type: T.DataType


def ship(subscriptions: DataFrame, *, for_streams: bool = False) -> Shipped:
    """Read subscriptions and send them to the executors once, to match several DataFrames with them.

    Parameters
    ----------
    subscriptions
        A DataFrame of subscriptions, as for :func:`match`.
    for_streams
        Whether streams on Spark Connect will use them. Such streams do not find files that were sent before.
    """
    ids, predicates, id_type = _collected(subscriptions)
    return Shipped(_ship(subscriptions.sparkSession, ids, predicates, carried=for_streams and is_remote()), id_type)


def _check_columns(events: DataFrame, names: list[str], publication: str | None, output: str) -> None:
    for name in (*names, *([publication] if publication else [])):
        if name not in events.columns:
            raise BadInput(f"the column {name!r}", f"one of {', '.join(events.columns)}", "match: events")
    if len(set(events.columns)) < len(events.columns):
        raise BadInput("two columns of one name", "one column per attribute", "match: events")
    for name in ("subscription" if output == "pairs" else "matches", "error"):
        if name in names:
            raise BadInput(f"a column named {name!r}", "a name that match does not give itself", "match: events")


@dataclass(frozen=True)
class _Matching:
    """The function that runs in the Python workers."""

    source: Source
    reader: EventReader
    columns: tuple[str, ...]
    names: tuple[str, ...]
    counted: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        index = self.source.index()
        attributes = index.attributes()
        for batch in batches:
            good, events, dead = self.reader.read(batch.rename_columns(list(self.columns)), attributes)
            kept = good.select(list(self.names))
            found = index.match(events)
            if self.counted:
                yield self._rows(kept, pa.array(found.counts()))
            else:
                for first, offsets, ids in found.id_chunks():
                    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), ids)
                    yield self._rows(kept.slice(first, len(lists)), lists)
            if dead.num_rows:
                nothing = pa.nulls(dead.num_rows, pa.int64() if self.counted else pa.list_(found.ids.type))
                rows = dead.select([*self.names, "error"]).combine_chunks().to_batches()[0]
                yield self._rows(rows.select(list(self.names)), nothing, rows.column("error"))

    def _rows(self, kept: pa.RecordBatch, matches: pa.Array, error: pa.Array | None = None) -> pa.RecordBatch:
        reasons = pa.nulls(len(matches), pa.string()) if error is None else error
        return pa.RecordBatch.from_arrays([*kept.columns, matches, reasons], [*self.names, "matches", "error"])


_shipped: dict[str, Index] = {}
_live: dict[str, LiveIndex] = {}


def _remember(known: dict[str, V], key: str, make: Callable[[], V]) -> V:
    if key not in known:
        while len(known) >= _INDEXES_KEPT:
            known.pop(next(iter(known)))
        known[key] = make()
        gc.collect()
        gc.freeze()  # a worker runs the garbage collector after every task; exclude the index from it
    return known[key]


@dataclass(frozen=True)
class _File:
    """Subscriptions in a file that Spark copies to every executor; its name contains a hash of its content."""

    file: str

    def index(self) -> Index:
        return _remember(_shipped, self.file, lambda: _read(pa.OSFile(SparkFiles.get(self.file))))


@dataclass(frozen=True)
class _Carried:
    """Subscriptions that are part of the function, because streams on Spark Connect do not find the session's files."""

    name: str
    content: bytes

    def index(self) -> Index:
        return _remember(_shipped, self.name, lambda: _read(pa.BufferReader(self.content)))


@dataclass(frozen=True)
class _Directory:
    """A directory of subscriptions that may change; workers read it at the version of the micro-batch."""

    path: str

    def index(self) -> Index:
        context = TaskContext.get()
        assert context is not None
        query, batch = (
            context.getLocalProperty("sql.streaming.queryId"),
            context.getLocalProperty("streaming.sql.batchId"),
        )
        assert query is not None
        assert batch is not None
        version = pinned_version(Path(self.path), query, int(batch))
        return _remember(_live, self.path, lambda: LiveIndex(Path(self.path))).at(version)


Source = _File | _Carried | _Directory


def _source(events: DataFrame, subscriptions: DataFrame | Shipped | str | Path) -> tuple[Source, T.DataType]:
    if isinstance(subscriptions, DataFrame):
        subscriptions = ship(subscriptions, for_streams=events.isStreaming)
    if isinstance(subscriptions, Shipped):
        return subscriptions.source, subscriptions.id_type
    path = str(subscriptions)
    if events.isStreaming:
        return _Directory(str(Path(path.removeprefix("file://")).absolute())), T.StringType()
    ids, predicates = _read_directory(events.sparkSession, path)
    return _ship(events.sparkSession, ids, predicates, carried=False), T.StringType()


def _collected(subscriptions: DataFrame) -> tuple[pa.Array, Predicates, T.DataType]:
    missing = [name for name in ("id", "subscription") if name not in subscriptions.columns]
    if missing:
        given = ", ".join(subscriptions.columns)
        raise BadInput(f"the columns {given}", "the columns id and subscription", "match: subscriptions")
    if subscriptions.isStreaming:
        raise BadInput("a streaming DataFrame", "a batch DataFrame, or a directory that grows", "match: subscriptions")
    id_type = subscriptions.schema["id"].dataType
    if not isinstance(id_type, T.StringType | T.IntegerType | T.LongType):
        raise BadInput(f"ids of the type {id_type.simpleString()}", "string, int or bigint", "match: subscriptions")
    table = subscriptions.select("id", "subscription").toArrow().sort_by("id").combine_chunks()
    if table.column("id").null_count:
        raise BadInput("a null id", "an id for each subscription", "match: subscriptions")
    ids = table.column("id").combine_chunks()
    reading = read_lines(table.column("subscription").combine_chunks())
    if reading.faults:
        first = [f"{ids[row].as_py()!r} ({fault})" for row, fault in list(reading.faults.items())[:_FAULTS_SHOWN]]
        given = f"{len(reading.faults)} subscriptions that cannot be read, first {'; '.join(first)}"
        raise BadInput(given, "the subscription language", "match: subscriptions")
    if pc.count_distinct(ids).as_py() < len(ids):
        counted = pc.value_counts(ids)
        twice = counted.field("values").filter(pc.greater(counted.field("counts"), 1))[0].as_py()
        raise BadInput(f"the id {twice!r} twice", "one subscription per id", "match: subscriptions")
    return ids, reading.predicates, id_type


def _read_directory(spark: SparkSession, path: str) -> tuple[pa.Array, Predicates]:
    """Return the directory's current subscriptions; read it through Spark, as only the cluster may have access to the path."""
    files = spark.read.format("binaryFile").load(path).select("path", "content").toArrow().to_pylist()
    named = sorted((Path(file["path"]).name, file["content"]) for file in files)
    changes = read_changes((name, 0, content[: content.rfind(b"\n") + 1]) for name, content in named)
    if changes.faults:
        shown = "; ".join(map(str, changes.faults[:_FAULTS_SHOWN]))
        given = f"{len(changes.faults)} lines that cannot be read, first {shown}"
        raise BadInput(given, "+id, a tab and a subscription, or -id", "match: subscriptions")
    return pa.array(changes.ids, pa.string()), changes.predicates


def _ship(spark: SparkSession, ids: pa.Array, predicates: Predicates, *, carried: bool) -> _File | _Carried:
    """Write a compact file that Spark copies to every executor once, or return the content itself if ``carried``."""
    sink = pa.BufferOutputStream()
    batches = (pa.RecordBatch.from_arrays([ids], ["id"]), predicates.to_arrow())
    for batch in batches:
        with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_batch(batch)
    content = sink.getvalue().to_pybytes()
    name = f"subscriptions-{hashlib.sha256(content).hexdigest()[:32]}.arrow"
    if carried:
        return _Carried(name, content)
    file = Path(_outbox().name) / name
    if not file.exists():
        file.write_bytes(content)
    spark.addArtifacts(str(file), file=True)
    return _File(name)


@cache
def _outbox() -> tempfile.TemporaryDirectory[str]:
    """Create the directory from which executors fetch shipped files; it exists as long as this process."""
    return tempfile.TemporaryDirectory(prefix="evenflow-")


def _read(file: pa.NativeFile) -> Index:
    with file as source:
        tables = [pa.ipc.open_stream(source).read_all() for _ in range(2)]
    ids, columns = (table.combine_chunks() for table in tables)
    if not ids.num_rows:
        return Index.from_columns(ids.schema.empty_table().column("id").combine_chunks(), Predicates.of([]))
    return Index.from_columns(ids.to_batches()[0].column("id"), Predicates.from_arrow(columns.to_batches()[0]))
