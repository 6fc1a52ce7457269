"""Spark's handle of a stateful processor, over one slice's book instead of a socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.stateful_processor import ListState, MapState, StatefulProcessorHandle, ValueState
from pyspark.sql.types import Row, StructType

from evenflow.spark.slices.stateful.book import Book, Key, Record
from evenflow.spark.slices.stateful.codec import Codec
from evenflow.spark.slices.stateful.order import number_order, store_order

NONE, PROCESSING, EVENT = "none", "processingtime", "eventtime"
MODES: Final = {NONE: "NoTime", PROCESSING: "ProcessingTime", EVENT: "EventTime"}
"""Time modes as they are compared, and as Spark writes them."""

CREATED, INITIALIZED, CLOSED = "CREATED", "INITIALIZED", "CLOSED"
Parse = Callable[[str], StructType]


class Handle(StatefulProcessorHandle):
    """Gives a processor its state: declared once per task, then entered with one key at a time.

    Parameters
    ----------
    mode
        The time mode, in small letters.
    parse
        Makes a schema of Spark's text for one.
    """

    def __init__(self, mode: str, parse: Parse) -> None:
        self.mode = mode
        self.parse = parse
        self.phase = CREATED
        self.names: list[str] = []
        self.deleted: list[str] = []
        self.lasting: list[_Lasting] = []
        self.now = -1
        self.record: Record | None = None
        self.changed = False
        self._book: Book | None = None
        self._key: Key = ()

    # -- what the slice does ---------------------------------------------------------------------------------------------

    def open(self, book: Book, now: int) -> None:
        """Take a slice's book at a batch's processing time."""
        self._book, self.now = book, now

    def enter(self, key: Key) -> None:
        """Make a key the one that all calls are about."""
        assert self._book is not None
        self._key = key
        self.record = self._book.record(key)
        self.changed = False

    def leave(self) -> None:
        """Keep what a key's calls changed."""
        assert self._book is not None
        assert self.record is not None
        if self.changed:
            self._book.keep(self._key, self.record)
            if self.lasting:
                self._note_end()
        self.record = None

    def _note_end(self) -> None:
        assert self._book is not None
        assert self.record is not None
        end = min((at for state in self.lasting if (at := state.earliest(self.record)) is not None), default=None)
        if end is None:
            self._book.ends.pop(self._key, None)
        else:
            self._book.ends[self._key] = end

    def sweep(self) -> None:
        """Drop values whose time to live is over, of keys that no call was about."""
        assert self._book is not None
        for key in [key for key, end in self._book.ends.items() if end <= self.now]:
            self.enter(key)
            assert self.record is not None
            for state in self.lasting:
                state.expire(self.record)
            self.changed = True
            self.leave()

    # -- what the processor calls ----------------------------------------------------------------------------------------

    def _declare(self, what: str, name: str, ttl: int | None) -> int:
        if self.phase != CREATED:
            raise PySparkRuntimeError(
                f"Error initializing {what} state: {_wrong_phase(f'get_{what}_state', self.phase)}"
            )
        if name in self.names:
            raise PySparkRuntimeError(
                f"Error initializing {what} state: {what.capitalize()} state {name} already exists"
            )
        if ttl and self.mode != PROCESSING:
            raise PySparkRuntimeError(
                f"Error initializing {what} state: [STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL] Cannot use TTL "
                f"for state={name} in timeMode={MODES[self.mode]}, use TimeMode.ProcessingTime() instead."
            )
        if ttl is not None and ttl < 0:
            raise PySparkRuntimeError(
                f"Error initializing {what} state: [STATEFUL_PROCESSOR_TTL_DURATION_MUST_BE_POSITIVE] TTL duration must be "
                f"greater than zero for State store operation=update on state={name}."
            )
        self.names.append(name)
        return len(self.names) - 1

    def _codec(self, schema: StructType | str) -> Codec:
        return Codec(self.parse(schema) if isinstance(schema, str) else schema)

    def _lasts(self, state: Any) -> Any:
        if state.ttl:
            self.lasting.append(state)
        return state

    def getValueState(  # noqa: N802 - Spark's names, here and below
        self,
        stateName: str,  # noqa: N803
        schema: StructType | str,
        ttlDurationMs: int | None = None,  # noqa: N803
    ) -> ValueState:
        """Declare a single value."""
        place = self._declare("value", stateName, ttlDurationMs)
        return self._lasts(_Value(self, stateName, place, self._codec(schema), ttlDurationMs))  # type: ignore[no-any-return]

    def getListState(  # noqa: N802
        self,
        stateName: str,  # noqa: N803
        schema: StructType | str,
        ttlDurationMs: int | None = None,  # noqa: N803
    ) -> ListState:
        """Declare a list."""
        place = self._declare("list", stateName, ttlDurationMs)
        return self._lasts(_List(self, stateName, place, self._codec(schema), ttlDurationMs))  # type: ignore[no-any-return]

    def getMapState(  # noqa: N802
        self,
        stateName: str,  # noqa: N803
        userKeySchema: StructType | str,  # noqa: N803
        valueSchema: StructType | str,  # noqa: N803
        ttlDurationMs: int | None = None,  # noqa: N803
    ) -> MapState:
        """Declare a map."""
        place = self._declare("map", stateName, ttlDurationMs)
        keys, values = self._codec(userKeySchema), self._codec(valueSchema)
        return self._lasts(_Map(self, stateName, place, keys, values, ttlDurationMs))  # type: ignore[no-any-return]

    def _timers(self, what: str, said: str) -> Book:
        if self.mode == NONE:
            raise PySparkRuntimeError(
                f"Error {said}: [STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_TIME_MODE] Failed to perform "
                f"stateful processor operation={what} with invalid timeMode={MODES[self.mode]}."
            )
        if self.record is None or self._book is None:
            raise PySparkRuntimeError(f"Error {said}: {_wrong_phase(what, self.phase)}")
        return self._book

    def registerTimer(self, expiryTimestampMs: int) -> None:  # noqa: N802, N803
        """Register a timer of the key."""
        self._timers("register_timer", "register timer").add_timer(self._key, int(expiryTimestampMs))

    def deleteTimer(self, expiryTimestampMs: int) -> None:  # noqa: N802, N803
        """Delete a timer of the key."""
        self._timers("delete_timer", "deleting timer").drop_timer(self._key, int(expiryTimestampMs))

    def listTimers(self) -> Iterator[int]:  # noqa: N802
        """List the key's timers, when the first one is asked for."""
        book = self._timers("list_timers", "listing timers")
        yield from sorted(book.timers.get(self._key, ()), key=number_order)

    def deleteIfExists(self, stateName: str) -> None:  # noqa: N802, N803
        """Delete a variable of every key."""
        if self.phase != CREATED:
            raise PySparkRuntimeError(f"Error deleting state: {_wrong_phase('delete_if_exists', self.phase)}")
        self.deleted.append(stateName)


