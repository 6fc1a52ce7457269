"""The matching engine: find which of many subscriptions each event matches, many events at a time.

An index has one large compiled segment, small segments of later additions, and marks for removals;
when additions and removals exceed 5 % of the whole, it is compiled again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from itertools import groupby
from types import ModuleType
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.errors import BadInput
from evenflow.subscriptions import kernels_numpy
from evenflow.subscriptions.columns import Predicates
from evenflow.subscriptions.decompile import decompile
from evenflow.subscriptions.events import EventColumns
from evenflow.subscriptions.language import Publication, Subscription
from evenflow.subscriptions.result import Matches
from evenflow.subscriptions.segment import Segment, compile_segment

Engine = Literal["auto", "numpy", "numba"]
Id = str | int
REBUILD_SHARE = 0.05
REBUILD_LEAST = 4096
GROWTH = (
    4  # each segment of additions is at least this many times as large as the next: every segment costs time per match
)
_COMPILED_FROM = 4096  # below this, loading the compiled kernels costs more than they save


def fastest_engine() -> Engine:
    """Return the engine for an index that is used for a long time: loading the kernels pays off at any size."""
    return "numba" if find_spec("numba") is not None else "numpy"


def kernels_for(engine: Engine, size: int) -> ModuleType:
    """Return the kernels of an engine; ``auto`` means compiled ones for a large index if numba is installed."""
    if engine == "numpy" or (engine == "auto" and (size < _COMPILED_FROM or find_spec("numba") is None)):
        return kernels_numpy
    if engine in ("auto", "numba"):
        from evenflow.subscriptions import kernels_numba  # noqa: PLC0415 - numba is optional, and slow to load

        return kernels_numba
    raise BadInput(repr(engine), "'auto', 'numpy' or 'numba'", "engine")


class Index:
    """A set of subscriptions that events are matched against.

    Parameters
    ----------
    subscriptions
        Pairs of an id and a subscription; no id may occur twice.
    engine
        ``"numpy"``, ``"numba"`` (needs the extra ``fast``) or ``"auto"``. All give the same results.

    Examples
    --------
    >>> from evenflow.subscriptions.language import parse_subscription
    >>> index = Index([("7", parse_subscription("[class,eq,'STOCK'],[volume,>,300000]"))])
    >>> index.add("12", parse_subscription("[volume,isPresent,0]"))
    >>> index.match([{"class": "STOCK", "volume": 400000}, {"volume": 1}, {}]).lists().to_pylist()
    [['7', '12'], ['12'], []]
    """

    def __init__(self, subscriptions: Iterable[tuple[Id, Subscription]] = (), *, engine: Engine = "auto") -> None:
        pairs = list(subscriptions)
        self._start(_id_array([name for name, _ in pairs]), Predicates.of(pair[1] for pair in pairs), engine)

    @classmethod
    def from_columns(cls, ids: pa.Array | Sequence[Id], predicates: Predicates, *, engine: Engine = "auto") -> Index:
        """Build an index from columns, which is fast enough for millions (see :func:`columns.read_lines`).

        Parameters
        ----------
        ids
            One id for each subscription, strings or integers.
        """
        index = cls.__new__(cls)
        index._start(_id_array(ids), predicates, engine)  # noqa: SLF001 - its own class
        return index

    def _start(self, ids: pa.Array, predicates: Predicates, engine: Engine) -> None:
        kernels_for(engine, 0)
        if len(ids) != predicates.count:
            raise BadInput(f"{len(ids)} ids for {predicates.count} subscriptions", "one id each", "Index")
        ascending = len(ids) < 2 or pc.all(pc.less(ids[:-1], ids[1:])).as_py()
        if not ascending and pc.count_distinct(ids).as_py() < len(ids):
            counted = pc.value_counts(ids)
            twice = counted.field("values").filter(pc.greater(counted.field("counts"), 1))[0].as_py()
            raise BadInput(f"the id {twice!r} twice", "one subscription per id", "Index")
        self._engine: Engine = engine
        self._ids = ids
        self._numbers: dict[Id, int] | None = None
        self._size = len(ids)  # numbers assigned so far; the last ones may not be compiled yet
        self._alive = np.ones(len(ids), dtype=bool)
        self._alive_shared = False
        self._dead = 0
        self._base = compile_segment(predicates, np.arange(len(ids), dtype=np.int32))
        self._deltas: list[Segment] = []
        self._added: list[Predicates] = []  # the source of the deltas
        self._waiting: list[Predicates | Subscription] = []
        self._waiting_ids: list[Id] = []

    def __len__(self) -> int:
        return self._size - self._dead

    def __contains__(self, name: Id) -> bool:
        return name in self._number_of()

    @property
    def nbytes(self) -> int:
        """The size of the compiled arrays and the ids."""
        return int(sum(segment.nbytes for segment in self._segments()) + self._ids.nbytes + self._alive.nbytes)

    def ids(self) -> list[Id]:
        """Return the ids in the order of their addition."""
        self._flush()
        return list(self._ids.filter(pa.array(self._alive[: self._size])).to_pylist())

    def attributes(self) -> list[str]:
        """Return the attributes that some subscription names."""
        self._flush()
        return list(dict.fromkeys(axis.attribute for segment in self._segments() for axis in segment.axes))

    def add(self, name: Id, subscription: Subscription) -> None:
        """Add a subscription; the next :meth:`match` includes it.

        Raises
        ------
        BadInput
            If the id is taken, or its type differs from that of the others.
        """
        self._claim([name])
        self._waiting.append(subscription)

    def add_many(self, ids: pa.Array | Sequence[Id], predicates: Predicates) -> None:
        """Add many subscriptions at once, as columns."""
        if len(ids) != predicates.count:
            raise BadInput(f"{len(ids)} ids for {predicates.count} subscriptions", "one id each", "add_many")
        if self._numbers is None and self._size and len(ids):
            self._claim_column(ids)
        else:
            self._claim(ids.to_pylist() if isinstance(ids, pa.Array) else ids)
        self._waiting.append(predicates)

    def remove(self, name: Id) -> None:
        """Remove a subscription.

        Raises
        ------
        BadInput
            If there is no subscription with this id.
        """
        number = self._number_of().pop(name, None)
        if number is None:
            raise BadInput(f"the id {name!r}", "the id of a subscription that is there", "remove")
        if self._alive_shared:  # an earlier result still uses the marks
            self._alive, self._alive_shared = self._alive.copy(), False
        self._alive[number] = False
        self._dead += 1

    def match(self, events: pa.RecordBatch | pa.Table | Iterable[Publication] | EventColumns) -> Matches:
        """Return the subscriptions that each event matches.

        Parameters
        ----------
        events
            A record batch or a table with one column per attribute, or publications.
            Null and NaN are missing; strings and numbers are never converted into each other.
        """
        self._flush()
        self._alive_shared = True
        alive = self._alive[: self._size] if self._dead else None
        columns = events if isinstance(events, EventColumns) else EventColumns.of(events)
        return Matches(self._segments(), self._ids, alive, columns, kernels_for(self._engine, len(self)))

    def _segments(self) -> list[Segment]:
        return [self._base, *self._deltas]

    def _number_of(self) -> dict[Id, int]:
        """Return the number of each id; the table is built at its first use, which an index that never changes avoids."""
        if self._numbers is None:
            alive = self._alive.tolist()
            names = self._ids.to_pylist()
            self._numbers = {name: number for number, name in enumerate(names) if alive[number]}
        return self._numbers

    def _claim(self, ids: Sequence[Id]) -> None:
        """Assign numbers to new ids."""
        numbers = self._number_of()
        kind: type[Id] = str if pa.types.is_string(self._ids.type) else int
        if self._size == 0 and len(ids):
            kind = type(ids[0])
            self._ids = self._ids.cast(pa.string() if kind is str else pa.int64())
        new = dict(zip(ids, range(self._size, self._size + len(ids)), strict=True))
        if wrong := set(map(type, new)) - {kind}:
            name = next(name for name in new if type(name) in wrong)
            raise BadInput(f"the id {name!r}", f"ids of one type, here {kind.__name__}", "add")
        if len(new) < len(ids) or not numbers.keys().isdisjoint(new):
            twice = next((name for name in new if name in numbers), None)
            raise BadInput(
                "an id twice" if twice is None else f"the id {twice!r} twice", "one subscription per id", "add"
            )
        numbers.update(new)
        self._waiting_ids.extend(ids)
        self._grow(len(ids))

    def _claim_column(self, ids: pa.Array | Sequence[Id]) -> None:
        """Assign numbers to many new ids without the table of all ids, which would cost more than one bulk look-up."""
        self._keep_ids()
        try:
            new = _id_array(ids)
        except (pa.ArrowException, BadInput):
            return self._claim(list(ids))  # raises an error that names the id of the other type
        if pa.types.is_string(new.type) != pa.types.is_string(self._ids.type):
            return self._claim(new.to_pylist())
        ids, new = _alike(self._ids, new)
        alive = ids.filter(pa.array(self._alive[: self._size])) if self._dead else ids
        if pc.count_distinct(new).as_py() < len(new) or _meet(alive, new):
            return self._claim(new.to_pylist())  # raises an error that names the id that is taken
        self._ids = pa.concat_arrays([ids, new])
        return self._grow(len(new))

    def _grow(self, count: int) -> None:
        """Make room for ``count`` more subscriptions, all of them alive."""
        self._size += count
        if self._size > len(self._alive):
            grown = np.ones(max(self._size, len(self._alive) * 5 // 4), dtype=bool)
            grown[: len(self._alive)] = self._alive
            self._alive, self._alive_shared = grown, False

    def _keep_ids(self) -> None:
        """Append the waiting ids to the column of all ids."""
        if self._waiting_ids:
            self._ids = pa.concat_arrays(_alike(self._ids, _id_array(self._waiting_ids)))
            self._waiting_ids = []

    def _flush(self) -> None:
        """Compile what is waiting: alone, with deltas that are not much larger, or with everything if there were many changes."""
        if self._waiting:
            self._keep_ids()
            self._added.append(Predicates.concat(_lay_out_waiting(self._waiting)))
            self._waiting = []
        if sum(part.count for part in self._added) + self._dead > self._rebuild_at() or 2 * self._dead > self._size:
            self._rebuild()
        while len(self._added) > 1 and self._added[-2].count < GROWTH * self._added[-1].count:
            self._added[-2:] = [Predicates.concat(self._added[-2:])]
            del self._deltas[len(self._added) - 1 :]
        for part in self._added[len(self._deltas) :]:
            first = self._size - sum(later.count for later in self._added[len(self._deltas) :])
            self._deltas.append(compile_segment(part, np.arange(first, first + part.count, dtype=np.int32)))

    def _rebuild_at(self) -> int:
        return max(REBUILD_LEAST, int(REBUILD_SHARE * self._size))

    def _rebuild(self) -> None:
        alive = self._alive[: self._size]
        old, numbers, first = decompile(self._base, alive)
        parts = [old]
        if self._added:
            added = Predicates.concat(self._added)
            wanted = np.arange(self._size - added.count, self._size)
            kept = np.flatnonzero(alive[wanted])
            parts.append(added.only(kept))
            numbers = np.concatenate([numbers, wanted[kept].astype(np.int32)])
            first = np.concatenate([first, first[-1] + 1 + np.arange(len(kept))])
        fresh = np.cumsum(alive, dtype=np.int32) - 1
        self._base = compile_segment(Predicates.concat(parts), fresh[numbers], first)
        self._ids = self._ids.filter(pa.array(alive))
        self._size = len(self._ids)
        self._alive, self._alive_shared, self._dead = np.ones(self._size, dtype=bool), False, 0
        self._deltas, self._added, self._numbers = [], [], None


def _lay_out_waiting(waiting: Iterable[Predicates | Subscription]) -> list[Predicates]:
    """Return the waiting subscriptions as columns; consecutive single ones share a table."""
    parts: list[Predicates] = []
    for single, group in groupby(waiting, lambda part: isinstance(part, Subscription)):
        if single:
            parts.append(Predicates.of(part for part in group if isinstance(part, Subscription)))
        else:
            parts += [part for part in group if isinstance(part, Predicates)]
    return parts


def _alike(old: pa.Array, new: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return both columns of ids with one type; 32-bit integers stay 32-bit if the new ones fit."""
    if old.type == new.type:
        return old, new
    try:
        return old, new.cast(old.type)
    except pa.ArrowInvalid:
        return old.cast(new.type), new


def _meet(old: pa.Array, new: pa.Array) -> bool:
    """Return whether some id is in both; fast for ascending integers."""
    if pa.types.is_integer(old.type) and len(old) and pc.min(new).as_py() > pc.max(old).as_py():
        return False
    return bool(pc.any(pc.is_in(old, new)).as_py())


def _id_array(ids: pa.Array | Sequence[Id]) -> pa.Array:
    array = ids if isinstance(ids, pa.Array) else pa.array(ids if len(ids) else [], None if len(ids) else pa.string())
    if pa.types.is_integer(array.type):
        return array if array.type in (pa.int32(), pa.int64()) else array.cast(pa.int64())
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return array.cast(pa.string())
    raise BadInput(f"ids of the type {array.type}", "strings or integers", "Index")
