"""Random subscriptions and publications, and what is true of them by brute force.

The pools are small and full of neighbours, so that predicates meet, imply and contradict each other all the time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

from hypothesis import strategies as st

from evenflow.subscriptions.language import (
    INT64_MAX,
    INT64_MIN,
    NUMBER_OPERATORS,
    STRING_OPERATORS,
    Predicate,
    Subscription,
)

BIG = 2**53
NUMBERS = [
    *(0, -0.0, 1, 1.0, 1.5, 2, 3, -7, 0.1, 5e-324, 1e300, math.nextafter(1.0, 2.0)),
    *(BIG - 1, BIG, BIG + 1, BIG + 2, float(BIG), float(BIG + 2), -BIG - 1, INT64_MAX, INT64_MIN, 2.0**63),
]
STRINGS = ["", "a", "b", "ab", "ba", "abc", "bca", "c", "é", "Ω", "it's", "\\", "a],[b", "*", " ", "1"]
ATTRIBUTES = ["a", "b", "c", "größe"]

numbers = (
    st.sampled_from(NUMBERS) | st.integers(INT64_MIN, INT64_MAX) | st.floats(allow_nan=False, allow_infinity=False)
)
characters = st.characters(exclude_categories=["Cs"])
strings = st.sampled_from(STRINGS) | st.text("abc", max_size=4) | st.text(characters, max_size=5)
names = st.sampled_from(ATTRIBUTES) | st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters="[],'\\*"), min_size=1, max_size=5
)


def predicates(
    attribute: st.SearchStrategy[str], number: st.SearchStrategy[float], string: st.SearchStrategy[str]
) -> st.SearchStrategy[Predicate]:
    return st.one_of(
        st.builds(Predicate, attribute, st.sampled_from(list(NUMBER_OPERATORS)), number),
        st.builds(Predicate, attribute, st.sampled_from(list(STRING_OPERATORS)), string),
        st.builds(Predicate, attribute, st.just("eq"), st.none()),
    )


def _subscriptions(predicate: st.SearchStrategy[Predicate], most: int) -> st.SearchStrategy[Subscription]:
    return st.lists(predicate, min_size=1, max_size=most).map(lambda found: Subscription(tuple(found)))


any_subscription = _subscriptions(predicates(names, numbers, strings), 6)
"""Every subscription that can be written."""


def _close(attribute: str) -> st.SearchStrategy[list[Predicate]]:
    """Draw predicates on one attribute, mostly of one type and with operands that meet."""

    def on(numbers: Iterable[float], strings: Iterable[str]) -> list[Predicate]:
        return [
            Predicate(attribute, "eq", None),
            *(Predicate(attribute, operator, value) for operator in NUMBER_OPERATORS for value in numbers),
            *(Predicate(attribute, operator, value) for operator in STRING_OPERATORS for value in strings),
        ]

    pools = [on([0, -0.0, 1, 1.5], []), on([1, 1.0, math.nextafter(1.0, 2.0)], [])]
    pools += [on([BIG, BIG + 1, BIG + 2, float(BIG + 2)], []), on([INT64_MAX, 2.0**63, INT64_MIN], [])]
    pools += [
        on([], ["a", "ab", "abc", "b", "bc"]),
        on([], ["", "a", "aa", "é", "aé"]),
        on(NUMBERS, []),
        on([], STRINGS),
    ]
    return st.one_of([st.lists(st.sampled_from(pool), max_size=3) for pool in [*pools, on(NUMBERS, STRINGS)]])


close_subscription = (
    st.tuples(_close(ATTRIBUTES[0]), _close(ATTRIBUTES[1]))
    .filter(any)
    .map(lambda found: Subscription(tuple(found[0] + found[1])))
)
"""Subscriptions that have much to do with each other."""

lattice_subscription = (
    st.tuples(*[st.sampled_from([None, None, 0, 1])] * 3)
    .filter(lambda found: found != (None, None, None))
    .map(lambda found: Subscription(tuple(Predicate("abc"[i], ">", n) for i, n in enumerate(found) if n is not None)))
)
"""Subscriptions that cover each other along many ways."""

values = numbers | strings
any_publication = st.dictionaries(names, values, min_size=1, max_size=6)
VALUES = [*NUMBERS, *STRINGS, math.nan, math.inf, -math.inf]
close_publication = st.fixed_dictionaries({}, optional={name: st.sampled_from(VALUES) for name in ATTRIBUTES[:2]})


def brute_matches(subscription: Subscription, publication: Mapping[str, str | float]) -> bool:
    """Decide by the words of the language alone, with exact numbers; shares no code with the package."""
    for predicate in subscription.predicates:
        wanted, operator = predicate.value, predicate.operator
        if predicate.attribute not in publication:
            return False
        value = publication[predicate.attribute]
        if value != value:  # noqa: PLR0124 - NaN
            return False
        if wanted is None:  # the wildcard
            continue
        if isinstance(wanted, str) != isinstance(value, str):
            return False
        if operator == "isPresent":
            continue
        if not (_text_holds if isinstance(wanted, str) else _number_holds)(operator, value, wanted):
            return False
    return True


def _text_holds(operator: str, value: str, wanted: str) -> bool:
    if operator in ("eq", "neq"):
        return (value == wanted) == (operator == "eq")
    places = [i for i in range(len(value) + 1) if value[i : i + len(wanted)] == wanted]
    if operator == "str-prefix":
        return 0 in places
    if operator == "str-suffix":
        return len(value) - len(wanted) in places
    assert operator == "str-contains"
    return bool(places)


def _number_holds(operator: str, value: float, wanted: float) -> bool:
    if value in (math.inf, -math.inf):
        sign = 1 if value > 0 else -1
    else:
        difference = Fraction(value) - Fraction(wanted)
        sign = (difference > 0) - (difference < 0)
    signs = {"=": (0,), "<>": (-1, 1), "<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1)}
    return sign in signs[operator]


def brute_covers(a: Subscription, b: Subscription) -> bool:
    """Try every value that could tell the two apart."""
    if brute_contradicts(b):
        return True
    of_a, of_b = _by_attribute(a), _by_attribute(b)
    return set(of_a) <= set(of_b) and all(
        _satisfies(of_a[name], value)
        for name in of_a
        for value in _witnesses(of_a[name] + of_b[name], of_b[name])
        if _satisfies(of_b[name], value)
    )


def brute_contradicts(a: Subscription) -> bool:
    return any(
        not any(_satisfies(found, value) for value in _witnesses(found, found)) for found in _by_attribute(a).values()
    )


def brute_intersects(a: Subscription, b: Subscription) -> bool:
    return not brute_contradicts(Subscription(a.predicates + b.predicates))


def brute_poset(subscriptions: dict[int, Subscription]) -> tuple[list[str], list[tuple[str, str]]]:
    """Find the covering set and the direct edges of subscriptions by number, from the definition."""
    over = {(a, b): brute_covers(x, y) for a, x in subscriptions.items() for b, y in subscriptions.items()}
    lowest = {a: min(b for b in subscriptions if over[a, b] and over[b, a]) for a in subscriptions}
    tops = sorted(set(lowest.values()))
    strict = {(a, b) for a in tops for b in tops if a != b and over[a, b]}
    css = [a for a in tops if not brute_contradicts(subscriptions[a]) and not any((b, a) in strict for b in tops)]
    direct = [(a, b) for a, b in strict if not any((a, c) in strict and (c, b) in strict for c in tops)]
    direct += [(lowest[a], a) for a in subscriptions if lowest[a] != a]
    return [str(a) for a in css], [(str(a), str(b)) for a, b in sorted(direct)]


def _by_attribute(subscription: Subscription) -> dict[str, list[Predicate]]:
    found: dict[str, list[Predicate]] = {}
    for predicate in subscription.predicates:
        found.setdefault(predicate.attribute, []).append(predicate)
    return found


def _satisfies(found: list[Predicate], value: str | float) -> bool:
    return brute_matches(Subscription(tuple(found)), {found[0].attribute: value})


def _witnesses(found: list[Predicate], narrow: list[Predicate]) -> list[str | float]:
    """Return values of which one satisfies ``narrow`` but not the others, if there is any such value at all."""
    witnesses: list[str | float] = [0, 0.5, -math.inf, math.inf]
    for predicate in found:
        if isinstance(predicate.value, int | float):
            witnesses += _neighbours(predicate.value, len(found))
        elif predicate.value is not None:
            witnesses.append(predicate.value)
    fresh = next(c for c in map(chr, range(0x3B1, 0x110000)) if not any(c in str(p.value) for p in found))

    def operands(operator: str) -> list[str]:
        return [str(p.value) for p in narrow if p.operator == operator]

    start = max(operands("str-prefix"), key=len, default="")
    end = max(operands("str-suffix"), key=len, default="")
    middle = "".join(part + fresh for part in operands("str-contains"))
    return [*witnesses, fresh, start + fresh + middle + end]


def _neighbours(number: float, steps: int) -> list[float]:
    found: list[float] = [number]
    for way in (-math.inf, math.inf):
        at = number
        for _ in range(steps):
            at = math.nextafter(at, way)
            found.append(at)
    if abs(number) < 2**64:
        near = range(int(number) - steps, int(number) + steps + 1)
        found += [n for n in near if INT64_MIN <= n <= INT64_MAX]
        found += [float(n) for n in near]
    return found
