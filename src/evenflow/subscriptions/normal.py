"""The normal form: what the conjunction of a subscription's predicates says about each attribute, written in one way.

Two subscriptions match the same publications exactly if their normal forms are equal,
and ``implies`` decides exactly whether one constraint lies within another.

Numbers are those that a publication can carry: every 64-bit integer and every 64-bit float, infinities included.
They form one order by value, so each has a next one, and ``< x`` is ``<= predecessor(x)``: all intervals are closed.
Between 2^53 and 2^63 the next number is the next integer, elsewhere it is the next float.

Strings have no such end: a longer string always exists, which is why a string constraint is empty
only if an equality contradicts the rest or two prefixes (or two suffixes) contradict each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from evenflow.subscriptions.language import EXACT, INT64_MAX, INT64_MIN, Predicate, Subscription, Value


@dataclass(frozen=True, slots=True)
class Anything:
    """Any value of any type: the wildcard."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers from ``low`` to ``high``, both included, but for ``excluded``, which lie strictly between the two."""

    low: int | float = -math.inf
    high: int | float = math.inf
    excluded: frozenset[int | float] = frozenset()


@dataclass(frozen=True, slots=True)
class Strings:
    """The strings with this prefix and suffix and these parts, but for ``excluded``; or, with ``equal``, that one alone.

    ``parts`` holds nothing that the prefix, the suffix or another part already contains,
    ``excluded`` nothing that the rest already rules out, and beside ``equal`` there is nothing at all.
    """

    equal: str | None = None
    prefix: str = ""
    suffix: str = ""
    parts: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()


Constraint = Anything | Numbers | Strings
Normal = Mapping[str, Constraint]

ANYTHING, ANY_NUMBER, ANY_STRING = Anything(), Numbers(), Strings()


def normalize(subscription: Subscription) -> dict[str, Constraint] | None:
    """Bring a subscription into normal form.

    Returns
    -------
    The constraint of each attribute, or None if the subscription contradicts itself and so matches nothing.

    Examples
    --------
    >>> from evenflow.subscriptions.language import parse_subscription
    >>> normalize(parse_subscription("[volume,>=,3],[volume,<=,3]"))
    {'volume': Numbers(low=3, high=3, excluded=frozenset())}
    >>> normalize(parse_subscription("[volume,>,3],[volume,<,3]"))
    """
    found: dict[str, list[Constraint]] = {}
    for predicate in subscription.predicates:
        found.setdefault(predicate.attribute, []).append(constraint_of(predicate))
    normal: dict[str, Constraint] = {}
    for attribute, constraints in found.items():
        constraint = conjunction(*constraints)
        if constraint is None:
            return None
        normal[attribute] = constraint
    return normal


def constraint_of(predicate: Predicate) -> Constraint:
    """Give the constraint that a single predicate puts on its attribute; a single one is never empty."""
    value = predicate.value
    if value is None:
        return ANYTHING
    if isinstance(value, str):
        return _STRINGS[predicate.operator](value)
    return _NUMBERS[predicate.operator](value + 0)  # -0.0 becomes 0.0


def conjunction(*constraints: Constraint) -> Constraint | None:
    """Give the constraint that all together say, or None if no value satisfies all."""
    numbers = [c for c in constraints if isinstance(c, Numbers)]
    strings = [c for c in constraints if isinstance(c, Strings)]
    if numbers and strings:
        return None
    if numbers:
        return numbers[0] if len(numbers) == 1 else _all_numbers(numbers)
    if strings:
        return strings[0] if len(strings) == 1 else _all_strings(strings)
    return ANYTHING


