"""The parts of a parsed expression: closures that compute a value from a mapping of names."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

Value = int | float | str | bool | None
"""The value of an expression; ``None`` if a name has no value or the arithmetic has no result."""

Values = Mapping[str, Any]
Test = Callable[[Values], bool]


class Kind(StrEnum):
    """The kind of a part's value, as far as its text determines it."""

    NUMBER = "a number"
    STRING = "a string"
    CONDITION = "true or false"
    ANY = "any value"


class Part(NamedTuple):
    """A compiled part: the kind of its value, and the function that computes it."""

    kind: Kind
    get: Callable[[Values], Any]
    name: str | None = None  # set for a bare name
    constant: bool = False

    @property
    def value(self) -> Any:
        """The value of a constant."""
        return self.get({})


_KINDS: Mapping[type, Kind] = {int: Kind.NUMBER, float: Kind.NUMBER, str: Kind.STRING, bool: Kind.CONDITION}
_TYPES: Mapping[Kind, tuple[type, ...]] = {Kind.NUMBER: (int, float), Kind.STRING: (str,), Kind.CONDITION: (bool,)}


def constant(value: Value) -> Part:
    """Return the part with a constant value of one of the four plain types."""
    return Part(_KINDS[type(value)], lambda _: value, constant=True)


def plain(value: object) -> Value:
    """Return the value as an int, float, str or bool, and ``None`` for anything else.

    Numpy scalars would warn where Python raises, and overflow where Python does not.

    Examples
    --------
    >>> import numpy as np
    >>> plain(np.float32(0.5)), plain(np.True_), plain([1])
    (0.5, True, None)
    """
    if isinstance(value, np.generic):
        value = value.item()
    for kind in _KINDS:
        if type(value) is kind:
            return value  # type: ignore[return-value]
    for kind in (int, float, str):  # enumerations and other subclasses
        if isinstance(value, kind):
            return kind(value)
    return None


def named(name: str) -> Part:
    """Return the part for a name; a dotted name is a key of its own or a path through nested mappings."""
    path = name.split(".")

    def look_up(values: Values) -> Value:
        value = values.get(name)
        if type(value) in _KINDS:
            return value
        if value is None and len(path) > 1:
            value = values
            for step in path:
                value = value.get(step) if isinstance(value, Mapping) else None
        return plain(value)

    return Part(Kind.ANY, look_up, name=name)


def _differ(a: Any, b: Any) -> bool:
    return bool(a < b or a > b)  # unlike !=, false for NaN


COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": _differ,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def comparison(left: Part, sign: str, right: Part) -> Part:
    """Return the comparison of two parts, which is false unless both values are of one kind."""
    if left.constant and not right.constant:
        left, sign, right = right, _MIRRORED.get(sign, sign), left
    compare, get_left, get_right, kinds = COMPARISONS[sign], left.get, right.get, _KINDS

    def general(values: Values) -> bool:
        a, b = get_left(values), get_right(values)
        kind = kinds.get(type(a))
        return kind is not None and kind is kinds.get(type(b)) and compare(a, b)

    if left.name is None or not right.constant:
        return Part(Kind.CONDITION, general)

    # The most frequent comparison by far is a name with a constant: this saves two calls.
    name, value, types = left.name, right.value, _TYPES[right.kind]

    def name_with_constant(values: Values) -> bool:
        given = values.get(name)
        return compare(given, value) if type(given) in types else general(values)

    return Part(Kind.CONDITION, name_with_constant)


def arithmetic(first: Part, rest: Sequence[tuple[str, Part]]) -> Part:
    """Return the arithmetic of parts, from left to right; it has no value unless all are numbers and there is a result."""
    get_first, steps = first.get, tuple((_ARITHMETIC[sign], part.get) for sign, part in rest)

    def calculate(values: Values) -> Value:
        result = get_first(values)
        if type(result) not in (int, float):
            return None
        for combine, get in steps:
            other = get(values)
            if type(other) not in (int, float):
                return None
            try:
                result = combine(result, other)
            except ArithmeticError:  # division by zero, or an integer too large to become a float
                return None
        return result  # type: ignore[no-any-return]

    part = Part(Kind.NUMBER, calculate)
    if first.constant and all(other.constant for _, other in rest):
        result = part.value
        return Part(Kind.NUMBER, lambda _: result, constant=True)
    return part


def condition(part: Part) -> Test:
    """Return the part as a test: a name is true only if its value is ``True``."""
    get = part.get
    return get if part.kind is Kind.CONDITION else lambda values: get(values) is True


def both(parts: Sequence[Part]) -> Part:
    """Return the condition that all conditions hold."""
    tests = [condition(part) for part in parts]
    if len(tests) == 2:
        first, second = tests
        return Part(Kind.CONDITION, lambda values: first(values) and second(values))
    return Part(Kind.CONDITION, lambda values: all(test(values) for test in tests))


def either(parts: Sequence[Part]) -> Part:
    """Return the condition that some condition holds."""
    tests = [condition(part) for part in parts]
    if len(tests) == 2:
        first, second = tests
        return Part(Kind.CONDITION, lambda values: first(values) or second(values))
    return Part(Kind.CONDITION, lambda values: any(test(values) for test in tests))


def negation(part: Part) -> Part:
    """Return the negated condition."""
    test = condition(part)
    return Part(Kind.CONDITION, lambda values: not test(values))


def membership(part: Part, members: Sequence[Value], *, negated: bool) -> Part:
    """Return the condition that a value is (not) one of the members; it is false for a value of another kind."""
    types, choices, get = _TYPES[_KINDS[type(members[0])]], frozenset(members), part.get

    def is_member(values: Values) -> bool:
        value = get(values)
        return type(value) in types and value == value and (value in choices) is not negated  # noqa: PLR0124  NaN

    return Part(Kind.CONDITION, is_member)


def likeness(part: Part, pattern: str, *, negated: bool) -> Part:
    """Return the condition that a string does (not) match a pattern; it is false for a value that is no string."""
    matches, get = _like(pattern), part.get

    def is_like(values: Values) -> bool:
        value = get(values)
        return type(value) is str and matches(value) is not negated

    return Part(Kind.CONDITION, is_like)


def _like(pattern: str) -> Callable[[str], bool]:
    """Return a matcher for ``%`` (any run of characters) and ``_`` (any one character).

    Between two ``%`` the leftmost match is always the best, so there is no backtracking;
    a single regular expression can take exponential time on a hostile pattern.
    """
    first, *rest = [
        re.compile("".join("." if character == "_" else re.escape(character) for character in run), re.DOTALL)
        for run in pattern.split("%")
    ]
    if not rest:
        return lambda text: first.fullmatch(text) is not None
    *middle, last = rest
    last_length = len(pattern) - pattern.rindex("%") - 1

    def matches(text: str) -> bool:
        matched = first.match(text)
        for run in middle:
            if matched is None:
                return False
            matched = run.search(text, matched.end())
        tail = len(text) - last_length
        return matched is not None and matched.end() <= tail and last.match(text, tail) is not None

    return matches
