"""Rows of batches on a topic: who writes them, and who reads each batch once.

A row is an item with one field more, the id of its batch. A batch may be written twice (a task is tried again, a query
starts again after a crash); when it is committed, a sample of the topic ``…_commits`` says which of its rows count.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from cyclonedds.core import DDSException
from cyclonedds.idl import IdlStruct, make_idl_struct, types
from cyclonedds.pub import DataWriter
from cyclonedds.topic import Topic

from evenflow.dds.bus import Bus
from evenflow.dds.domain import participant, quality, received
from evenflow.dds.results import draw_publisher
from evenflow.dds.wire.columns import hints_of, part_of, schema_of, stripped
from evenflow.dds.wire.fields import NUMBERS, PUBLISHERS, WIDEST, MalformedError, envelope, text, whole
from evenflow.dds.wire.idl import ENVELOPE, item_type
from evenflow.dds.wire.incoming import sample_of
from evenflow.dds.wire.rows_idl import Commit
from evenflow.dds.wire.types_on_wire import Publications
from evenflow.dds.wire.values import plain
from evenflow.errors import BadInput
from evenflow.slices.ledger import item_id, number_of, publisher_of

BATCH = "batch"
REMEMBERED = 10_000  # batches; a query writes no older one again


class Written(NamedTuple):
    """The rows that one task wrote: numbers ``first`` to ``first + rows - 1`` of one publisher."""

    query: str
    publisher: int
    first: int
    rows: int


class Key(NamedTuple):
    """One row."""

    publisher: int
    number: int


class Batch(NamedTuple):
    """One batch; queries number theirs from 0, each by itself."""

    query: str
    number: int


@cache
def row_type(struct: Any) -> Any:
    """Return the type of rows whose columns are the fields of a struct: an item with the batch's id before them."""
    fields = {name: hint for name, hint in hints_of(struct).items() if name not in ENVELOPE and name != BATCH}
    return make_idl_struct("Row", "evenflow.row", {**ENVELOPE, BATCH: types.int64, **fields})


class RowWriter:
    """One process's way out to one topic; made once, because to be found by readers takes a while.

    Parameters
    ----------
    struct
        The columns' struct; rows are of :func:`row_type`.
    readers
        How many batch-aware readers must be there before anything is written.
    """

    def __init__(
        self, topic: str, struct: Any, domain: int, policies: Mapping[str, str], readers: int, patience_s: float
    ) -> None:
        self._topic = topic
        self._struct = row_type(struct)
        self._hints = [(n, h) for n, h in hints_of(self._struct).items() if n not in ENVELOPE and n != BATCH]
        self._readers = readers
        self._patience_s = patience_s
        self._publisher = draw_publisher()
        self._next = 0
        self._participant = participant(domain)
        qos = quality(policies)
        data: Any = Topic(self._participant, topic, self._struct, qos=qos)
        commits: Any = Topic(self._participant, commits_of(topic), Commit, qos=quality())
        self._data: Any = DataWriter(self._participant, data, qos=qos)
        self._commits: Any = DataWriter(self._participant, commits, qos=quality())

    def write(self, query: str, batch: int, rows: Iterator[Mapping[str, Any]]) -> Written:
        """Write the rows of one task; when this returns every reader has received them.

        Raises
        ------
        TimeoutError
            When the readers are not there, or do not read.
        BadInput
            When a value cannot travel, naming the column.
        """
        self._wait_for_readers(self._data)
        first = self._next
        for row in rows:
            values = [object_of(hint, row[name], name) for name, hint in self._hints]
            sample = self._struct(item_id(self._publisher, self._next), self._next, 0, 1.0, batch, *values)
            self._put(self._data, sample)
            self._next += 1
        self._wait_for_receipt(self._data)
        return Written(query, self._publisher, first, self._next - first)

    def commit(self, batch: int, written: Sequence[Written]) -> None:
        """Say which rows of a batch count."""
        if not written:
            return
        self._wait_for_readers(self._commits)
        columns: Any = [[w.publisher for w in written], [w.first for w in written], [w.rows for w in written]]
        self._put(self._commits, Commit(written[0].query, batch, *columns))
        self._wait_for_receipt(self._commits)

    def _put(self, writer: Any, sample: Any) -> None:
        end = time.monotonic() + self._patience_s
        while True:
            try:
                writer.write(sample)
            except DDSException as error:
                if error.code != DDSException.DDS_RETCODE_TIMEOUT:
                    raise
                if time.monotonic() > end:
                    msg = f"a reader of topic {self._topic!r} is full and does not read (waited {self._patience_s:g} s)"
                    raise TimeoutError(msg) from error
            else:
                return

    def _wait_for_readers(self, writer: Any) -> None:
        end = time.monotonic() + self._patience_s
        while len(writer.get_matched_subscriptions()) < self._readers:
            if time.monotonic() > end:
                msg = f"fewer than {self._readers} readers of the rows of topic {self._topic!r} (waited {self._patience_s:g} s)"
                raise TimeoutError(msg)
            time.sleep(0.02)

    def _wait_for_receipt(self, writer: Any) -> None:
        if not received(writer, max(self._patience_s, 0.001)):
            msg = f"not every reader of topic {self._topic!r} received everything within {self._patience_s:g} s"
            raise TimeoutError(msg)


