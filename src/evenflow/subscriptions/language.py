r"""The subscription language: publications are attribute-value pairs, subscriptions are conjunctions of predicates.

The language of Cheung 2006, section 2.1.2, made exact::

    publication   [class,'STOCK'],[symbol,'YHOO'],[volume,203400]
    subscription  [class,eq,'STOCK'],[volume,>,300000]

An advertisement has the form of a subscription.
`docs/subscriptions.md` has the grammar; the two patterns below implement it.

A number without a point or an exponent is a 64-bit ``int`` and stays exact beyond 2^53; any other is a ``float``.
Both compare by their mathematical value.
"""

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
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
    "isPresent": lambda _value, _operand: True,
}
NUMBER_OPERATORS: Mapping[str, Callable[[int | float, int | float], bool]] = {
    "=": lambda value, operand: value == operand,
    "<>": lambda value, operand: value != operand,
    "<": lambda value, operand: value < operand,
    "<=": lambda value, operand: value <= operand,
    ">": lambda value, operand: value > operand,
    ">=": lambda value, operand: value >= operand,
    "isPresent": lambda _value, _operand: True,
}
WILDCARD_OPERATORS: Collection[str] = ("eq",)
OPERATORS = (*STRING_OPERATORS, *(name for name in NUMBER_OPERATORS if name not in STRING_OPERATORS))

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
EXACT = 2**53  # up to here every integer is a float


@dataclass(frozen=True, slots=True)
class Predicate:
    """One condition on one attribute; ``value`` is None for the wildcard ``*``.

    Raises
    ------
    ValueError
        If the language cannot express it: an attribute with a comma, an operator of the other type, NaN.
    """

    attribute: str
    operator: str
    value: Value | None

    def __post_init__(self) -> None:
        _check_attribute(self.attribute)
        if self.value is None:
            kind, allowed = "the wildcard *", WILDCARD_OPERATORS
        else:
            _check_value(self.value)
            is_string = isinstance(self.value, str)
            kind, allowed = ("a string", STRING_OPERATORS) if is_string else ("a number", NUMBER_OPERATORS)
        if self.operator not in OPERATORS:
            raise ValueError(f"unknown operator {_short(self.operator)}, expected one of {' '.join(OPERATORS)}")
        if self.operator not in allowed:
            raise ValueError(f"the operator {self.operator} does not go with {kind}, expected {' '.join(allowed)}")


@dataclass(frozen=True, slots=True)
class Subscription:
    """A conjunction of one or more predicates; advertisements have the same form."""

    predicates: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        if not self.predicates:
            raise ValueError("a subscription has at least one predicate")


class LanguageError(ValueError):
    """A text that is not in the language.

    Parameters
    ----------
    message
        What was found and what is allowed.
    line, column
        The place, both counted from 1; columns count characters.
    """

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message, line, column)
        self.message = message
        self.line = line
        self.column = column

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.message}"


def parse_subscription(text: str) -> Subscription:
    """Return the subscription or advertisement that a text holds.

    Parameters
    ----------
    text
        For example ``[class,eq,'STOCK'],[volume,>,300000]``; white space is allowed between the tokens.

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
    for item in _items(_PREDICATE, text):
        try:
            predicates.append(_predicate(item["attribute"], item["operator"], item["operand"]))
        except _OperandError as error:
            raise _error(text, item.start("operand"), str(error)) from None
        except ValueError as error:
            raise _error(text, item.start("operator"), str(error)) from None
    return Subscription(tuple(predicates))


def parse_publication(text: str) -> dict[str, Value]:
    """Return the publication that a text holds.

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
    for item in _items(_PAIR, text):
        attribute = item["attribute"]
        if attribute in publication:
            raise _error(
                text, item.start("attribute"), f"the attribute {_short(attribute)} occurs twice in the publication"
            )
        try:
            value = _value(item["operand"])
        except _OperandError as error:
            raise _error(text, item.start("operand"), str(error)) from None
        if value is None:
            raise _error(text, item.start("operand"), "the wildcard * stands in subscriptions only, expected a value")
        publication[attribute] = value
    return publication


def format_subscription(subscription: Subscription) -> str:
    """Return a subscription as text, which :func:`parse_subscription` reads."""
    return ",".join(
        f"[{p.attribute},{p.operator},{'*' if p.value is None else _format_value(p.value)}]"
        for p in subscription.predicates
    )


