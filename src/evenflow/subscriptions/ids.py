"""The order of ids: by number if every id is an integer, otherwise by code point."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Key = Callable[[str], tuple[int | Decimal, str]]

_INTEGER = re.compile(r"[+-]?[0-9]+")


def is_integer(name: str) -> bool:
    """Return whether an id is written as an integer."""
    return _INTEGER.fullmatch(name) is not None


def by_number(name: str) -> tuple[int | Decimal, str]:
    """Return the sort key of an integer; a Decimal where Python refuses to convert that many digits."""
    return (int(name) if len(name) < 1000 else Decimal(name)), name


def by_code_point(name: str) -> tuple[int | Decimal, str]:
    """Return the sort key of any text."""
    return 0, name


def sort_key(ids: Iterable[str]) -> Key:
    """Return the sort key for these ids; ids of equal value, such as 1 and 01, are ordered by code point.

    Examples
    --------
    >>> [sorted(ids, key=sort_key(ids)) for ids in (["10", "9"], ["10", "9", "a"])]
    [['9', '10'], ['10', '9', 'a']]
    """
    return by_number if all(map(is_integer, ids)) else by_code_point


def ascending_order(ids: pa.Array) -> npt.NDArray[np.int64]:
    """Return the positions of the ids in ascending order, fast for millions of strings or integers.

    Examples
    --------
    >>> ascending_order(pa.array(["10", "9", "11"])).tolist()
    [1, 0, 2]
    """
    values = ids
    if pa.types.is_string(ids.type):
        if pc.all(pc.match_substring_regex(ids, r"^(-?[1-9][0-9]{0,17}|0)$")).as_py():
            values = ids.cast(pa.int64())
        elif pc.all(pc.match_substring_regex(ids, r"^[+-]?[0-9]+$")).as_py():  # in forms that Arrow does not cast
            keys = list(map(by_number, ids.to_pylist()))
            return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)
    if len(ids) < 2 or pc.all(pc.less(values[:-1], values[1:])).as_py():
        return np.arange(len(ids))
    order: npt.NDArray[np.int64] = pc.sort_indices(values).to_numpy().astype(np.int64)  # UTF-8 sorts by code point
    return order
