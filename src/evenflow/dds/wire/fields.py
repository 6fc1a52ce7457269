"""What one field of a message may hold: every number has a range, every text a length, before anything is done with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from evenflow.slices.ledger import ID_BITS, number_of

WIDEST = (1 << 63) - 1  # of an IDL ``long long``
PUBLISHERS = 1 << (63 - ID_BITS)  # numbers that fit above an item's own number in such an id
NUMBERS = 1 << ID_BITS
MOST_LOAD = 1e15  # squares and sums of loads stay far from infinity
LEAST_CAPACITY = 1e-6
MOST_COST = 1e9  # one such item keeps a node of the usual speed busy for half a day
LONGEST_NAME = 200
LONGEST_TEXT = 10_000


class MalformedError(ValueError):
    """What arrived is not a message of this protocol."""


def whole(value: Any, low: int = 0, high: int = WIDEST) -> int:
    """Return a whole number from ``low`` to ``high``."""
    if type(value) is not int:
        raise MalformedError(f"{shown(value)} is no whole number")
    if not low <= value <= high:
        raise MalformedError(f"{shown(value)} is not from {low} to {high}")
    return value


def real(value: Any, low: float, high: float) -> float:
    """Return a number from ``low`` to ``high``; NaN is none."""
    if type(value) not in (int, float):
        raise MalformedError(f"{shown(value)} is no number")
    if not low <= value <= high:
        raise MalformedError(f"{shown(value)} is not from {low:g} to {high:g}")
    return float(value)


def flag(value: Any) -> bool:
    """Return true or false."""
    if type(value) is not bool:
        raise MalformedError(f"{shown(value)} is neither true nor false")
    return value


def text(value: Any, most: int = LONGEST_TEXT) -> str:
    """Return a text that can be written again: JSON can hold half a character, which UTF-8 cannot."""
    if type(value) is not str:
        raise MalformedError(f"{shown(value)} is no text")
    if len(value) > most:
        raise MalformedError(f"a text of {len(value)} characters, more than {most}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise MalformedError(f"{shown(value)} is no Unicode text") from error
    return value


def name(value: Any) -> str:
    """Return the name of a node or the balancer. A session without a giver has the empty name there, so no node may have it."""
    if not text(value, LONGEST_NAME) or not value.isprintable():
        raise MalformedError(f"{shown(value)} is no name")
    return str(value)


def distinct(values: Any, read: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Return the parts of a sequence, of which there is at least one and none stands twice."""
    if not isinstance(values, (list, tuple)):
        raise MalformedError(f"{shown(values)} is no list")
    found = tuple(read(value) for value in values)
    if not found or len(set(found)) != len(found):
        raise MalformedError(f"{shown(values)} is empty or names something twice")
    return found


def pairs(values: Any, key: Callable[[Any], Any], read: Callable[[Any], Any]) -> dict[Any, Any]:
    """Return the mapping that a list of pairs holds; no key stands twice."""
    if not isinstance(values, (list, tuple)) or not all(isinstance(p, (list, tuple)) and len(p) == 2 for p in values):
        raise MalformedError(f"{shown(values)} is no list of pairs")
    found = {key(k): read(v) for k, v in values}
    if len(found) != len(values):
        raise MalformedError(f"{shown(values)} names something twice")
    return found


def envelope(item: Any, settled: Any, slice_id: Any, cost: Any, slices: int | None = None) -> None:
    """Check the four fields before an item's value; ``slices`` is how many there are, if that is known."""
    whole(item)
    if whole(settled) > number_of(item):
        raise MalformedError(f"item {number_of(item)} of its publisher says that {settled} are settled")
    whole(slice_id, 0, (1 << 31) - 1 if slices is None else slices - 1)
    real(cost, 0.0, MOST_COST)


def shown(value: Any) -> str:
    """Return a value for a message, cut to a length that can be read."""
    try:
        found = repr(value[:20] if isinstance(value, Sequence) and not isinstance(value, str) else value)
    except (ValueError, RecursionError):  # Python refuses to write integers of thousands of digits
        found = f"a {type(value).__name__}"
    return found if len(found) <= 60 else f"{found[:59]}…"
