"""The parser of expressions, by operator precedence."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf, isnan
from typing import NoReturn

from evenflow.expression import parts
from evenflow.expression.parts import Kind, Part, Value
from evenflow.expression.words import ExpressionError, Word, words

# Together these bound the stack: the deepest text they allow needs half of Python's default 1,000 frames.
MAX_LENGTH = 10_000
MAX_DEPTH = 32
MAX_DIGITS = 100

_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN = range(7)
_COMPARISONS = (*parts.COMPARISONS, "BETWEEN", "LIKE", "IN", "NOT")
_BINDING = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(_COMPARISONS, _COMPARE),
    **dict.fromkeys("+-", _SUM),
    **dict.fromkeys("*/", _PRODUCT),
}
_VALUE = "a number, a 'string', a name, a parameter such as %0, TRUE, FALSE or ("
_CONDITION = "a condition, such as x > 1"


class Grammar:
    """The parser of one text; ``whole`` returns its part, ``names`` has the names in it."""

    def __init__(self, text: str, parameters: Sequence[Value] = ()) -> None:
        if len(text) > MAX_LENGTH:
            given, allowed = f"{len(text):,} characters", f"at most {MAX_LENGTH:,}"
            raise ExpressionError(text, MAX_LENGTH, given, allowed)
        self.names: dict[str, None] = {}  # an ordered set
        self._text = text
        self._parameters = parameters
        self._words = list(words(text))
        self._next = 0
        self._depth = 0

    def whole(self) -> Part:
        """Return the part for the whole text."""
        part = self._operation(_OR)
        if self._word.kind != "end":
            self._refuse(self._word, "an operator, AND, OR or the end")
        return part

    # -- reading --------------------------------------------------------------------------------

    @property
    def _word(self) -> Word:
        return self._words[self._next]

    def _take(self) -> Word:
        word = self._word
        self._next += 1
        return word

    def _sees(self, *texts: str) -> bool:
        return self._word.kind in ("key", "symbol") and self._word.text in texts

    def _need(self, text: str, purpose: str) -> None:
        if not self._sees(text):
            self._refuse(self._word, f"{text} {purpose}")
        self._next += 1

    def _refuse(self, word: Word, allowed: str, given: str = "") -> NoReturn:
        raise ExpressionError(self._text, word.at, given or str(word), allowed)

    def _check(self, start: Word, part: Part, needed: Kind, allowed: str) -> None:
        if Kind.ANY not in (part.kind, needed) and part.kind is not needed:
            self._refuse(start, allowed, f"{start}, which gives {part.kind}")

    # -- operators ------------------------------------------------------------------------------

    def _operation(self, weakest: int) -> Part:
        """Parse operands and the operators between them that bind at least as tightly as ``weakest``."""
        start, part = self._word, self._operand(weakest)
        while self._word.kind in ("key", "symbol"):
            binding = _BINDING.get(self._word.text, -1)
            if binding < weakest:
                break
            if binding == _COMPARE:
                part = self._comparison(start, part)
                if self._sees(*_COMPARISONS):
                    self._refuse(self._word, "one comparison at a time: a < b AND b < c")
            else:
                part = self._chain(start, part, binding)
        return part

    def _chain(self, start: Word, first: Part, binding: int) -> Part:
        """Parse the rest of ``a AND b AND c`` or ``a + b - c`` into one flat part, so that a long chain is not deep."""
        rest: list[tuple[str, Part]] = []
        needed, allowed = (Kind.NUMBER, "a number") if binding >= _SUM else (Kind.CONDITION, _CONDITION)
        self._check(start, first, needed, allowed)
        while self._word.kind in ("key", "symbol") and _BINDING.get(self._word.text) == binding:
            sign, begin = self._take(), self._word
            part = self._operation(binding + 1)
            self._check(begin, part, needed, allowed)
            rest.append((sign.text, part))
        if binding >= _SUM:
            return self._result(start, parts.arithmetic(first, rest))
        join = parts.either if binding == _OR else parts.both
        return join([first, *(part for _, part in rest)])

    def _comparison(self, start: Word, left: Part) -> Part:
        negated = self._sees("NOT")
        if negated:
            self._take()
            if not self._sees("BETWEEN", "LIKE", "IN"):
                self._refuse(self._word, "BETWEEN, LIKE or IN after NOT")
        sign = self._take()
        if sign.text == "BETWEEN":
            low = self._comparable(left)
            self._need("AND", "between the bounds of BETWEEN")
            high = self._comparable(left)
            if negated:
                return parts.either([parts.comparison(left, "<", low), parts.comparison(left, ">", high)])
            return parts.both([parts.comparison(left, ">=", low), parts.comparison(left, "<=", high)])
        if sign.text == "LIKE":
            self._check(start, left, Kind.STRING, "a string before LIKE")
            return parts.likeness(left, self._pattern(), negated=negated)
        if sign.text == "IN":
            return parts.membership(left, self._members(left), negated=negated)
        return parts.comparison(left, sign.text, self._comparable(left))

    def _comparable(self, left: Part) -> Part:
        start, part = self._word, self._operation(_SUM)
        self._check(start, part, left.kind, f"{left.kind}, as on the other side")
        return part

    def _pattern(self) -> str:
        start, part = self._word, self._operation(_SUM)
        if not part.constant or part.kind is not Kind.STRING:
            self._refuse(start, "a pattern in quotes, such as 'temp%', or a parameter that holds one")
        pattern: str = part.value
        return pattern

    def _members(self, left: Part) -> list[Value]:
        self._need("(", "after IN")
        members: list[Part] = []
        while True:
            start, part = self._word, self._comparable(members[0] if members else left)
            if not part.constant:
                self._refuse(start, "a constant in the list of IN: a number, a 'string' or a parameter")
            members.append(part)
            if not self._sees(","):
                self._need(")", "or a comma after a value of IN")
                return [member.value for member in members]
            self._take()

    # -- operands -------------------------------------------------------------------------------

    def _operand(self, weakest: int) -> Part:
        word = self._take()
        if word.kind == "name":
            self.names[word.text] = None
            return parts.named(word.text)
        if word.kind == "symbol" and word.text in ("(", "+", "-"):
            return self._nested(word, _OR if word.text == "(" else _SIGN)
        if word.kind == "key" and word.text == "NOT" and weakest <= _NOT:
            return self._nested(word, _NOT)
        return parts.constant(self._constant(word))

    def _nested(self, opening: Word, weakest: int) -> Part:
        """Parse what follows ``(``, ``NOT`` or a sign."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._refuse(opening, f"at most {MAX_DEPTH} levels of parentheses, NOT and signs")
        start, part = self._word, self._operation(weakest)
        self._depth -= 1
        if opening.text == "(":
            self._need(")", f"or an operator, for the ( of {ExpressionError(self._text, opening.at, '', '').place}")
            return part
        if opening.text == "NOT":
            self._check(start, part, Kind.CONDITION, _CONDITION)
            return parts.negation(part)
        self._check(start, part, Kind.NUMBER, "a number")
        return self._result(opening, parts.arithmetic(parts.constant(0), [(opening.text, part)]))

    def _result(self, start: Word, part: Part) -> Part:
        if part.constant and (part.value is None or isnan(part.value)):
            self._refuse(start, "arithmetic that has a result", "a division by zero or another undefined result")
        return part

    # -- constants ------------------------------------------------------------------------------

    def _constant(self, word: Word) -> Value:
        if word.kind == "number":
            return self._number(word)
        if word.kind == "string":
            return word.text[1:-1].replace("''", "'")
        if word.kind == "parameter":
            return self._parameter(word)
        if word.kind != "key" or word.text not in ("TRUE", "FALSE"):
            self._refuse(word, _VALUE)
        return word.text == "TRUE"

    def _number(self, word: Word) -> int | float:
        if len(word.text) > MAX_DIGITS:
            self._refuse(word, f"at most {MAX_DIGITS}", f"a number of {len(word.text)} characters")
        if word.text[:2] in ("0x", "0X"):
            return int(word.text, 16)
        if word.text.isdigit():
            return int(word.text)
        number = float(word.text)
        if isinf(number):
            self._refuse(word, "a number below 1.8e308")
        return number

    def _parameter(self, word: Word) -> Value:
        count = len(self._parameters)
        if len(word.text) > MAX_DIGITS or int(word.text[1:]) >= count:
            self._refuse(word, f"%0 to %{count - 1}" if count > 1 else "%0 alone" if count else "none: no parameters")
        given: object = self._parameters[int(word.text[1:])]
        value = _constant_text(given) if isinstance(given, str) else parts.plain(given)
        if value is None or value != value:  # noqa: PLR0124  NaN
            shown = f"parameter {word.text} = {str(given)[:40]!r}"
            self._refuse(word, "a number, a bool, or a text with one constant, such as '5' or \"'red'\"", shown)
        return value


def _constant_text(text: str) -> Value:
    """Return the constant in a text, as DDS writes the parameters of a filter, or ``None``."""
    try:
        part = Grammar(text).whole()
    except ExpressionError:
        return None
    return part.value if part.constant else None
