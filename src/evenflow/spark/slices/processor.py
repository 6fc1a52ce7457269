"""The slice processor: runs a slice's turn on Spark's state store, one group per key and batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from evenflow.spark.kit.orders import Order
from evenflow.spark.kit.plane import Plane, homes
from evenflow.spark.kit.samples import Meter
from evenflow.spark.kit.state_transfer import Ship
from evenflow.spark.kit.storage import Storage
from evenflow.spark.slices.cells import to_cell
from evenflow.spark.slices.correlation import Together
from evenflow.spark.slices.dead_letters import write_letters
from evenflow.spark.slices.pack import batch_id
from evenflow.spark.slices.turn import Job, Turn

SLICE_STATE: Final = "phase string, state binary"
HELD_STATE: Final = "cell binary"
BUCKET_KEY: Final = "number int"
BUCKET_STATE: Final = "content binary"


class SparkMemory:
    """The storage of a key in Spark: one value for phase and state, and a list that only a waiting slice uses."""

    def __init__(self, handle: StatefulProcessorHandle, *, keyed: bool) -> None:
        self._slice = handle.getValueState("slice", SLICE_STATE)
        self._held = handle.getListState("held", HELD_STATE)
        self._buckets = handle.getMapState("buckets", BUCKET_KEY, BUCKET_STATE) if keyed else None

    def load(self) -> tuple[str, bytes] | None:
        """Return phase and state, or ``None`` for a key that was never used."""
        found = self._slice.get()
        return None if found is None else (found[0], bytes(found[1]))

    def save(self, phase: str, state: bytes) -> None:
        """Store phase and state."""
        self._slice.update((phase, state))

    def clear(self) -> None:
        """Delete phase and state."""
        self._slice.clear()

    def hold(self, cell: bytes) -> None:
        """Append a batch's rows to the rows that wait."""
        self._held.appendValue((cell,))

    def held(self) -> list[bytes]:
        """Return the rows that wait, one cell per batch, and delete them."""
        found = [bytes(cell) for (cell,) in self._held.get()] if self._held.exists() else []
        if found:
            self._held.clear()
        return found

    def bucket(self, number: int) -> bytes:
        """Return a bucket's content, empty if there is none."""
        found = None if self._buckets is None else self._buckets.getValue((number,))
        return b"" if found is None else bytes(found[0])

    def save_bucket(self, number: int, content: bytes) -> None:
        """Store a bucket; delete it if its content is empty."""
        assert self._buckets is not None
        if content:
            self._buckets.updateValue((number,), (content,))
        else:
            self._buckets.removeKey((number,))

    def drop_buckets(self) -> None:
        """Delete all buckets."""
        if self._buckets is not None:
            self._buckets.clear()


class SliceProcessor(StatefulProcessor):
    """The processor for ``transformWithState``: passes each key's rows and orders to its slice's turn."""

    def __init__(self, plane: Plane, job: Job, *, letters: str = "", correlate: bool = False) -> None:
        self._plane = plane
        self._job = job
        self._letters = letters
        self._correlate = correlate
        self._memory: SparkMemory | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state variables and prepare the task."""
        self._memory = SparkMemory(handle, keyed=self._job.keyed_above > 0)
        self._ship = Ship(self._plane.place)
        self._keys = self._plane.keys
        self._meter = Meter()
        self._lane = -1
        self._together = Together([]) if self._correlate else None
        self._batch = batch_id()

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 - Spark's names
        """Process one key's rows of one batch."""
        assert self._memory is not None
        orders, cells = [], []
        for row in rows:
            if row.what is None:
                cells.append((row.part, row.number, bytes(row.cell)))
                self._batch = row.session
            else:
                orders.append(Order(row.number, row.what, row.session))
        cells.sort(key=lambda cell: cell[:2])
        if key[0] < 0:  # the lane's own key, which comes first and has the rows of all slices
            self._together = Together([cell for _, _, cell in cells])
            return iter([])
        slice_id = self._keys.slice_of(key[0])
        self._lane = self._keys.lane_of(key[0])
        home = self._lane == homes(self._plane)[slice_id]
        turn = Turn(self._job, slice_id, self._memory, self._ship, home=home, together=self._together)
        output = turn.run(orders, [cell for _, _, cell in cells])
        if turn.poison:
            assert self._batch is not None  # rows have arrived, and they carry it
            write_letters(Storage(self._letters), self._batch, slice_id, turn.poison)
        self._meter.add(slice_id, turn.cost)
        return iter([Row(cell=to_cell(table)) for table in output])

    def close(self) -> None:
        """Write the task's sample, if it ran any turn."""
        if self._lane >= 0 and self._batch is not None:
            self._meter.write(self._plane.place, self._batch, self._lane)
