"""The order of ids: by number if every id is an integer, otherwise by code point."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Key = Callable[[str], tuple[int | Decimal, str]]

_MANY = 4096  # below this, Arrow takes longer to load than Python to sort
_INTEGER = re.compile(r"[+-]?[0-9]+")


def is_integer(name: str) -> bool:
    """Tell whether an id is written as an integer."""
    return _INTEGER.fullmatch(name) is not None


def order(ids: Iterable[str]) -> Key:
    """Give the sort key for these ids; ids of equal value, such as 1 and 01, go by code point."""
    return by_number if all(map(is_integer, ids)) else by_code_point


def ascending(ids: Iterable[str]) -> list[str]:
    """Sort ids.

    Examples
    --------
    >>> ascending(["10", "9"]), ascending(["10", "9", "a"])
    (['9', '10'], ['10', '9', 'a'])
    """
    ids = list(ids)
    return sorted(ids, key=order(ids))


def ranks(ids: Sequence[str]) -> npt.NDArray[np.int64]:
    """Give the place of each id in ascending order, fast for millions.

    Examples
    --------
    >>> ranks(["10", "9", "11"]).tolist()
    [1, 0, 2]
    """
    if len(ids) < _MANY:
        return _by_rank(sorted(range(len(ids)), key=_keys(ids).__getitem__))
    texts = pa.array(ids, pa.string())
    if pc.all(pc.match_substring_regex(texts, r"^-?[1-9][0-9]{0,17}$|^0$")).as_py():
        return _by_rank(np.argsort(texts.cast(pa.int64()).to_numpy(), kind="stable"))
    if all(map(is_integer, ids)):  # written in ways that Arrow does not read, or too long
        return _by_rank(sorted(range(len(ids)), key=_keys(ids).__getitem__))
    return _by_rank(pc.sort_indices(texts).to_numpy())  # UTF-8 sorts as code points do


def _keys(ids: Sequence[str]) -> list[tuple[int | Decimal, str]]:
    return list(map(order(ids), ids))


def _by_rank(places: npt.ArrayLike) -> npt.NDArray[np.int64]:
    places = np.asarray(places, dtype=np.int64)
    found = np.empty(len(places), dtype=np.int64)
    found[places] = np.arange(len(places))
    return found


def by_number(name: str) -> tuple[int | Decimal, str]:
    """Sort key of an integer; a Decimal where Python would refuse to convert so many digits."""
    return (int(name) if len(name) < 1000 else Decimal(name)), name


def by_code_point(name: str) -> tuple[int | Decimal, str]:
    """Sort key of any text."""
    return 0, name