def implies(narrow: Constraint, wide: Constraint) -> bool:
    """Tell whether every value that satisfies ``narrow`` satisfies ``wide``."""
    if isinstance(wide, Anything):
        return True
    if isinstance(wide, Numbers):
        return (
            isinstance(narrow, Numbers)
            and wide.low <= narrow.low
            and narrow.high <= wide.high
            and not any(admits(narrow, value) for value in wide.excluded)
        )
    if not isinstance(narrow, Strings):
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
    """Tell whether a value satisfies a constraint; NaN satisfies none."""
    if isinstance(value, float) and math.isnan(value):
        return False
    if isinstance(constraint, Anything):
        return True
    if isinstance(constraint, Numbers):
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
    """Give the least number above this one that a publication can carry.

    Examples
    --------
    >>> successor(1.0), successor(2**53), successor(2**63 - 1)
    (1.0000000000000002, 9007199254740993, 9.223372036854776e+18)
    """
    if INT64_MIN <= number < -EXACT or EXACT <= number < INT64_MAX:
        return int(number) + 1
    # Outside, floats are the denser numbers or the only ones. INT64_MAX itself rounds up to 2^63, which follows it.
    return float(number) if number == INT64_MAX else math.nextafter(number, math.inf) + 0.0


def predecessor(number: float) -> int | float:
    """Give the greatest number below this one that a publication can carry.

    Examples
    --------
    >>> predecessor(1.0), predecessor(2**53 + 1), predecessor(2.0**63)
    (0.9999999999999999, 9007199254740992, 9223372036854775807)
    """
    return -successor(-number) + 0  # the numbers are the same on both sides of zero


_NUMBERS: Mapping[str, Callable[[int | float], Numbers]] = {
    "=": lambda x: Numbers(x, x),
    "<>": lambda x: Numbers(excluded=frozenset([x])),
    "<": lambda x: Numbers(high=predecessor(x)),
    "<=": lambda x: Numbers(high=x),
    ">": lambda x: Numbers(low=successor(x)),
    ">=": lambda x: Numbers(low=x),
    "isPresent": lambda _: ANY_NUMBER,
}
_STRINGS: Mapping[str, Callable[[str], Strings]] = {
    "eq": lambda x: Strings(equal=x),
    "neq": lambda x: Strings(excluded=frozenset([x])),
    "str-prefix": lambda x: Strings(prefix=x),
    "str-suffix": lambda x: Strings(suffix=x),
    "str-contains": lambda x: Strings(parts=frozenset([x] if x else [])),
    "isPresent": lambda _: ANY_STRING,
}


def _all_numbers(numbers: Sequence[Numbers]) -> Numbers | None:
    """Draw the ends in until neither is excluded, so that equal sets of numbers look equal."""
    low, high = max(n.low for n in numbers), min(n.high for n in numbers)
    within = {x for n in numbers for x in n.excluded if low <= x <= high}
    while low <= high and low in within:
        within.discard(low)
        low = successor(low)
    while low <= high and high in within:
        within.discard(high)
        high = predecessor(high)
    return Numbers(low, high, frozenset(within)) if low <= high else None


def _all_strings(strings: Sequence[Strings]) -> Strings | None:
    equals = {s.equal for s in strings if s.equal is not None}
    if equals:
        equal = equals.pop()
        return Strings(equal=equal) if not equals and all(admits(s, equal) for s in strings) else None
    prefix = max((s.prefix for s in strings), key=len)
    suffix = max((s.suffix for s in strings), key=len)
    if not all(prefix.startswith(s.prefix) and suffix.endswith(s.suffix) for s in strings):
        return None
    kept = Strings(None, prefix, suffix, _outermost({part for s in strings for part in s.parts}, prefix, suffix))
    return replace(kept, excluded=frozenset(x for s in strings for x in s.excluded if admits(kept, x)))


def _outermost(parts: set[str], prefix: str, suffix: str) -> frozenset[str]:
    """Drop the parts that lie within another part, the prefix or the suffix."""
    letters = set().union(prefix, suffix, *parts)
    gap = next(letter for letter in map(chr, range(0x110000)) if letter not in letters)
    kept, all_kept = [], prefix + gap + suffix
    for part in sorted(parts, key=len, reverse=True):
        if part not in all_kept:  # one search in one string, as there may be thousands of parts
            kept.append(part)
            all_kept += gap + part
    return frozenset(kept)


def _contains(strings: Strings, part: str) -> bool:
    """Tell whether all of these strings contain a part.

    Some of them have letters between prefix, parts and suffix that occur nowhere in ``part``,
    so it must lie within one of these.
    """
    return part in strings.prefix or part in strings.suffix or any(part in p for p in strings.parts)
