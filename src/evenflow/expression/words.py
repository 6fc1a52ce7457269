"""The tokens of an expression, and the error with the place of a wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from evenflow.errors import BadInput


class ExpressionError(BadInput):
    """A text that is not an expression; the message has the place, what was found and what is allowed.

    Examples
    --------
    >>> error = ExpressionError("cpu > ?", 6, "'?'", "a value")
    >>> error.line, error.column, str(error)
    (1, 7, "expression, line 1, column 7: given '?', allowed is a value.")
    """

    def __init__(self, text: str, at: int, given: str, allowed: str) -> None:
        self.line = text.count("\n", 0, at) + 1
        self.column = at - text.rfind("\n", 0, at)
        self.place = f"line {self.line}, column {self.column}"
        super().__init__(given, allowed, f"expression, {self.place}")
        self.args = (text, at, given, allowed)  # the arguments of __init__, so that the error can be pickled


class Word(NamedTuple):
    """One token: ``kind`` is number, string, parameter, name, key (AND, OR …), symbol or end."""

    kind: str
    text: str
    at: int

    def __str__(self) -> str:
        if self.kind == "end":
            return "the end"
        # A message is one sentence, so long strings are shortened.
        return repr(self.text) if len(self.text) <= 40 else repr(self.text[:40] + "…")


_WORD = re.compile(
    r"""(?P<space>\s+)
      | (?P<number>0[xX][0-9a-fA-F]+ | (?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<string>'(?:[^']|'')*+')
      | (?P<parameter>%[0-9]+)
      | (?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)
      | (?P<symbol><=|>=|<>|!=|==|[=<>()+\-*/,≤≥≠])""",
    re.VERBOSE,
)
_KEYS = frozenset({"AND", "OR", "NOT", "BETWEEN", "LIKE", "IN", "TRUE", "FALSE"})
_SPELLINGS = {"==": "=", "!=": "<>", "≠": "<>", "≤": "<=", "≥": ">="}
_ANYTHING = "a number, a 'string', a name, a parameter such as %0, an operator or a parenthesis"


def words(text: str) -> Iterator[Word]:
    """Yield the tokens of a text; the last one has the kind ``end``.

    Examples
    --------
    >>> [word.text for word in words("cpu >= 70 and x != 'it''s'")]
    ['cpu', '>=', '70', 'AND', 'x', '<>', "'it''s'", '']
    """
    at = 0
    while at < len(text):
        match = _WORD.match(text, at)
        if match is None:
            if text[at] == "'":
                raise ExpressionError(text, at, "a string without an end", "a closing quote; inside a string ' is ''")
            raise ExpressionError(text, at, repr(text[at]), _ANYTHING)
        kind, word, start, at = str(match.lastgroup), match.group(), at, match.end()
        if kind in ("number", "parameter") and re.match(r"[\w.]", text[at : at + 1]):
            raise ExpressionError(text, start, repr(text[start : at + 1]), "a number without letters or a second dot")
        if kind == "name" and word.upper() in _KEYS:
            yield Word("key", word.upper(), start)
        elif kind != "space":
            yield Word(kind, _SPELLINGS.get(word, word), start)
    yield Word("end", "", at)