def _wrong_phase(operation: str, phase: str) -> str:
    return (
        "[STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_HANDLE_STATE] Failed to perform stateful processor "
        f"operation={operation} with invalid handle state={phase}."
    )


class _Lasting:
    """What the three kinds of state have in common; ``ttl`` is in milliseconds, 0 for ever."""

    def __init__(self, handle: Handle, name: str, place: int, values: Codec, ttl: int | None) -> None:
        self.handle = handle
        self.name = name
        self.place = place
        self.codec = values
        self.ttl = ttl or 0

    def held(self) -> Any:
        """Return what the current key has, as it is kept."""
        if self.handle.record is None:
            raise PySparkRuntimeError(f"Implicit key not found in state store for stateName={self.name}")
        return self.handle.record[self.place]

    def hold(self, kept: Any) -> None:
        """Keep something for the current key."""
        if self.handle.record is None:
            raise PySparkRuntimeError(f"Implicit key not found in state store for stateName={self.name}")
        self.handle.record[self.place] = kept
        self.handle.changed = True

    def dated(self, kept: Any) -> Any:
        """Return a value with the time it lasts to, if it does not last for ever."""
        return (self.handle.now + self.ttl, kept) if self.ttl else kept

    def lasts(self, dated: Any) -> bool:
        """Say whether a value is still there."""
        return not self.ttl or dated[0] > self.handle.now

    def bare(self, dated: Any) -> Any:
        """Return a value without its time."""
        return self.codec.thaw(dated[1] if self.ttl else dated)

    def earliest(self, record: Record) -> int | None:
        """Return when the first value ends."""
        raise NotImplementedError

    def expire(self, record: Record) -> None:
        """Drop what has ended."""
        raise NotImplementedError


