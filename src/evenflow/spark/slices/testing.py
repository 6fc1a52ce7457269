"""An in-memory plane to test process functions without a cluster: batches, moves, late installs and batches that run again.

It uses the same turns, orders and routes as the live plane. It does not cover Spark's own costs, sources and sinks,
types that Spark and Arrow represent differently, or anything about timing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from evenflow.invariants import compare
from evenflow.spark.kit.keys import Keys
from evenflow.spark.kit.orders import Order, due, moves, orders
from evenflow.spark.kit.routes import Entry, Routes
from evenflow.spark.kit.state_transfer import sealed, unsealed
from evenflow.spark.slices.assign import HASH, Assign
from evenflow.spark.slices.cells import by_slice, decode_state, encode_state, to_cell
from evenflow.spark.slices.correlation import Together, marked
from evenflow.spark.slices.keyed_state import KeyedState
from evenflow.spark.slices.per_key import PerKey
from evenflow.spark.slices.turn import Job, Process, Turn


class KeyMemory:
    """The storage of one key and the transfer of states, in memory."""

    def __init__(self, cargo: dict[int, bytes]) -> None:
        self.value: tuple[str, bytes] | None = None
        self.waiting: list[bytes] = []
        self.buckets: dict[int, bytes] = {}
        self.cargo = cargo

    def copied(self) -> KeyMemory:
        """Return a copy that shares only the cargo, like two attempts of a task."""
        other = KeyMemory(self.cargo)
        other.value, other.waiting, other.buckets = self.value, list(self.waiting), dict(self.buckets)
        return other

    def load(self) -> tuple[str, bytes] | None:
        """Return phase and state."""
        return self.value

    def save(self, phase: str, state: bytes) -> None:
        """Store phase and state."""
        self.value = (phase, state)

    def clear(self) -> None:
        """Delete phase and state."""
        self.value = None

    def hold(self, cell: bytes) -> None:
        """Append a batch's rows to the rows that wait."""
        self.waiting.append(cell)

    def held(self) -> list[bytes]:
        """Return the rows that wait, one cell per batch, and delete them."""
        found, self.waiting = self.waiting, []
        return found

    def bucket(self, number: int) -> bytes:
        """Return a bucket's content, empty if there is none."""
        return self.buckets.get(number, b"")

    def save_bucket(self, number: int, content: bytes) -> None:
        """Store a bucket; delete it if its content is empty."""
        self.buckets[number] = content
        if not content:
            del self.buckets[number]

    def drop_buckets(self) -> None:
        """Delete all buckets."""
        self.buckets.clear()

    def send(self, session: int, slice_id: int, state: bytes) -> None:
        """Store a state for the taker."""
        self.cargo[session] = sealed(session, slice_id, state)

    def receive(self, session: int, slice_id: int) -> bytes:
        """Return the state that the giver sent."""
        return unsealed(self.cargo[session], session, slice_id, f"session {session}")


class NotRepeatableError(AssertionError):
    """A batch gave another result when it ran again: after a crash, the sink could hold rows of both runs."""


