"""The normal form: one constraint per attribute, so that subscriptions of equal meaning have equal forms.

Two subscriptions match the same publications exactly if their normal forms are equal,
and ``implies`` decides exactly whether one constraint lies within another.

The numbers are those that a publication can carry: every 64-bit integer and every 64-bit float, infinities included.
They are ordered by value, so each has a next one, and ``< x`` is ``<= predecessor(x)``: all intervals are closed.
Between 2^53 and 2^63 the next number is the next integer, elsewhere it is the next float.

Strings have no such end, because there is always a longer string: a string constraint is empty
only if an equality contradicts the rest or two prefixes (or two suffixes) contradict each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from evenflow.subscriptions.language import EXACT, INT64_MAX, INT64_MIN, Predicate, Subscription, Value


@dataclass(frozen=True, slots=True)
class AnyConstraint:
    """Any value of any type: the wildcard."""


@dataclass(frozen=True, slots=True)
class NumberConstraint:
    """The numbers from ``low`` to ``high``, both included, except ``excluded``, which lie strictly between them."""

    low: int | float = -math.inf
    high: int | float = math.inf
    excluded: frozenset[int | float] = frozenset()


@dataclass(frozen=True, slots=True)
class StringConstraint:
    """The strings with this prefix, suffix and parts, except ``excluded``; or, with ``equal``, only that string.

    ``parts`` has nothing that the prefix, the suffix or another part contains,
    ``excluded`` nothing that the rest rules out, and with ``equal`` everything else is empty.
    """

    equal: str | None = None
    prefix: str = ""
    suffix: str = ""
    parts: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()


Constraint = AnyConstraint | NumberConstraint | StringConstraint
Normal = Mapping[str, Constraint]

ANYTHING, ANY_NUMBER, ANY_STRING = AnyConstraint(), NumberConstraint(), StringConstraint()


def normalize(subscription: Subscription) -> dict[str, Constraint] | None:
    """Return the normal form of a subscription.

    Returns
    -------
    The constraint of each attribute, or None if the subscription contradicts itself and so matches nothing.

    Examples
    --------
    >>> from evenflow.subscriptions.language import parse_subscription
    >>> normalize(parse_subscription("[volume,>=,3],[volume,<=,3]"))
    {'volume': NumberConstraint(low=3, high=3, excluded=frozenset())}
    >>> normalize(parse_subscription("[volume,>,3],[volume,<,3]"))
    """
    by_attribute: dict[str, list[Constraint]] = {}
    for predicate in subscription.predicates:
        by_attribute.setdefault(predicate.attribute, []).append(constraint_of(predicate))
    normal: dict[str, Constraint] = {}
    for attribute, constraints in by_attribute.items():
        constraint = conjunction(*constraints)
        if constraint is None:
            return None
        normal[attribute] = constraint
    return normal


def constraint_of(predicate: Predicate) -> Constraint:
    """Return the constraint that a single predicate puts on its attribute; it is never empty."""
    value = predicate.value
    if value is None:
        return ANYTHING
    if isinstance(value, str):
        return _STRINGS[predicate.operator](value)
    return _NUMBERS[predicate.operator](value + 0)  # -0.0 becomes 0.0


def conjunction(*constraints: Constraint) -> Constraint | None:
    """Return the conjunction of constraints, or None if no value satisfies all."""
    numbers = [c for c in constraints if isinstance(c, NumberConstraint)]
    strings = [c for c in constraints if isinstance(c, StringConstraint)]
    if numbers and strings:
        return None
    if numbers:
        return numbers[0] if len(numbers) == 1 else _all_numbers(numbers)
    if strings:
        return strings[0] if len(strings) == 1 else _all_strings(strings)
    return ANYTHING


def implies(narrow: Constraint, wide: Constraint) -> bool:
    """Return whether every value that satisfies ``narrow`` satisfies ``wide``."""
    if isinstance(wide, AnyConstraint):
        return True
    if isinstance(wide, NumberConstraint):
        return (
            isinstance(narrow, NumberConstraint)
            and wide.low <= narrow.low
            and narrow.high <= wide.high
            and not any(admits(narrow, value) for value in wide.excluded)
        )
    if not isinstance(narrow, StringConstraint):
        return False
    if narrow.equal is not None:
        return admits(wide, narrow.equal)
    return (
        wide.equal is None
        and narrow.prefix.startswith(wide.prefix)
        and narrow.suffix.endswith(wide.suffix)
        and all(_contains(narrow, part) for part in wide.parts)
        and not any(admits(narrow, value) for value in wide.excluded)
    )


def form_covers(a: Normal | None, b: Normal | None) -> bool:
    """Return whether one normal form covers another; None is a contradiction."""
    if b is None:
        return True
    if a is None or len(a) > len(b):
        return False
    return all(name in b and implies(b[name], constraint) for name, constraint in a.items())


def forms_intersect(a: Normal | None, b: Normal | None) -> bool:
    """Return whether some publication matches both of two normal forms."""
    if a is None or b is None:
        return False
    return all(name not in b or conjunction(constraint, b[name]) is not None for name, constraint in a.items())


def admits(constraint: Constraint, value: Value) -> bool:
    """Return whether a value satisfies a constraint; NaN satisfies none."""
    if isinstance(value, float) and math.isnan(value):
        return False
    if isinstance(constraint, AnyConstraint):
        return True
    if isinstance(constraint, NumberConstraint):
        return (
            not isinstance(value, str)
            and constraint.low <= value <= constraint.high
            and value not in constraint.excluded
        )
    if not isinstance(value, str):
        return False
    if constraint.equal is not None:
        return value == constraint.equal
    return (
        value.startswith(constraint.prefix)
        and value.endswith(constraint.suffix)
        and all(part in value for part in constraint.parts)
        and value not in constraint.excluded
    )


def successor(number: float) -> int | float:
    """Return the least number above this one that a publication can carry.

    Examples
    --------
    >>> successor(1.0), successor(2**53), successor(2**63 - 1)
    (1.0000000000000002, 9007199254740993, 9.223372036854776e+18)
    """
    if INT64_MIN <= number < -EXACT or EXACT <= number < INT64_MAX:
        return int(number) + 1
    # Elsewhere floats are denser, or the only numbers. INT64_MAX itself rounds up to 2^63, which follows it.
    return float(number) if number == INT64_MAX else math.nextafter(number, math.inf) + 0.0


def predecessor(number: float) -> int | float:
    """Return the greatest number below this one that a publication can carry.

    Examples
    --------
    >>> predecessor(1.0), predecessor(2**53 + 1), predecessor(2.0**63)
    (0.9999999999999999, 9007199254740992, 9223372036854775807)
    """
    return -successor(-number) + 0  # the numbers are the same on both sides of zero


_NUMBERS: Mapping[str, Callable[[int | float], NumberConstraint]] = {
    "=": lambda x: NumberConstraint(x, x),
    "<>": lambda x: NumberConstraint(excluded=frozenset([x])),
    "<": lambda x: NumberConstraint(high=predecessor(x)),
    "<=": lambda x: NumberConstraint(high=x),
    ">": lambda x: NumberConstraint(low=successor(x)),
    ">=": lambda x: NumberConstraint(low=x),
    "isPresent": lambda _: ANY_NUMBER,
}
_STRINGS: Mapping[str, Callable[[str], StringConstraint]] = {
    "eq": lambda x: StringConstraint(equal=x),
    "neq": lambda x: StringConstraint(excluded=frozenset([x])),
    "str-prefix": lambda x: StringConstraint(prefix=x),
    "str-suffix": lambda x: StringConstraint(suffix=x),
    "str-contains": lambda x: StringConstraint(parts=frozenset([x] if x else [])),
    "isPresent": lambda _: ANY_STRING,
}


def _all_numbers(numbers: Sequence[NumberConstraint]) -> NumberConstraint | None:
    """Move the ends inward until neither is excluded, so that equal sets have equal forms."""
    low, high = max(n.low for n in numbers), min(n.high for n in numbers)
    within = {x for n in numbers for x in n.excluded if low <= x <= high}
    while low <= high and low in within:
        within.discard(low)
        low = successor(low)
    while low <= high and high in within:
        within.discard(high)
        high = predecessor(high)
    return NumberConstraint(low, high, frozenset(within)) if low <= high else None


def _all_strings(strings: Sequence[StringConstraint]) -> StringConstraint | None:
    equals = {s.equal for s in strings if s.equal is not None}
    if equals:
        equal = equals.pop()
        return StringConstraint(equal=equal) if not equals and all(admits(s, equal) for s in strings) else None
    prefix = max((s.prefix for s in strings), key=len)
    suffix = max((s.suffix for s in strings), key=len)
    if not all(prefix.startswith(s.prefix) and suffix.endswith(s.suffix) for s in strings):
        return None
    kept = StringConstraint(
        None, prefix, suffix, _outermost({part for s in strings for part in s.parts}, prefix, suffix)
    )
    return replace(kept, excluded=frozenset(x for s in strings for x in s.excluded if admits(kept, x)))


def _outermost(parts: set[str], prefix: str, suffix: str) -> frozenset[str]:
    """Drop the parts that lie within another part, the prefix or the suffix."""
    letters = set().union(prefix, suffix, *parts)
    gap = next(letter for letter in map(chr, range(0x110000)) if letter not in letters)
    kept, all_kept = [], prefix + gap + suffix
    for part in sorted(parts, key=len, reverse=True):
        if part not in all_kept:  # one search in one string: there may be thousands of parts
            kept.append(part)
            all_kept += gap + part
    return frozenset(kept)


def _contains(strings: StringConstraint, part: str) -> bool:
    """Return whether all of these strings contain a part.

    Some of them have, between prefix, parts and suffix, letters that are not in ``part``,
    so it must lie within one of these.
    """
    return part in strings.prefix or part in strings.suffix or any(part in p for p in strings.parts)
