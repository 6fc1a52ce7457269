"""Takes samples from a topic and puts them on disk, from a thread of its own, until so many wait that it stops taking.

Then Cyclone's reader fills, refuses what comes, and reliable writers wait: the backlog is bounded and nothing is dropped.
An item is acknowledged to its publisher when it is on disk, not when it is received.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from cyclonedds._clayer import ddspy_take  # the samples as octets: an object for each costs more than all the rest
from cyclonedds.core import DDSException, InstanceState, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from evenflow.dds.bus import ACKS
from evenflow.dds.domain import PATIENT, participant, quality, reliable
from evenflow.dds.remembered import ID, Items, Memory, Nothing, Samples
from evenflow.dds.segments import Piece, Segments
from evenflow.dds.wire.columns import is_item
from evenflow.dds.wire.decode import Decoder
from evenflow.dds.wire.fields import MOST_COST, MalformedError
from evenflow.dds.wire.idl import Acks
from evenflow.dds.wire.incoming import Incoming
from evenflow.dds.wire.types_on_wire import Publications
from evenflow.errors import BadInput
from evenflow.slices.ledger import ID_BITS

AT_ONCE = 1000  # samples of one call
HELD = 10_000  # samples that Cyclone's reader holds for us; it refuses more
LARGEST = 20_000  # rows of one file
LINGER_S = 0.05  # samples that come within so long share a file
CHECK_S = 0.25
_ANY = SampleState.Any | ViewState.Any | InstanceState.Any
_WAIT = duration(milliseconds=50)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to read and where to keep it.

    Parameters
    ----------
    kind
        The topic's type, a struct of IDL.
    keep
        From a record batch to a mask of the rows to keep; ``None`` keeps all.
    slice_of
        From a record batch to the slice of each row; ``None`` adds no slice.
    most
        Rows on disk at which taking stops.
    acknowledge
        Whether publishers of items are told what is on disk.
    """

    topic: str
    kind: Any
    domain: int
    journal: Path
    keep: Callable[[Any], Any] | None = None
    slice_of: Callable[[Any], Any] | None = None
    most: int = 1_000_000
    acknowledge: bool = True
    policies: dict[str, str] = field(default_factory=dict)


