r"""The subscription language: publications are attribute-value pairs, subscriptions are conjunctions of predicates.

The language of Cheung 2006, section 2.1.2, made exact::

    publication   [class,'STOCK'],[symbol,'YHOO'],[volume,203400]
    subscription  [class,eq,'STOCK'],[volume,>,300000]

An advertisement has the form of a subscription.
`docs/subscriptions.md` holds the grammar, which the two patterns below spell out.

A number without a point or an exponent is an ``int`` of 64 bits and stays exact beyond 2^53; every other number is a ``float``.
Numbers compare by their mathematical value, whichever of the two they are.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

Value = str | int | float
Publication = Mapping[str, Value]

STRING_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "eq": lambda value, operand: value == operand,
    "neq": lambda value, operand: value != operand,
    "str-prefix": str.startswith,
    "str-suffix": str.endswith,
    "str-contains": str.__contains__,
    "isPresent": lambda value, operand: True,
}
NUMBER_OPERATORS: Mapping[str, Callable[[int | float, int | float], bool]] = {
    "=": lambda value, operand: value == operand,
    "<>": lambda value, operand: value != operand,
    "<": lambda value, operand: value < operand,
    "<=": lambda value, operand: value <= operand,
    ">": lambda value, operand: value > operand,
    ">=": lambda value, operand: value >= operand,
    "isPresent": lambda value, operand: True,
}
WILDCARD_OPERATORS = ("eq",)
OPERATORS = (*STRING_OPERATORS, *(name for name in NUMBER_OPERATORS if name not in STRING_OPERATORS))

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Predicate:
    """One condition on one attribute; ``value`` is None for the wildcard ``*``."""

    attribute: str
    operator: str
    value: Value | None


@dataclass(frozen=True, slots=True)
class Subscription:
    """A conjunction of predicates; advertisements have the same form."""

    predicates: tuple[Predicate, ...]


class LanguageError(ValueError):
    """A text is not in the language.

    Parameters
    ----------
    message
        What was found and what is allowed.
    line, column
        Where, both counted from 1; columns count characters.
    """

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message, line, column)
        self.message = message
        self.line = line
        self.column = column

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.message}"


def parse_subscription(text: str) -> Subscription:
    """Read a subscription or an advertisement.

    Parameters
    ----------
    text
        For example ``[class,eq,'STOCK'],[volume,>,300000]``; white space may stand between the marks.

    Raises
    ------
    LanguageError
        With the line and the column of the first fault.

    Examples
    --------
    >>> parse_subscription("[volume,>,300000]")
    Subscription(predicates=(Predicate(attribute='volume', operator='>', value=300000),))
    """
    predicates = []
    for found in _items(_PREDICATE, text):
        try:
            predicates.append(_predicate(found["attribute"], found["operator"], found["operand"]))
        except _Fault as fault:
            raise _error(text, found.start(fault.part) + fault.offset, fault.message) from None
    return Subscription(tuple(predicates))


def parse_publication(text: str) -> dict[str, Value]:
    """Read a publication.

    Parameters
    ----------
    text
        For example ``[class,'STOCK'],[volume,203400]``; no attribute may occur twice.

    Raises
    ------
    LanguageError
        With the line and the column of the first fault.

    Examples
    --------
    >>> parse_publication("[class,'STOCK'],[volume,203400]")
    {'class': 'STOCK', 'volume': 203400}
    """
    publication: dict[str, Value] = {}
    for found in _items(_PAIR, text):
        attribute = found["attribute"]
        if attribute in publication:
            raise _error(text, found.start("attribute"), f"the attribute {attribute} occurs twice in the publication")
        try:
            value = _value(found["operand"])
        except _Fault as fault:
            raise _error(text, found.start(fault.part) + fault.offset, fault.message) from None
        if value is None:
            raise _error(text, found.start("operand"), "a publication has values, the wildcard * belongs to subscriptions")
        publication[attribute] = value
    return publication


def format_subscription(subscription: Subscription) -> str:
    """Write a subscription so that :func:`parse_subscription` reads an equal one.

    Raises
    ------
    ValueError
        If the language has no text for it, such as NaN or an attribute with a comma.
    """
    if not subscription.predicates:
        raise ValueError("a subscription without predicates cannot be written")
    return ",".join(_format_predicate(predicate) for predicate in subscription.predicates)


def format_publication(publication: Publication) -> str:
    """Write a publication so that :func:`parse_publication` reads an equal one.

    Raises
    ------
    ValueError
        If the language has no text for it, such as NaN or an attribute with a comma.
    """
    if not publication:
        raise ValueError("a publication without attributes cannot be written")
    return ",".join(f"[{_format_attribute(name)},{_format_value(value)}]" for name, value in publication.items())


def matches(subscription: Subscription, publication: Publication) -> bool:
    """Tell whether every predicate holds for the publication.

    A predicate on a missing attribute is false, whatever its operator, and NaN counts as missing.
    Strings and numbers are never converted into each other: a predicate on the other type is false.
    """
    return all(_holds(predicate, publication.get(predicate.attribute)) for predicate in subscription.predicates)


def _holds(predicate: Predicate, value: Value | None) -> bool:
    operand = predicate.value
    if value is None or value != value:  # NaN is the one value that differs from itself
        return False
    if operand is None:
        return True
    if isinstance(operand, str):
        return isinstance(value, str) and STRING_OPERATORS[predicate.operator](value, operand)
    return not isinstance(value, str) and NUMBER_OPERATORS[predicate.operator](value, operand)


# The grammar. Each pattern matches as many of its parts, in order, as the text has;
# `lastindex` then says how far it came and `end()` where the next part should have been.
# All repetitions are possessive: no text makes the patterns backtrack.

_SPACE = r"[ \t\r\n]*+"
_NAME = r"(?P<attribute>[^\s\[\],'\\*\x00-\x1f\x7f]++)"
_WORD = r"[^\s\[\],']++"
_OPERATOR = rf"(?P<operator>{_WORD})"
_OPERAND = rf"(?P<operand>'(?:[^'\\]++|\\['\\])*+'|{_WORD})"
_END = r"(,|\Z)"

_SAID = {
    r"(\[)": "[",
    _NAME: "the name of an attribute",
    r"(,)": "a comma",
    _OPERATOR: "an operator",
    _OPERAND: "a number, a string in single quotes or *",
    r"(\])": "]",
    _END: "a comma or the end",
}


@dataclass(frozen=True)
class _Form:
    """A bracketed item as the sequence of its parts."""

    parts: tuple[str, ...]
    pattern: re.Pattern[str]


def _form(*parts: str) -> _Form:
    pattern = ""
    for part in reversed(parts):
        pattern = f"{_SPACE}(?:{part}{pattern})?+"
    return _Form(parts, re.compile(pattern))


_PREDICATE = _form(r"(\[)", _NAME, r"(,)", _OPERATOR, r"(,)", _OPERAND, r"(\])", _END)
_PAIR = _form(r"(\[)", _NAME, r"(,)", _OPERAND, r"(\])", _END)
_NAME_ONLY = re.compile(_NAME)
_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?P<point>\.[0-9]*)?|(?P<bare>\.[0-9]+))(?P<exponent>[eE][+-]?[0-9]+)?")
_STRING_START = re.compile(r"'(?:[^'\\]++|\\['\\])*+")
_ESCAPED = re.compile(r"\\(.)")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class _Fault(Exception):
    """A part that has the right form but not a right content."""

    def __init__(self, part: str, message: str, offset: int = 0) -> None:
        super().__init__(part, message, offset)
        self.part = part
        self.message = message
        self.offset = offset


def _error(text: str, position: int, message: str) -> LanguageError:
    start = text.rfind("\n", 0, position) + 1
    return LanguageError(message, text.count("\n", 0, position) + 1, position - start + 1)


def _items(form: _Form, text: str) -> Iterator[re.Match[str]]:
    """Yield the bracketed items of a text, which are separated by commas."""
    if not text.isascii() and (lone := _SURROGATE.search(text)):
        raise _error(text, lone.start(), "half of a surrogate pair is not a character")
    match = form.pattern.match
    position = 0
    while True:
        found = match(text, position)
        assert found is not None  # every part is optional
        if found.lastindex != len(form.parts):
            raise _missing(form, text, found)
        yield found
        if not found[len(form.parts)]:
            return
        position = found.end()


def _missing(form: _Form, text: str, found: re.Match[str]) -> LanguageError:
    """Say which part should have followed what was found."""
    position = found.end()
    part = form.parts[found.lastindex or 0]
    if part == _OPERAND and text[position : position + 1] == "'":
        return _open_string(text, position)
    return _error(text, position, f"expected {_SAID[part]}, found {_seen(text, position)}")


def _open_string(text: str, position: int) -> LanguageError:
    start = _STRING_START.match(text, position)
    assert start is not None
    if start.end() == len(text):
        return _error(text, position, "the string that starts here has no closing quote")
    return _error(text, start.end(), r"in a string a backslash stands before ' or \ only")


def _seen(text: str, position: int) -> str:
    return repr(text[position]) if position < len(text) else "the end"


@lru_cache(maxsize=1 << 16)  # subscriptions repeat each other's predicates: equal texts share one object
def _predicate(attribute: str, operator: str, operand: str) -> Predicate:
    value = _value(operand)
    if value is None:
        allowed, kind = tuple(WILDCARD_OPERATORS), "the wildcard *"
    elif isinstance(value, str):
        allowed, kind = tuple(STRING_OPERATORS), "a string"
    else:
        allowed, kind = tuple(NUMBER_OPERATORS), "a number"
    if operator not in OPERATORS:
        raise _Fault("operator", f"unknown operator {_short(operator)}, expected one of {' '.join(OPERATORS)}")
    if operator not in allowed:
        raise _Fault("operator", f"the operator {operator} does not take {kind}, which takes {' '.join(allowed)}")
    return Predicate(attribute, operator, value)


def _value(operand: str) -> Value | None:
    if operand[0] == "'":
        return _ESCAPED.sub(r"\1", operand[1:-1]) if "\\" in operand else operand[1:-1]
    if operand == "*":
        return None
    number = _NUMBER.fullmatch(operand)
    if number is None:
        raise _Fault("operand", f"{_short(operand)} is not a number, a string in single quotes or *")
    if number["point"] is None and number["bare"] is None and number["exponent"] is None:
        # The length is tested first: Python refuses to convert very long digit strings.
        integer = int(operand) if len(operand) <= 20 else INT64_MAX + 1
        if not INT64_MIN <= integer <= INT64_MAX:
            raise _Fault("operand", f"{_short(operand)} is beyond a 64-bit integer, {INT64_MIN} to {INT64_MAX}")
        return integer
    real = float(operand)
    if math.isinf(real):
        raise _Fault("operand", f"{_short(operand)} is beyond a 64-bit float")
    return real


def _short(word: str) -> str:
    """Shorten a word for a message, and keep control characters away from the terminal."""
    word = word if len(word) <= 40 else f"{word[:37]}..."
    return word if word.isprintable() else repr(word)


def _format_predicate(predicate: Predicate) -> str:
    attribute, operand = _format_attribute(predicate.attribute), "*" if predicate.value is None else _format_value(predicate.value)
    try:
        _predicate(attribute, predicate.operator, operand)
    except _Fault as fault:
        raise ValueError(fault.message) from None
    return f"[{attribute},{predicate.operator},{operand}]"


def _format_attribute(name: str) -> str:
    if not _NAME_ONLY.fullmatch(name) or _SURROGATE.search(name):
        raise ValueError(f"{name!r} cannot be the name of an attribute")
    return name


def _format_value(value: Value) -> str:
    if isinstance(value, str):
        if _SURROGATE.search(value):
            raise ValueError(f"{value!r} holds half of a surrogate pair")
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} cannot be written")
    text = repr(value)
    try:
        _value(text)
    except _Fault as fault:
        raise ValueError(fault.message) from None
    return text
