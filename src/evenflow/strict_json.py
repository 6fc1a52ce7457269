"""Read JSON, and refuse objects with duplicate keys."""

from __future__ import annotations

import json
from typing import Any


def loads(data: str | bytes) -> Any:
    """Return what a JSON text holds.

    Raises
    ------
    ValueError
        If it is malformed, or an object has a key twice.

    Examples
    --------
    >>> loads('{"a": 1, "b": [2]}')
    {'a': 1, 'b': [2]}
    >>> loads('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: the key 'a' stands twice in one object
    """
    return json.loads(data, object_pairs_hook=_refuse_duplicates)


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return values