class _Value(_Lasting, ValueState):
    def exists(self) -> bool:
        held = self.held()
        return held is not None and self.lasts(held)

    def get(self) -> tuple[Any, ...] | None:
        held = self.held()
        if held is None or (self.ttl and held[0] <= self.handle.now):
            return None
        return self.bare(held)  # type: ignore[no-any-return]

    def update(self, newValue: Any) -> None:  # noqa: N803
        self.hold(self.dated(self.codec.freeze(newValue)))

    def clear(self) -> None:
        self.hold(None)

    def earliest(self, record: Record) -> int | None:
        return None if record[self.place] is None else int(record[self.place][0])

    def expire(self, record: Record) -> None:
        if record[self.place] is not None and not self.lasts(record[self.place]):
            record[self.place] = None


class _List(_Lasting, ListState):
    def _kept(self) -> list[Any]:
        held = self.held() or []
        return [each for each in held if each[0] > self.handle.now] if self.ttl else held

    def exists(self) -> bool:
        return bool(self._kept())

    def get(self) -> Iterator[tuple[Any, ...]]:
        yield from [self.bare(each) for each in self._kept()]

    def _new(self, values: Any) -> list[Any]:
        new = [self.dated(self.codec.freeze(each)) for each in values]
        if not new:
            raise PySparkRuntimeError(
                "Error updating value state: [ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE] Illegal value provided to the "
                f"State Store Cannot write empty list values to State Store for StateName {self.name}."
            )
        return new

    def put(self, newState: Any) -> None:  # noqa: N803
        self.hold(self._new(newState))

    def appendValue(self, newState: Any) -> None:  # noqa: N802, N803
        self._append([self.dated(self.codec.freeze(newState))])

    def appendList(self, newState: Any) -> None:  # noqa: N802, N803
        self._append(self._new(newState))

    def _append(self, new: list[Any]) -> None:
        held = self.held()
        if held is None:
            held = []
        held += new  # the key's blob was unpacked for this call alone
        self.hold(held)

    def clear(self) -> None:
        self.hold(None)

    def earliest(self, record: Record) -> int | None:
        return min((int(each[0]) for each in record[self.place] or ()), default=None)

    def expire(self, record: Record) -> None:
        record[self.place] = [each for each in record[self.place] or () if self.lasts(each)] or None


class _Map(_Lasting, MapState):
    def __init__(self, handle: Handle, name: str, place: int, keys: Codec, values: Codec, ttl: int | None) -> None:
        super().__init__(handle, name, place, values, ttl)
        self._keys = keys
        self._row = Row(*values.schema.names)

    def _kept(self) -> dict[Any, Any]:
        held = self.held() or {}
        return {k: v for k, v in held.items() if v[0] > self.handle.now} if self.ttl else held

    def _sorted(self) -> list[tuple[Any, Any]]:
        return sorted(self._kept().items(), key=lambda item: store_order(item[0], self._keys.schema))

    def _one(self, key: Any) -> Any:
        held = self.held()
        found = None if held is None else held.get(self._keys.freeze(key))
        return found if found is not None and self.lasts(found) else None

    def exists(self) -> bool:
        return bool(self._kept())

    def getValue(self, key: Any) -> tuple[Any, ...] | None:  # noqa: N802
        found = self._one(key)
        return None if found is None else self._row(*self.bare(found))

    def containsKey(self, key: Any) -> bool:  # noqa: N802
        return self._one(key) is not None

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        held = self.held()
        if held is None:
            held = {}
        held[self._keys.freeze(key)] = self.dated(self.codec.freeze(value))
        self.hold(held)

    def iterator(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        yield from [(self._keys.thaw(k), self.bare(v)) for k, v in self._sorted()]

    def keys(self) -> Iterator[tuple[Any, ...]]:
        yield from [self._keys.thaw(k) for k, _ in self._sorted()]

    def values(self) -> Iterator[tuple[Any, ...]]:
        yield from [self.bare(v) for _, v in self._sorted()]

    def removeKey(self, key: Any) -> None:  # noqa: N802
        held = self.held()
        if held is not None and held.pop(self._keys.freeze(key), None) is not None:
            self.hold(held or None)

    def clear(self) -> None:
        self.hold(None)

    def earliest(self, record: Record) -> int | None:
        return min((int(each[0]) for each in (record[self.place] or {}).values()), default=None)

    def expire(self, record: Record) -> None:
        record[self.place] = {k: v for k, v in (record[self.place] or {}).items() if self.lasts(v)} or None
