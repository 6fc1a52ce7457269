"""One slice's turn in one batch: takes orders and rows, follows the hand-off table, and returns the output.

The table is :data:`evenflow.slices.handoff.TABLE`, which the simulator and the DDS driver use too.
Here one order stands for several events. They happen in one batch, which is atomic, so nothing comes between them.
Rows are processed before a release and after an install, so the lane that owns the slice always processes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from evenflow.errors import BadInput
from evenflow.slices.handoff import TABLE, Effect, Event, State, Table, advance
from evenflow.spark.kit.orders import EXPECT, RELEASE, Order
from evenflow.spark.kit.routes import INSTALL, RECEIPT
from evenflow.spark.kit.samples import Cost, stopwatch
from evenflow.spark.slices.cells import UnreadableStateError, decode_state, encode_state, of_cells, to_cell
from evenflow.spark.slices.correlation import Together
from evenflow.spark.slices.keyed_state import BucketMemory, KeyedState, bucket_of

EVENTS: Mapping[str, tuple[Event, ...]] = {
    RELEASE: (Event.STOPPED, Event.REMOVED, Event.SHIP_ORDERED),
    EXPECT: (Event.EXPECTED,),
    INSTALL: (Event.ARRIVED, Event.OPENED),
    RECEIPT: (Event.RECEIPTED,),
}


class Memory(BucketMemory, Protocol):
    """The storage of one key between batches."""

    def load(self) -> tuple[str, bytes] | None:
        """Return phase and state, or ``None`` for a key that was never used."""
        ...

    def save(self, phase: str, state: bytes) -> None:
        """Store phase and state."""
        ...

    def clear(self) -> None:
        """Delete phase and state."""
        ...

    def hold(self, cell: bytes) -> None:
        """Append a batch's rows to the rows that wait."""
        ...

    def held(self) -> list[bytes]:
        """Return the rows that wait, one cell per batch, and delete them."""
        ...


class Cargo(Protocol):
    """The transfer of a state from giver to taker."""

    def send(self, session: int, slice_id: int, state: bytes) -> None:
        """Write a state for the taker."""
        ...

    def receive(self, session: int, slice_id: int) -> bytes:
        """Return the state that the giver sent; raise an error rather than return any other state."""
        ...


Process = Callable[..., tuple[Any, Any]]
"""``(rows, state) -> (output, state)`` with Arrow tables; with ``correlate`` also ``others``."""


class StrayRowsError(Exception):
    """Rows reached a key that neither owns nor awaits their slice: continuing would lose or duplicate them."""


@dataclass(frozen=True)
class Job:
    """The processing that every slice applies to its rows.

    Parameters
    ----------
    process
        The application's function.
    fresh
        Returns the initial state of a slice.
    schema
        The declared output as an Arrow schema; ``None`` accepts any table.
    sift
        Set aside the rows on which the application fails, instead of failing.
    keyed_above, keys_of
        A state of more than ``keyed_above`` bytes (a dictionary by key) is divided by key; 0 never divides it.
        ``keys_of`` returns the keys of rows.
    table
        The hand-off table; it is sent along, so that every worker uses the same one.
    """

    process: Process
    fresh: Callable[[], Any] = lambda: None
    schema: Any = None
    sift: bool = False
    keyed_above: int = 0
    keys_of: Callable[[Any], Iterable[Any]] = lambda rows: ()
    table: Table = field(default_factory=lambda: dict(TABLE))
    stamp: Callable[[Any], Any] | None = None

    def call(self, rows: Any, encoded: bytes, slice_id: int, others: Any = None) -> Called:
        """Call the application with rows and state; return its output and the new state."""
        try:
            return Called(*self._attempt(rows, encoded, others), [])
        except UnreadableStateError:
            raise  # neither the function nor the rows are at fault: they must not become dead letters
        except Exception as error:
            if not self.sift:
                raise ProcessError(slice_id, rows, error) from error
            return self._sifted(rows, encoded, others, error)

    def _attempt(self, rows: Any, encoded: bytes, others: Any) -> tuple[Any, bytes]:
        # The state is decoded for each attempt: a function that fails may have changed the object it got.
        state = decode_state(encoded, self.fresh)
        output, state = self.process(rows, state) if others is None else self.process(rows, state, others)
        return conformed(output, self.schema), encode_state(state)

    def _sifted(self, rows: Any, encoded: bytes, others: Any, error: Exception) -> Called:
        """Split rows in halves until only the rows on which the application fails are left."""
        if rows.num_rows == 1:
            return Called(None, encoded, [(rows, f"{type(error).__name__}: {error}")])
        half = rows.num_rows // 2
        outputs, poison = [], []
        for part in (rows.slice(0, half), rows.slice(half)):
            try:
                output, encoded = self._attempt(part, encoded, others)
            except UnreadableStateError:
                raise
            except Exception as inner:  # noqa: BLE001 - the application may raise anything
                called = self._sifted(part, encoded, others, inner)
                output, encoded = called.output, called.encoded
                poison += called.poison
            if output is not None:
                outputs.append(output)
        return Called(pa.concat_tables(outputs) if outputs else None, encoded, poison)