class PlaneTester:
    """A test plane that runs a process function batch by batch.

    Parameters
    ----------
    update
        The function, as for ``process``.
    by
        Key column or columns.
    slices, lanes
        Number of slices and lanes.
    schema
        The declared output as an Arrow schema; ``None`` accepts any table.
    state
        Returns the initial state of a slice.
    keyed_above
        Divide a state of more bytes by key, as the live plane does for ``process_each``.
    correlate
        Call ``update(rows, state, others)``, as for ``process``.
    again
        Whether to run every batch twice from the same state, as after a crash; both runs must give the same result.

    Examples
    --------
    >>> def count(rows, n):
    ...     n = (n or 0) + rows.num_rows
    ...     return pa.table({"n": [n]}), n
    >>> plane = PlaneTester(count, by="device", slices=1)
    >>> plane.send([{"device": 1}, {"device": 2}]).to_pylist()
    [{'n': 2}]
    >>> plane.move({0: 1})
    >>> plane.send([{"device": 1}]).to_pylist(), plane.send([{"device": 1}]).to_pylist()
    ([{'n': 3}], [{'n': 4}])
    >>> plane.routes.lane
    [1]
    """

    def __init__(
        self,
        update: Process,
        by: str | Sequence[str],
        *,
        slices: int = 8,
        lanes: int = 2,
        schema: Any = None,
        state: Callable[[], Any] = lambda: None,
        keyed_above: int = 0,
        correlate: bool = False,
        again: bool = True,
    ) -> None:
        self.keys = Keys(slices, lanes)
        self.routes = Routes(slices, lanes, lanes)
        self.assign = Assign((by,) if isinstance(by, str) else tuple(by), slices, HASH)
        keys_of = update.keys_of if isinstance(update, PerKey) else Job.keys_of
        self.job = Job(update, state, schema, keyed_above=keyed_above, keys_of=keys_of)
        self.late = False  # while true, installs wait, and so do the rows of moving slices
        self.correlate = correlate
        self.again = again
        self.batch = 0
        self._memory: dict[int, KeyMemory] = {}
        self._cargo: dict[int, bytes] = {}
        self._wanted: list[tuple[int, int, str]] = []

    def move(self, moves: Mapping[int, int]) -> None:
        """Request that slices move with the next batch."""
        self._wanted += [(s, lane, "asked for") for s, lane in moves.items()]

    def send(self, rows: Any) -> Any:
        """Run one batch and return its output."""
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows))
        before = Routes.of(self.routes.plain())
        entries = due(self.routes, self.routes.version, self.batch, lambda session: self.late)
        after = self.routes.apply(entries)
        entries += moves(self._wanted, after, self.batch)
        self._wanted = []
        outputs = self._run(table, entries, before)
        self.batch += 1
        return pa.concat_tables(outputs) if outputs else pa.table({})

    def state(self, slice_id: int) -> Any:
        """Return a slice's current state; before the install, the state that the giver still has."""
        session = self.routes.moving().get(slice_id)
        lane = self.routes.lane[slice_id] if session is None or session.installed_at is not None else session.giver
        memory = self._memory.get(self.keys.key(slice_id, lane))
        encoded = b"" if memory is None or memory.value is None else memory.value[1]
        if memory is not None and KeyedState.is_header(encoded):
            encoded = KeyedState.opened(memory, encoded).packed()
        return decode_state(encoded, self.job.fresh)

    def _run(self, table: Any, entries: Iterable[Entry], before: Routes) -> list[Any]:
        told: dict[int, list[Order]] = {}
        for key, order in orders(entries, before, self.keys):
            told.setdefault(key, []).append(order)
        cells: dict[int, list[bytes]] = {}
        together = Together([]) if self.correlate else None
        if table.num_rows:
            ids = self.assign.of(table)
            cells = {self.keys.key(s, before.lane[s]): [to_cell(part)] for s, part in by_slice(table, ids)}
            together = Together([marked(table, ids)]) if self.correlate else None
        outputs = []
        for key in sorted({*told, *cells}):
            memory = self._memory.setdefault(key, KeyMemory(self._cargo))
            if self.again:  # discard the result of the first attempt, as a crash before the commit does
                lost = self._turn(key, memory.copied(), told.get(key, []), cells.get(key, []), together)
            output = self._turn(key, memory, told.get(key, []), cells.get(key, []), together)
            if self.again and not _same(lost, output):
                raise NotRepeatableError(
                    f"slice {self.keys.slice_of(key)}: batch {self.batch} differs when it runs again"
                )
            outputs += output
        return outputs

    def _turn(
        self, key: int, memory: KeyMemory, told: list[Order], cells: list[bytes], together: Together | None
    ) -> list[Any]:
        slice_id = self.keys.slice_of(key)
        home = self.keys.lane_of(key) == self.routes.home(slice_id)
        return Turn(self.job, slice_id, memory, memory, home=home, together=together).run(told, cells)


def _same(first: Sequence[Any], second: Sequence[Any]) -> bool:
    return len(first) == len(second) and all(a.equals(b) for a, b in zip(first, second, strict=True))


def check_moves(
    update: Process, batches: Sequence[Any], by: str | Sequence[str], *, seed: int = 0, **options: Any
) -> int:
    """Check that batches give the same result without moves and with random moves, late installs and repeated batches.

    Returns
    -------
    int
        The number of moves.

    Raises
    ------
    AssertionError
        When outputs or states differ between the two runs.
    """
    chance = random.Random(seed)
    quiet, restless = (PlaneTester(update, by, again=again, **options) for again in (False, True))
    plain: list[Any] = []
    moved: list[Any] = []
    for batch in [*batches, *[pa.table({})] * 3]:
        plain.append(quiet.send(batch))
        slices, lanes = quiet.keys.slices, quiet.keys.lanes
        restless.late = chance.random() < 0.3 and batch is not batches[-1] and len(moved) < len(batches)
        if len(moved) < len(batches):
            restless.move({s: chance.randrange(lanes) for s in chance.sample(range(slices), max(1, slices // 3))})
        moved.append(restless.send(batch))
    for slice_id in range(quiet.keys.slices):
        assert _state_bytes(quiet.state(slice_id)) == _state_bytes(restless.state(slice_id)), (
            f"slice {slice_id} differs"
        )
    first, second = (sorted(map(repr, (r for t in found for r in t.to_pylist()))) for found in (plain, moved))
    assert first == second, "the outputs differ"
    untouched = _state_bytes(PlaneTester(update, by, **options).state(0))
    states = [s for n in range(quiet.keys.slices) if (s := _state_bytes(quiet.state(n))) != untouched]
    compare([*first, *states], [*second, *states]).judged("check_moves")
    return restless.routes.next_session


def _state_bytes(state: Any) -> bytes:
    return encode_state(state)
