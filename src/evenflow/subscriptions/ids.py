"""The order of ids: by number if every id is an integer, otherwise by code point."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal

Key = Callable[[str], tuple[int | Decimal, str]]

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


def by_number(name: str) -> tuple[int | Decimal, str]:
    """Sort key of an integer; a Decimal where Python would refuse to convert so many digits."""
    return (int(name) if len(name) < 1000 else Decimal(name)), name


def by_code_point(name: str) -> tuple[int | Decimal, str]:
    """Sort key of any text."""
    return 0, name
