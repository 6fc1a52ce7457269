"""JSON as the standard means it: what names a field twice is refused, and not read as one of the two."""

from __future__ import annotations

import json
from typing import Any


def loads(data: str | bytes) -> Any:
    """Read JSON.

    Raises
    ------
    ValueError
        When it is malformed, or an object has a key twice.

    Examples
    --------
    >>> loads('{"a": 1, "b": [2]}')
    {'a': 1, 'b': [2]}
    >>> loads('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: the key 'a' stands twice in one object
    """
    return json.loads(data, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return found