def commits_of(topic: str) -> str:
    """Return the name of the topic that says which rows count."""
    return f"{topic}_commits"


def object_of(given: Any, value: Any, where: str) -> Any:
    """Return a value of Arrow as one of IDL.

    Raises
    ------
    BadInput
        When it is null: IDL knows none.
    """
    hint, optional = stripped(given)
    if value is None:
        if optional:
            return None
        raise BadInput("a null", "a value: DDS knows no nulls", f"column {where!r}")
    if isinstance(hint, type) and issubclass(hint, IdlStruct):
        return hint(*(object_of(part, value[name], f"{where}.{name}") for name, part in hints_of(hint).items()))
    part = part_of(hint)
    if isinstance(part, (types.sequence, types.array)):
        return list(value) if isinstance(value, bytes) else [object_of(part.subtype, v, f"{where}[]") for v in value]
    return int(value) if part == "uint64" else value


class Batches:
    """Hands over every committed batch once, whole and with the rows that count; see :func:`subscribe_batches`.

    Several queries may write to one topic: a commit names its query, and the rows of it by publisher and number.
    Rows that no commit names (of a task that was tried again) are forgotten when another commit of their query shows
    whose publisher they are.
    """

    def __init__(
        self, topic: str, on_batch: Callable[[int, list[dict[str, Any]]], object], struct: Any, domain: int
    ) -> None:
        self._bus = Bus(domain)
        self._topic = topic
        self._struct = row_type(struct)
        self._names = [n for n in schema_of(self._struct).names if n not in ENVELOPE]
        self._row_reader, _ = self._bus.open(topic, self._struct)
        self._commit_reader, _ = self._bus.open(commits_of(topic), Commit)
        self._publications = Publications(self._bus.participant, topic, self._struct, self._row_reader)
        self._on_batch = on_batch
        self._rows: dict[Key, dict[str, Any]] = {}  # not committed yet
        self._commits: dict[Batch, list[Written]] = {}  # of which rows are missing
        self._query_of: dict[int, str] = {}  # publisher → query
        self._done: dict[Batch, None] = {}
        self.repeated = 0

    @property
    def dropped(self) -> int:
        """How many samples did not fit and were dropped."""
        return self._bus.incoming.total

    def poll(self, seconds: float = 0.1) -> int:
        """Wait for samples at most so long, and hand over what is complete; return how many batches.

        Raises
        ------
        BadInput
            When a publisher of the topic has another type.
        """
        self._bus.wait(seconds)
        self._publications.check()
        self._rows.update(self._bus.take(self._row_reader, self._topic, self._row))
        for batch, keys in self._bus.take(self._commit_reader, commits_of(self._topic), read_commit):
            self._committed(batch, keys)
        self._bus.incoming.tell()
        return sum(self._hand(batch) for batch in sorted(self._commits, key=lambda batch: batch.number))

    def run(self, seconds: float) -> int:
        """Poll for so long; return how many batches were handed over."""
        end = time.monotonic() + seconds
        handed = 0
        while (left := end - time.monotonic()) > 0:
            handed += self.poll(min(0.1, left))
        return handed

    def _row(self, data: bytes) -> tuple[Key, dict[str, Any]]:
        sample = sample_of(self._struct, data)
        envelope(sample.item_id, sample.settled, sample.slice, sample.cost)
        key = Key(publisher_of(sample.item_id), number_of(sample.item_id))
        return key, {name: plain(getattr(sample, name)) for name in self._names}

    def _committed(self, batch: Batch, parts: list[Written]) -> None:
        self._query_of.update((part.publisher, batch.query) for part in parts)
        if batch in self._done or batch in self._commits:
            self.repeated += 1  # written again after a crash of the query
        else:
            self._commits[batch] = parts
        self._forget()

    def _hand(self, batch: Batch) -> bool:
        parts = self._commits[batch]
        if sum(part.rows for part in parts) > len(self._rows):
            return False
        keys = [Key(part.publisher, part.first + i) for part in parts for i in range(part.rows)]
        if not all(key in self._rows for key in keys):
            return False
        del self._commits[batch]
        self._done[batch] = None
        if len(self._done) > REMEMBERED:
            del self._done[next(iter(self._done))]
        rows = [self._rows.pop(key) for key in keys]
        self._forget()
        self._on_batch(batch.number, rows)
        return True

    def _forget(self) -> None:
        """Forget rows of batches that are done."""
        for key, row in list(self._rows.items()):
            query = self._query_of.get(key.publisher)
            if query is not None and Batch(query, row[BATCH]) in self._done:
                del self._rows[key]


