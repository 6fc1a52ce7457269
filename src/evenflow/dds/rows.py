"""Rows of batches on a topic: who writes them, and who reads each batch once.

A row is an item with one field more, the id of its batch. A batch may be written twice (a task is tried again, a query
starts again after a crash); when it is committed, a sample of the topic ``…_commits`` says which of its rows count.
"""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from cyclonedds.core import DDSException
from cyclonedds.idl import IdlStruct, make_idl_struct, types
from cyclonedds.pub import DataWriter
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from evenflow.dds.bus import Bus
from evenflow.dds.columns import hints_of, part_of, stripped
from evenflow.dds.decode import Decoder
from evenflow.dds.domain import participant, quality
from evenflow.dds.idl import ENVELOPE, item_type
from evenflow.dds.rows_idl import Commit
from evenflow.dds.types_on_wire import Publications
from evenflow.errors import BadInput
from evenflow.slices.ledger import item_id

BATCH = "batch"
REMEMBERED = 10_000  # batches; a query writes no older one again


class Written(NamedTuple):
    """The rows that one task wrote: numbers ``first`` to ``first + rows - 1`` of one publisher."""

    query: str
    publisher: int
    first: int
    rows: int


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
        self._publisher = secrets.randbits(22)
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
        if not writer.wait_for_acks(duration(seconds=max(self._patience_s, 0.001))):
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


@dataclass
class _Pending:
    """Rows of a batch that nobody has committed yet, by publisher and number."""

    rows: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)
    commit: Any = None


class Batches:
    """Hands over every committed batch once, whole and with the rows that count; see :func:`subscribe_batches`."""

    def __init__(
        self, topic: str, on_batch: Callable[[int, list[dict[str, Any]]], object], struct: Any, domain: int
    ) -> None:
        self._bus = Bus(domain)
        self._struct = row_type(struct)
        self._decoder = Decoder(self._struct)
        self._names = [n for n in self._decoder.schema.names if n not in ENVELOPE]
        self._rows, _ = self._bus.open(topic, self._struct)
        self._commits, _ = self._bus.open(commits_of(topic), Commit)
        self._publications = Publications(self._bus.participant, topic, self._struct, self._rows)
        self._on_batch = on_batch
        self._pending: dict[int, _Pending] = {}
        self._done: dict[tuple[str, int], None] = {}
        self.repeated = 0

    def poll(self, seconds: float = 0.1) -> int:
        """Wait for samples at most so long, and hand over what is complete; return how many batches.

        Raises
        ------
        BadInput
            When a publisher of the topic has another type.
        """
        self._bus.wait(seconds)
        self._publications.check()
        for sample in self._bus.take(self._rows):
            row = {name: _plain(getattr(sample, name)) for name in self._names}
            pending = self._pending.setdefault(sample.batch, _Pending())
            pending.rows[divmod(sample.item_id, 1 << 40)] = row
        for sample in self._bus.take(self._commits):
            if (sample.query, sample.batch) in self._done:
                self.repeated += 1
                self._pending.pop(sample.batch, None)  # written again after a crash of the query
            else:
                pending = self._pending.setdefault(sample.batch, _Pending())
                self.repeated += pending.commit is not None
                pending.commit = pending.commit or sample
        return sum(self._hand(batch) for batch in sorted(self._pending))

    def run(self, seconds: float) -> int:
        """Poll for so long; return how many batches were handed over."""
        end = time.monotonic() + seconds
        handed = 0
        while (left := end - time.monotonic()) > 0:
            handed += self.poll(min(0.1, left))
        return handed

    def _hand(self, batch: int) -> bool:
        pending = self._pending[batch]
        commit = pending.commit
        if commit is None:
            return False
        keys = [
            (publisher, number)
            for publisher, first, count in zip(commit.publishers, commit.firsts, commit.counts, strict=True)
            for number in range(first, first + count)
        ]
        if not all(key in pending.rows for key in keys):
            return False
        del self._pending[batch]
        self._done[commit.query, batch] = None
        if len(self._done) > REMEMBERED:
            del self._done[next(iter(self._done))]
        self._on_batch(batch, [pending.rows[key] for key in keys])
        return True


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


def _plain(value: Any) -> Any:
    if isinstance(value, IdlStruct):
        return {name: _plain(getattr(value, name)) for name in hints_of(type(value))}
    return [_plain(part) for part in value] if isinstance(value, list) else value