class Called(NamedTuple):
    """The result of a call: output, new state, and the rows that failed, each with the reason."""

    output: Any
    encoded: bytes
    poison: list[tuple[Any, str]]


class ProcessError(Exception):
    """The application's function failed; the message names the slice and shows the first rows."""

    def __init__(self, slice_id: int, rows: Any, error: BaseException) -> None:
        sample = str(rows.slice(0, 3).to_pylist())
        super().__init__(
            f"slice {slice_id}, {rows.num_rows} rows: the process function raised {type(error).__name__}: {error}; "
            f"the first rows are {sample if len(sample) <= 600 else sample[:599] + '…'}"
        )


def conformed(output: Any, schema: Any) -> Any:
    """Return the output with the declared columns and types; reject an output that cannot be converted."""
    if output is None or schema is None:
        return output
    if isinstance(output, pa.RecordBatch):
        output = pa.Table.from_batches([output])
    if not isinstance(output, pa.Table):
        raise BadInput(f"an output of type {type(output).__name__}", "a pyarrow.Table or None", "process function")
    if output.schema.equals(schema):
        return output
    missing = [name for name in schema.names if name not in output.schema.names]
    if missing:
        given = ", ".join(output.schema.names) or "no columns"
        raise BadInput(f"columns {given}", f"the declared output, {', '.join(schema.names)}", "process function")
    try:
        return output.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise BadInput(f"{output.schema.to_string()} ({error})", schema.to_string(), "process function") from None


