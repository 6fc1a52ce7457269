"""One slice's keys: state variables, timers and times to live, as one value that is pickled with the slice.

A key's variables are one small blob: a turn unpacks the keys it touches and leaves the others as they are.
The whole is a plain tuple of built-in types, so that no class of ours is in a checkpoint.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

Key = tuple[Any, ...]
Record = list[Any]
"""A key's variables, in the order of the book's names; ``None`` for one without a value."""

PROTOCOL: Final = 3  # of a blob: without the frames of later ones, which cost 9 bytes per key
NOTHING: Final[tuple[Any, ...]] = ((), {}, {}, {}, None)


class Due(NamedTuple):
    """A timer that has expired."""

    at: int
    key: Key


class Book:
    """What a slice keeps.

    Parameters
    ----------
    packed
        What :meth:`packed` returned, or ``None`` for a slice that begins.
    names
        The declared variables; a stored one that is not declared is kept for the day it is declared again, as Spark does.
    deleted
        Variables to delete for every key.

    Examples
    --------
    >>> book = Book(None, ["count"])
    >>> record = book.record(("a",))
    >>> record[0] = (5,)
    >>> book.keep(("a",), record)
    >>> Book(book.packed(), ["count"]).record(("a",))
    [(5,)]
    """

    def __init__(self, packed: tuple[Any, ...] | None, names: Sequence[str], deleted: Iterable[str] = ()) -> None:
        stored, self._blobs, self.timers, self.ends, self.armed = packed or NOTHING
        # A turn that fails must leave what it got as it was: only what changes is copied.
        self._blobs = dict(self._blobs)
        self.timers = dict(self.timers)
        self.ends = dict(self.ends)
        self._names = tuple(stored)
        if not set(deleted).isdisjoint(stored):
            self._delete(set(deleted))
        self._names = (*self._names, *(name for name in names if name not in self._names))
        self._places = [self._names.index(name) for name in names]
        self._straight = self._places == list(range(len(self._names)))

    def _delete(self, names: set[str]) -> None:
        kept = [place for place, name in enumerate(self._names) if name not in names]
        for key in list(self._blobs):
            whole = self._whole(key)
            self._put(key, [whole[place] for place in kept])
        self._names = tuple(self._names[place] for place in kept)

    def _whole(self, key: Key) -> Record:
        blob = self._blobs.get(key)
        found = [] if blob is None else list(pickle.loads(blob))  # noqa: S301 - written by ourselves, into the checkpoint
        return found + [None] * (len(self._names) - len(found))

    def _put(self, key: Key, whole: Record) -> None:
        end = len(whole)
        while end and whole[end - 1] is None:
            end -= 1
        if end:
            self._blobs[key] = pickle.dumps(tuple(whole[:end]), PROTOCOL)
        else:
            self._blobs.pop(key, None)

    def record(self, key: Key) -> Record:
        """Return a key's variables, in the order they were declared."""
        whole = self._whole(key)
        return whole if self._straight else [whole[place] for place in self._places]

    def keep(self, key: Key, record: Record) -> None:
        """Keep a key's variables; a key without any is forgotten."""
        if not self._straight:
            whole = self._whole(key)
            for place, value in zip(self._places, record, strict=True):
                whole[place] = value
            record = whole
        self._put(key, record)

    def due(self, now: int) -> list[Due]:
        """Return the timers that have expired."""
        return [Due(at, key) for key, times in self.timers.items() for at in times if at <= now]

    def earliest(self) -> int | None:
        """Return when the next timer expires."""
        return min(map(min, self.timers.values()), default=None)

    def add_timer(self, key: Key, at: int) -> None:
        """Register a timer; the same one twice is one."""
        known = self.timers.get(key, ())
        if at not in known:
            self.timers[key] = (*known, at)

    def drop_timer(self, key: Key, at: int) -> None:
        """Forget a timer; one that is not there is no error."""
        known = self.timers.get(key, ())
        if at in known:
            left = tuple(each for each in known if each != at)
            if left:
                self.timers[key] = left
            else:
                del self.timers[key]

    @property
    def keys(self) -> list[Key]:
        """The keys that have a value."""
        return list(self._blobs)

    def packed(self) -> tuple[Any, ...]:
        """Return everything as one value."""
        return self._names, self._blobs, self.timers, self.ends, self.armed