def read_commit(data: bytes) -> tuple[Batch, list[Written]]:
    """Read a sample of the topic that says which rows count.

    Raises
    ------
    MalformedError
        When it names rows that cannot be, or a row twice.
    """
    sample = sample_of(Commit, data)
    if not len(sample.publishers) == len(sample.firsts) == len(sample.counts):
        raise MalformedError("a commit whose lists have other lengths")
    parts = [
        Written(text(sample.query), whole(p, 0, PUBLISHERS - 1), whole(f, 0, NUMBERS - 1), whole(c, 0, NUMBERS - f))
        for p, f, c in zip(sample.publishers, sample.firsts, sample.counts, strict=True)
    ]
    ordered = sorted(part for part in parts if part.rows)
    for before, after in pairwise(ordered):
        if before.publisher == after.publisher and before.first + before.rows > after.first:
            raise MalformedError(f"a commit that names row {after.first} of publisher {after.publisher} twice")
    return Batch(sample.query, whole(sample.batch, -WIDEST)), parts


def subscribe_batches(
    topic: str,
    on_batch: Callable[[int, list[dict[str, Any]]], object],
    *,
    type: type,  # noqa: A002 - the word of the topic
    domain: int = 0,
) -> Batches:
    """Read what ``df.writeStream.format("dds")`` writes: ``on_batch(batch, rows)`` gets every committed batch once.

    Parameters
    ----------
    type
        A dataclass with the stream's columns, in their order.

    Raises
    ------
    BadInput
        When the type cannot travel.
    """
    if not dataclasses.is_dataclass(type):
        raise BadInput(repr(type), "a dataclass", "type of a topic")
    struct = type if issubclass(type, IdlStruct) else item_type(type)
    return Batches(topic, on_batch, struct, domain)