class Collector:
    """Runs from :meth:`start` to :meth:`stop`; what goes wrong in its thread is raised where somebody asks for rows."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.segments = Segments(wanted.journal)
        self.incoming = Incoming()
        self._decoder = Decoder(wanted.kind)
        try:
            self._memory = self._remembered()
        except (MalformedError, pa.ArrowException, KeyError, ValueError) as error:
            self.segments.close()
            given = f"files that cannot be read ({error})"
            raise BadInput(given, "a journal that evenflow wrote", f"journal '{wanted.journal}'") from error
        self._lock = threading.Lock()  # what is remembered and what is on disk change together
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dds-collector", daemon=True)
        self._failure: BaseException | None = None
        self._acks: Any = None
        self.repeated = 0
        self.arrived_at = time.monotonic()

    def start(self) -> None:
        """Join the domain and begin to take."""
        wanted = self.wanted
        bounded = wanted.policies.get("history", "keep_all") == "keep_all"
        qos = quality(wanted.policies, most=HELD if bounded else -1)
        self._participant = participant(wanted.domain, PATIENT)
        topic: Any = Topic(self._participant, wanted.topic, wanted.kind, qos=quality(wanted.policies))
        self._reader: Any = DataReader(self._participant, topic, qos=qos)
        self._publications = Publications(self._participant, wanted.topic, wanted.kind, self._reader)
        if wanted.acknowledge and is_item(wanted.kind):
            acks: Any = Topic(self._participant, ACKS, Acks, qos=reliable())
            self._acks = DataWriter(self._participant, acks, qos=reliable())
        self._waitset = WaitSet(self._participant)
        self._condition = ReadCondition(self._reader, _ANY)
        self._waitset.attach(self._condition)
        self._thread.start()

    def end(self) -> int:
        """Return how many rows there have ever been; they are all on disk.

        Raises
        ------
        BadInput
            What stopped the collector: a publisher of another type.
        """
        if self._failure is not None:
            raise self._failure
        with self._lock:
            return self.segments.end

    def pieces(self, start: int, end: int) -> list[Piece]:
        """Return where rows are."""
        with self._lock:
            return self.segments.pieces(start, end)

    def forget(self, end: int) -> None:
        """Delete what is committed."""
        with self._lock:
            gone = self.segments.forgettable(end)
            if gone:
                self.segments.forget(end, self._memory.saved(gone))

    def stop(self) -> None:
        """End the thread and let go of everything."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(10)
        self.incoming.tell(last=True)
        self.segments.close()

    def _remembered(self) -> Memory:
        wanted = self.wanted
        memory: Memory
        if is_item(wanted.kind):
            memory = Items(self.segments.saved)
        elif wanted.policies.get("durability") == "transient_local":
            memory = Samples(wanted.journal, self.segments.saved)
        else:
            return Nothing()
        for table in self.segments.rows():
            memory.recall(table)
        return memory

    def _run(self) -> None:
        try:
            check_at = 0.0
            while not self._stopping.is_set():
                now = time.monotonic()
                if now >= check_at:
                    check_at = now + CHECK_S
                    self._publications.check()
                    self._publications.check_quality()
                    self.incoming.tell()
                with self._lock:
                    room = self.wanted.most - (self.segments.end - self.segments.first)
                if room <= 0:
                    self._stopping.wait(0.02)
                    continue
                taken = self._take(min(room, LARGEST))
                if taken:
                    self.store(taken)
        except BaseException as error:  # noqa: BLE001 - it is raised again where Spark asks
            self._failure = error

    def _take(self, most: int) -> list[tuple[bytes, Any]]:
        """Wait for samples, then for a little while for more."""
        taken: list[tuple[bytes, Any]] = []
        until = time.monotonic() + LINGER_S
        while len(taken) < most and not self._stopping.is_set():
            found = ddspy_take(self._reader._ref, _ANY, min(AT_ONCE, most - len(taken)))  # noqa: SLF001
            if isinstance(found, int):
                raise DDSException(found, f"while taking from topic {self.wanted.topic!r}")
            taken += [sample for sample in found if sample[1].valid_data]
            left = until - time.monotonic()
            if left <= 0:
                break
            if not found:
                if not taken:
                    self._waitset.wait(_WAIT)
                    return []
                self._waitset.wait(duration(microseconds=max(1, int(left * 1e6))))
        return taken

    def store(self, taken: list[tuple[bytes, Any]]) -> None:
        """Put serialised samples on disk, each with what Cyclone says of it; what does not fit is dropped and counted."""
        wanted = self.wanted
        taken, batch = self._decoded(taken)
        ids = batch.column("item_id").to_pylist() if is_item(wanted.kind) else []
        if wanted.keep is not None:
            taken, batch = _kept(taken, batch, np.asarray(wanted.keep(batch), np.bool_))
        slices, placed = self._slices(batch)
        if not placed.all():
            lost = set(batch.filter(pa.array(~placed)).column("item_id").to_pylist()) if ids else set()
            ids = [item for item in ids if item not in lost]  # its publisher must not believe that it arrived
            taken, batch = _kept(taken, batch, placed)
        self.arrived_at = time.monotonic()
        with self._lock:
            new, identities = self._memory.new(taken, batch)
            self.repeated += len(new) - int(new.sum())
            rows = self._columns(batch, slices, identities).filter(pa.array(new))
            if rows.num_rows:
                self.segments.append(rows)
        if ids and self._acks is not None:
            self._acknowledge(ids)

    def _decoded(self, taken: list[tuple[bytes, Any]]) -> tuple[list[tuple[bytes, Any]], Any]:
        """Return the samples that fit, and their columns."""
        decoder, topic = self._decoder, self.wanted.topic
        try:
            batch = decoder.batch([data for data, _ in taken])
        except MalformedError:  # one of them; which one, only each by itself tells
            taken = list(self.incoming.admit(topic, taken, lambda sample: (decoder.batch([sample[0]]), sample)[1]))
            batch = decoder.batch([data for data, _ in taken])
        if not is_item(self.wanted.kind):
            return taken, batch
        right = _right_envelopes(batch)
        if not right.all():
            self.incoming.drop(topic, "an id, slice or cost that no item has", len(right) - int(right.sum()))
        return _kept(taken, batch, right)

    def _slices(self, batch: Any) -> tuple[Any, Any]:
        """Return the slice of each row that has one, if slices are wanted, and a mask of those rows."""
        assign = self.wanted.slice_of
        if assign is None:
            return None, np.ones(batch.num_rows, np.bool_)
        try:
            return np.asarray(assign(batch), np.int32), np.ones(batch.num_rows, np.bool_)
        except BadInput:  # one of them; which one, only each by itself tells
            placed = np.zeros(batch.num_rows, np.bool_)
            slices = []
            for row in range(batch.num_rows):
                try:
                    slices.append(int(np.asarray(assign(batch.slice(row, 1)))[0]))
                    placed[row] = True
                except BadInput as error:
                    self.incoming.drop(self.wanted.topic, str(error))
            return np.array(slices, np.int32), placed

    def _columns(self, batch: Any, slices: Any, identities: Any) -> Any:
        names, arrays = list(batch.schema.names), list(batch.columns)
        if slices is not None:
            if "slice" in names:
                arrays[names.index("slice")] = pa.array(slices)
            else:
                names, arrays = [*names, "slice"], [*arrays, pa.array(slices)]
        return pa.record_batch([*arrays, pa.array(identities, pa.int64())], names=[*names, ID])

    def _acknowledge(self, ids: list[int]) -> None:
        for at in range(0, len(ids), AT_ONCE):
            part: Any = ids[at : at + AT_ONCE]
            try:
                self._acks.write(Acks("spark", part))
            except DDSException as error:
                if error.code != DDSException.DDS_RETCODE_TIMEOUT:
                    raise  # a publisher that does not listen now writes again, and is told again


def _kept(taken: list[tuple[bytes, Any]], batch: Any, mask: Any) -> tuple[list[tuple[bytes, Any]], Any]:
    if mask.all():
        return taken, batch
    return [sample for sample, good in zip(taken, mask.tolist(), strict=True) if good], batch.filter(pa.array(mask))


def _right_envelopes(batch: Any) -> Any:
    """Say of each item what :func:`evenflow.dds.wire.fields.envelope` says, of all at once."""
    names = ("item_id", "settled", "slice", "cost")
    ids, settled, slices, cost = (batch.column(name).to_numpy(zero_copy_only=False) for name in names)
    numbers = ids & ((1 << ID_BITS) - 1)
    return (ids >= 0) & (settled >= 0) & (settled <= numbers) & (slices >= 0) & (cost >= 0.0) & (cost <= MOST_COST)
