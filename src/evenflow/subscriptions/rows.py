"""Columns of predicates back into subscriptions, one object for each distinct predicate."""

from __future__ import annotations

from collections.abc import Iterator

from evenflow.subscriptions.columns import ANY, NUMBER_CODES, STRING, STRING_CODES, Int64s, Predicates
from evenflow.subscriptions.language import INT64_MAX, INT64_MIN, Predicate, Subscription

_EXACT = 2**53
_OPERATORS = {code: name for codes in (STRING_CODES, NUMBER_CODES) for name, code in codes.items()}


def subscriptions_of(predicates: Predicates) -> list[Subscription]:
    """Give the subscriptions that the columns hold.

    Numbers keep their value, but an integer may come back as a float of the same value and the reverse;
    the operand of ``isPresent`` comes back as 0 or ''.
    """
    found: list[list[Predicate]] = [[] for _ in range(predicates.count)]
    for owner, predicate in zip(predicates.owner.tolist(), predicates_of(predicates), strict=True):
        found[owner].append(predicate)
    return [Subscription(tuple(row)) for row in found]


def predicates_of(predicates: Predicates, rows: Int64s | slice = slice(None)) -> Iterator[Predicate]:
    """Give the predicates of some rows; equal rows share one object."""
    known: dict[tuple[int, int, float, int, int], Predicate] = {}
    columns = (predicates.attribute, predicates.operator, predicates.number, predicates.rest, predicates.text)
    for key in zip(*(column[rows].tolist() for column in columns), strict=True):
        if key not in known:
            known[key] = _predicate(predicates, *key)
        yield known[key]


def _predicate(predicates: Predicates, attribute: int, operator: int, number: float, rest: int, text: int) -> Predicate:
    name = predicates.attributes[attribute]
    if operator == ANY:
        return Predicate(name, "eq", None)
    if operator <= STRING:
        return Predicate(name, _OPERATORS[operator], predicates.texts[text] if text >= 0 else "")
    return Predicate(name, _OPERATORS[operator], exact_number(number, rest))


def exact_number(number: float, rest: int) -> int | float:
    """Join the float64 nearest to a number and what the number has beyond it."""
    whole = int(number) + rest if abs(number) >= _EXACT else 0
    return whole if whole and INT64_MIN <= whole <= INT64_MAX else number