def format_publication(publication: Publication) -> str:
    """Return a publication as text, which :func:`parse_publication` reads.

    Raises
    ------
    ValueError
        If the language cannot express it, such as NaN or an attribute with a comma.
    """
    if not publication:
        raise ValueError("a publication without attributes cannot be written")
    for attribute, value in publication.items():
        _check_attribute(attribute)
        _check_value(value)
    return ",".join(f"[{attribute},{_format_value(value)}]" for attribute, value in publication.items())


def matches(subscription: Subscription, publication: Publication) -> bool:
    """Return whether every predicate holds for the publication.

    A predicate on a missing attribute is false for every operator, and NaN counts as missing.
    Strings and numbers are never converted into each other: a predicate on the other type is false.
    """
    return all(_holds(predicate, publication.get(predicate.attribute)) for predicate in subscription.predicates)


def _holds(predicate: Predicate, value: Value | None) -> bool:
    operand = predicate.value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return False
    if operand is None:
        return True
    if isinstance(operand, str):
        return isinstance(value, str) and STRING_OPERATORS[predicate.operator](value, operand)
    return not isinstance(value, str) and NUMBER_OPERATORS[predicate.operator](value, operand)


# The grammar. Each pattern matches as many of its parts, in order, as the text has;
# then `lastindex` is the last part that matched and `end()` where the next part should have been.
# All repetitions are possessive: no text makes the patterns backtrack.

_SPACE = r"[ \t\r\n]*+"
_NAME = r"(?P<attribute>[^\s\[\],'\\*\x00-\x1f\x7f-\x9f]++)"
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
_INTEGER = r"(?:0|[1-9][0-9]*+)"
_EXPONENT = r"[eE][+-]?+[0-9]++"
_NUMBER = re.compile(
    rf"[+-]?+(?:(?P<real>{_INTEGER}(?:\.[0-9]*+(?:{_EXPONENT})?+|{_EXPONENT})|\.[0-9]++(?:{_EXPONENT})?+)|{_INTEGER})"
)
_STRING_START = re.compile(r"'(?:[^'\\]++|\\['\\])*+")
_ESCAPED = re.compile(r"\\(.)")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class _OperandError(ValueError):
    """A text in the place of an operand that is not an operand."""


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
        item = match(text, position)
        assert item is not None  # every part is optional
        if item.lastindex != len(form.parts):
            raise _missing(form, text, item)
        yield item
        if not item[len(form.parts)]:
            return
        position = item.end()


def _missing(form: _Form, text: str, item: re.Match[str]) -> LanguageError:
    """Return the error for the first missing part."""
    position = item.end()
    part = form.parts[item.lastindex or 0]
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


@lru_cache(maxsize=1 << 16)  # subscriptions share many predicates: equal texts share one object
def _predicate(attribute: str, operator: str, operand: str) -> Predicate:
    return Predicate(attribute, operator, _value(operand))


def _value(operand: str) -> Value | None:
    if operand[0] == "'":
        return _ESCAPED.sub(r"\1", operand[1:-1]) if "\\" in operand else operand[1:-1]
    if operand == "*":
        return None
    number = _NUMBER.fullmatch(operand)
    if number is None:
        raise _OperandError(f"{_short(operand)} is not a number, a string in single quotes or *")
    # Tested by length first: Python refuses to convert very long digit strings.
    if number["real"] is not None or len(operand) > 20:
        value: int | float = float(operand)
    else:
        value = int(operand)
    if number["real"] is None and not INT64_MIN <= value <= INT64_MAX:
        raise _OperandError(f"{_short(operand)} is beyond a 64-bit integer, {INT64_MIN} to {INT64_MAX}")
    if math.isinf(value):
        raise _OperandError(f"{_short(operand)} is beyond a 64-bit float")
    return value


def _short(word: str) -> str:
    """Return a word for a message: short, and without control characters."""
    word = word if len(word) <= 40 else f"{word[:37]}..."
    return word if word.isprintable() else repr(word)


def _format_value(value: Value) -> str:
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return repr(float(value)) if isinstance(value, float) else repr(value)  # numpy floats have another repr


def _check_attribute(name: str) -> None:
    if not _NAME_ONLY.fullmatch(name) or _SURROGATE.search(name):
        raise ValueError(f"{name!r} cannot be the name of an attribute")


def _check_value(value: Value) -> None:
    if isinstance(value, str):
        if not value.isascii() and _SURROGATE.search(value):
            raise ValueError(f"{value!r} holds half of a surrogate pair")
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is neither a string nor a number")
    elif isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX:
        raise ValueError(f"{value} is beyond a 64-bit integer, {INT64_MIN} to {INT64_MAX}")
    elif not math.isfinite(value):
        raise ValueError(f"{value} cannot be written")
