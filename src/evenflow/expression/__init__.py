"""A small safe language for conditions and content filters: text becomes closures, never Python code.

It is the filter language of DDS content-filtered topics plus arithmetic and ``IN``; ``docs/measuring.md`` has the
grammar. A comparison whose sides cannot be compared (a name without a value, NaN, a string with a number) is false
for every operator, so that an incomplete sample never triggers anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

from evenflow.expression.grammar import MAX_DEPTH, MAX_LENGTH, Grammar
from evenflow.expression.parts import Kind, Value, Values, condition
from evenflow.expression.words import ExpressionError

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "Expression", "ExpressionError", "Kind", "Value", "parse"]


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression, made by `parse`. It equals others of the same text and parameters, and pickles as its text.

    Parameters
    ----------
    text, parameters
        What was parsed.
    names
        The names that occur in it, in order of appearance.
    kind
        The kind of its value, as far as the text determines it.
    evaluate
        Returns the value for a mapping of names; ``None`` if there is none.
    test
        Returns a bool for a mapping of names. It raises if the expression gives a number or a string.
    """

    text: str
    parameters: tuple[Value, ...]
    names: tuple[str, ...] = field(compare=False, repr=False)
    kind: Kind = field(compare=False, repr=False)
    evaluate: Callable[[Values], Value] = field(compare=False, repr=False)
    test: Callable[[Values], bool] = field(compare=False, repr=False)

    @property
    def is_condition(self) -> bool:
        """Whether it can be used as a test."""
        return self.kind in (Kind.CONDITION, Kind.ANY)

    def __reduce__(self) -> tuple[Any, ...]:
        return parse, (self.text, self.parameters)


def parse(text: str, parameters: Sequence[Value] = ()) -> Expression:
    """Parse an expression in which ``%0``, ``%1`` … are the parameters.

    Parameters
    ----------
    text
        The expression, at most 10,000 characters and 32 levels of parentheses.
    parameters
        Each a number, a bool, or a text with one constant, as in DDS: ``"30"``, ``"'red'"``.

    Raises
    ------
    ExpressionError
        With line, column, what was found and what is allowed.

    Examples
    --------
    >>> first_node = parse("sliceID >= 0 and sliceID <= 5")
    >>> first_node.names
    ('sliceID',)
    >>> first_node.test({"sliceID": 3}), first_node.test({"sliceID": 8}), first_node.test({})
    (True, False, False)
    >>> parse("price * 2 + 1").evaluate({"price": 4})
    9
    >>> parse("kind LIKE %0 AND level NOT IN (1, 2)", ["'temp%'"]).test({"kind": "temperature", "level": 3})
    True
    """
    grammar = Grammar(text, parameters)
    part = grammar.whole()
    is_condition = part.kind in (Kind.CONDITION, Kind.ANY)
    return Expression(
        text=text,
        parameters=tuple(parameters),
        names=tuple(grammar.names),
        kind=part.kind,
        evaluate=part.get,
        test=condition(part) if is_condition else partial(_refuse, text, part.kind),
    )


def _refuse(text: str, kind: Kind, _: Values) -> NoReturn:
    raise ExpressionError(text, 0, f"an expression that gives {kind}", "a condition, such as x > 1")
