"""Homes of rows: every row is stored on one worker, and a write goes to the homes of all its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Number
from typing import Any
from zlib import crc32

import numpy as np

from evenflow.errors import BadInput
from evenflow.triggers.app import Key, Write

Homes = Callable[[str, Key], str]
"""A function from the table and key of a row to the worker that stores it."""


def by_hash(key: Key, count: int) -> int:
    """Return a number below ``count`` for a row: the same in every process, and the same for equal keys.

    Raises
    ------
    BadInput
        For a key whose text differs between processes, such as a plain object.

    Examples
    --------
    >>> by_hash("north", 4), by_hash(1, 4) == by_hash(1.0, 4) == by_hash(True, 4)
    (1, True)
    """
    return crc32(repr(_plain(key)).encode("utf-8", "surrogatepass")) % count


def _plain(key: Any) -> Any:
    """Return the same value for equal keys: numbers of all types compare by value, and so do named tuples."""
    if isinstance(key, np.generic):
        key = key.item()
    if isinstance(key, Number):
        return hash(key)  # the hash of a number, unlike that of a string, is the same in every process
    if isinstance(key, tuple):
        return tuple(_plain(part) for part in key)
    if isinstance(key, frozenset):
        return sorted(repr(_plain(part)) for part in key)
    if type(key).__repr__ is object.__repr__:  # type: ignore[comparison-overlap]  # no own repr
        raise BadInput(f"a row's key of type {type(key).__name__}", "strings, numbers, tuples of them, dates", "key")
    return key


def parts(write: Write, homes: Homes) -> Iterator[tuple[str, Write]]:
    """Yield each home of a write's rows, with the write for the rows stored there."""
    table, keys = write.table, write.keys
    if len(keys) == 1:
        yield homes(table, keys[0]), write
        return
    found: dict[str, list[Key]] = {}
    for key in keys:
        found.setdefault(homes(table, key), []).append(key)
    for home, those in found.items():
        yield home, write._replace(keys=tuple(those))