class Turn:
    """The turn of one slice on one lane in one batch.

    Parameters
    ----------
    job
        The processing of rows.
    slice_id, home
        The slice, and whether this key owns it at the beginning.
    memory, cargo
        The storage of the key, and the transfer of state.
    together
        The batch's rows of all slices, for an application that also sees the rows of other slices.
        The slice's own cells then contain no rows; they only mark that it has some.
    """

    def __init__(
        self, job: Job, slice_id: int, memory: Memory, cargo: Cargo, *, home: bool, together: Together | None = None
    ) -> None:
        self.job = job
        self.slice_id = slice_id
        self.home = home
        self.memory = memory
        self.cargo = cargo
        self.cost = Cost()
        self.phase = State.ABSENT
        self.output: list[Any] = []
        self.poison: list[tuple[Any, str]] = []
        self.together = together
        self.keyed: KeyedState | None = None
        self._encoded = b""
        self._cache: list[bytes] = []
        self._session = -1
        self._changed = False

    def run(self, orders: Iterable[Order], cells: Sequence[bytes]) -> list[Any]:
        """Carry out the orders, process or hold the rows, and return the application's output."""
        with stopwatch(self.cost):
            try:
                self._run(sorted(orders), cells)
            except UnreadableStateError as error:
                raise UnreadableStateError(
                    f"slice {self.slice_id}: {error}; the query stops before it can do harm"
                ) from error
        self.cost.state_bytes = len(self._encoded) if self.keyed is None else self.keyed.size
        return self.output

    def _run(self, orders: Sequence[Order], cells: Sequence[bytes]) -> None:
        self._wake()
        releasing = any(order.what == RELEASE for order in orders)
        if releasing:
            self._take(cells)
        for order in orders:
            self._session = order.session
            for event in EVENTS[order.what]:
                self._happen(event)
        if not releasing:
            self._take(cells)
        if self._changed:
            self._save()

    def _wake(self) -> None:
        known = self.memory.load()
        if known is not None:
            phase, self._encoded = known
            self.phase = State(phase)
            if KeyedState.is_header(self._encoded):
                self.keyed = KeyedState.opened(self.memory, self._encoded)
        elif self.home:
            self._happen(Event.GRANTED)

    def _happen(self, event: Event) -> None:
        row = advance(self.phase, event, self.job.table)
        self.phase = row.state
        self._changed = True
        for effect in row.effects:
            act = _EFFECTS.get(effect)
            if act is not None:
                act(self)

    def _take(self, cells: Sequence[bytes]) -> None:
        """Process, hold or reject a batch's rows, depending on the phase."""
        if self.phase is State.OWNING:
            # Each waiting batch is a separate call, so the application sees the same batches as without a move.
            waiting, self._cache = self._cache, []
            for cell in waiting:
                self._process(*self._apart([cell], None if self.together is None else Together([cell])))
            if cells or self.job.stamp is not None:  # a job with a clock is called without rows too: for its timers
                self._process(*self._apart(cells, self.together))
        elif cells:
            rows, _ = self._apart(cells, self.together)
            if self.phase is not State.AWAITING:
                raise StrayRowsError(
                    f"slice {self.slice_id}: {rows.num_rows} rows reached a lane on which it is {self.phase.value}"
                )
            # What the others had in this batch waits too: a late install must not change what the application sees.
            held = rows if self.job.stamp is None else self.job.stamp(rows)
            self.memory.hold(to_cell(held) if self.together is None else self.together.cell())
            self.cost.held_rows = rows.num_rows

    def _apart(self, cells: Sequence[bytes], together: Together | None) -> tuple[Any, Any]:
        """Return the slice's rows of a batch, and those of the other slices if the application sees them."""
        if together is not None:
            return together.apart(self.slice_id)
        return (of_cells(cells) if cells else pa.table({})), None

    def _process(self, rows: Any, others: Any) -> None:
        self.cost.rows += rows.num_rows
        if self.keyed is None:
            called = self.job.call(rows, self._encoded, self.slice_id, others)
            self._encoded = called.encoded
            if 0 < self.job.keyed_above < len(self._encoded):
                self.keyed = KeyedState.divided(self.memory, self._encoded)
        else:
            touched = sorted({bucket_of(key) for key in self.job.keys_of(rows)})
            called = self.job.call(rows, self.keyed.load(touched), self.slice_id, others)
            self.keyed.store(called.encoded, touched)
        if self.keyed is not None:
            self._encoded = self.keyed.header()
        self._changed = True
        self.poison += called.poison
        if called.output is not None and called.output.num_rows:
            self.output.append(called.output)

    def _save(self) -> None:
        if self.phase is State.ABSENT and not self.home:
            self.memory.clear()
        else:  # a home key must remember that it gave its slice away, or it would get it again
            self.memory.save(self.phase.value, self._encoded)

    # -- effects; the others need no code: routes open and close the flow, and the batch's commit is the receipt ---------

    def _send_cargo(self) -> None:
        state = self._encoded if self.keyed is None else self.keyed.packed()
        self.cargo.send(self._session, self.slice_id, state)

    def _merge(self) -> None:
        self._encoded = self.cargo.receive(self._session, self.slice_id)
        self._cache = self.memory.held()

    def _forget(self) -> None:
        self._encoded = b""
        if self.keyed is not None:
            self.memory.drop_buckets()
            self.keyed = None


_EFFECTS: Mapping[Effect, Callable[[Turn], None]] = {
    Effect.SEND_CARGO: Turn._send_cargo,  # noqa: SLF001 - methods of the class above
    Effect.MERGE: Turn._merge,  # noqa: SLF001
    Effect.FORGET: Turn._forget,  # noqa: SLF001
}
