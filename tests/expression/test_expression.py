"""Expressions: what they mean, what is refused and where, and that no text can hurt."""

from __future__ import annotations

import pickle
import re
import sys
import time
from enum import IntEnum
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evenflow.errors import BadInput
from evenflow.expression import MAX_DEPTH, MAX_LENGTH, Expression, ExpressionError, parse

NAN = float("nan")


class Colour(IntEnum):
    RED = 3


ITEM: dict[str, Any] = {
    "x": 5,
    "f": 2.5,
    "s": "temperature",
    "flag": True,
    "nan": NAN,
    "none": None,
    "list": [1],
    "pos": {"lat": 48.1, "deep": {"er": 1}},
    "a.b": 7,
    "np": np.int64(5),
    "np_flag": np.bool_(True),
    "enum": Colour.RED,
    "größe": 1,
}

TRUE = [
    "x = 5",
    "x == 5.0",
    "x <> 4",
    "x != 4",
    "x < 6 AND x <= 5 AND x > 4 AND x >= 5",
    "4 < x",
    "5 <= x",
    "not x = 4",
    "NOT NOT x = 5",
    "x = 4 Or x = 5",
    "x = 5 or x = 5 and x = 4",  # AND binds tighter
    "(x = 5 or x = 5) and x = 5",
    "not x = 4 and x = 5",  # NOT binds tighter than AND
    "x BETWEEN 5 AND 6",
    "x between 4 and 5 and f between 2 and 3",
    "x NOT BETWEEN 6 AND 7",
    "x IN (1, 2, 5)",
    "x in (5.0)",
    "x NOT IN (1, -5)",
    "s IN ('a', 'temperature')",
    "s LIKE 'temp%'",
    "s like '%per_tur%'",
    "s NOT LIKE 't'",
    "s = 'temperature'",
    "s > 'tea'",
    "x + 1 = 6",
    "x - 1 - 1 = 3",
    "2 + x * 2 = 12",
    "(2 + x) * 2 = 14",
    "x / 2 = f",
    "-x = -5",
    "- - x = 5",
    "+x = 5",
    "x > 0x4",
    "x > .5e1 - 1.",
    "flag",
    "flag = TRUE",
    "flag <> false",
    "TRUE",
    "not false",
    "np_flag and np = 5 and enum = 3",
    "pos.lat > 48 and pos.deep.er = 1 and a.b = 7",
    "größe = 1",
    "x ≥ 5 and x ≤ 5 and x ≠ 4",
    "x\n=\t5",
    "(x > 4) = (f > 2)",
    "x < 1" + "0" * 90,
]
FALSE = [
    "x = 4",
    "missing = 1",
    "missing <> 1",
    "missing < 1 or missing >= 1",
    "missing NOT IN (1, 2)",
    "missing NOT LIKE 'a%'",
    "missing NOT BETWEEN 1 AND 2",
    "missing + 1 > 0",
    "missing",
    "missing = missing",
    "nan = nan",
    "nan <> nan",
    "nan < 1 or nan > 1 or nan = 1 or nan <> 1 or nan in (1) or nan not in (1)",
    "none = 1 or list = 1 or pos = 1 or list",
    "s = 5 or s <> 5 or s < 5 or 5 < s",
    "x = '5'",
    "x <> '5'",
    "x in ('5')",
    "x not in ('5')",
    "x like '5'",
    "x not like '6'",
    "flag = 1",
    "flag <> 0",
    "flag in (1)",
    "x",
    "s and flag",
    "x / (x - 5) > 0",
    "x / (x - 5) <= 0",
    "flag + 1 = 2",
    "s + 1 = 2",
    "pos.lat.x = 1",
    "pos.missing = 1",
    "x.y = 1",
    "s LIKE 'TEMP%'",
    "s LIKE 'temp'",
    "s LIKE ''",
]


@pytest.mark.parametrize("text", TRUE)
def test_is_true(text: str) -> None:
    assert parse(text).test(ITEM) is True
    assert parse(text).evaluate(ITEM) is True


@pytest.mark.parametrize("text", FALSE)
def test_is_false(text: str) -> None:
    assert parse(text).test(ITEM) is False
    assert parse(f"NOT ({text})").test(ITEM) is True  # two values only: NOT turns every false into true


def test_the_filters_of_the_thesis() -> None:
    first, second = parse("sliceID ≥ 0 and sliceID ≤ 5"), parse("sliceID >= 6 and sliceID <= 9")
    assert [s for s in range(10) if first.test({"sliceID": s})] == [0, 1, 2, 3, 4, 5]
    assert [s for s in range(10) if second.test({"sliceID": s})] == [6, 7, 8, 9]


@pytest.mark.parametrize(
    ("text", "parameters", "item", "expected"),
    [
        ("x > %0", ["30"], {"x": 31}, True),
        ("x > %0", [30.5], {"x": 30}, False),
        ("x BETWEEN %0 AND %1", ["-1", "1"], {"x": 0}, True),
        ("s = %0", ["'red'"], {"s": "red"}, True),
        ("s LIKE %0", ["'r%'"], {"s": "red"}, True),
        ("s LIKE '%0'", ["'r%'"], {"s": "a0"}, True),  # no parameter: it stands in quotes
        ("x IN (%1, %0)", [1, np.int32(2)], {"x": 2}, True),
        ("flag = %0", [True], {"flag": True}, True),
        ("s = %0", ["'it''s'"], {"s": "it's"}, True),
        ("s = %0", ["'x'' OR TRUE OR ''x'"], {"s": "a"}, False),  # a parameter is a value, never a piece of text
    ],
)
def test_parameters(text: str, parameters: list[Any], item: dict[str, Any], expected: bool) -> None:
    assert parse(text, parameters).test(item) is expected


def test_values() -> None:
    assert parse("x * 2 + 1").evaluate({"x": 3}) == 7
    assert parse("x / 2").evaluate({"x": 3}) == 1.5
    assert parse("'a''b'").evaluate({}) == "a'b"
    assert parse("x").evaluate({"x": "text"}) == "text"
    assert parse("x / y").evaluate({"x": 1, "y": 0}) is None
    assert parse("x / y").evaluate({"x": 10**400, "y": 3}) is None
    assert parse("x * y").evaluate({"x": np.int8(100), "y": np.int8(100)}) == 10_000
    assert parse("b + a.b * b").names == ("b", "a.b")


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("", 1, "the end"),
        ("a >", 4, "a number, a 'string', a name"),
        ("a > 5 6", 7, "given '6', allowed is an operator"),
        ("a < b < c", 7, "one comparison at a time"),
        ("a = b = c", 7, "one comparison at a time"),
        ("(a > 5", 7, "for the ( of line 1, column 1"),
        ("a > 5)", 6, "given ')'"),
        ("a = 'x", 5, "a closing quote"),
        ("a like b", 8, "a pattern in quotes"),
        ("a like 5", 8, "a pattern in quotes"),
        ("5 like 'a'", 1, "a string before LIKE"),
        ("a in (1, 'x')", 10, "a number, as on the other side"),
        ("a in (b)", 7, "a constant"),
        ("a in ()", 7, "given ')'"),
        ("a in (1", 8, "or a comma"),
        ("a in 1", 6, "( after IN"),
        ("5 and a", 1, "a condition"),
        ("a and b + 1", 7, "a condition"),
        ("not 5", 5, "a condition"),
        ("1 / 0", 1, "a division by zero"),
        ("x > 1 / (2 - 2)", 5, "a division by zero"),
        ("a > %0", 5, "no parameters"),
        ("5abc", 1, "without letters"),
        ("1.2.3", 1, "a second dot"),
        ("%0x", 1, "without letters"),
        ("%", 1, "given '%'"),
        ("a NOT = 5", 7, "BETWEEN, LIKE or IN"),
        ("a ? b", 3, "given '?'"),
        ("a between 1", 12, "AND between"),
        ("'a' + 1", 1, "a string, allowed is a number"),
        ("a + 1 = 'x'", 9, "as on the other side"),
        ("a = NOT b", 5, "given 'NOT'"),
        ("a.b. > 3", 4, "given '.'"),
        ("1e999", 1, "below 1.8e308"),
        ("9" * 101, 1, "101 characters"),
        ("__import__('os')", 11, "given '('"),
        ("a; b", 2, "given ';'"),
        ("a[0] > 1", 2, "given '['"),
        ('"a" = 1', 1, "given '\"'"),
    ],
)
def test_is_refused_with_the_place(text: str, column: int, said: str) -> None:
    with pytest.raises(ExpressionError, match=re.escape(said)) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (1, column)
    assert f"line 1, column {column}: given " in str(caught.value)
    assert isinstance(caught.value, BadInput)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_the_place_counts_lines() -> None:
    with pytest.raises(ExpressionError, match="line 3, column 6"):
        parse("a > 1\nAND b > 2\n AND ?")


@pytest.mark.parametrize("parameter", ["red", "", "a", "1 +", "1/0", "'a", None, NAN, [1], b"x", "%0"])
def test_a_parameter_is_one_constant(parameter: Any) -> None:
    with pytest.raises(ExpressionError, match=r"parameter %0 = .*, allowed is a number"):
        parse("a = %0", [parameter])


@pytest.mark.parametrize(("parameters", "said"), [([1], "%0 alone"), ([1, 2], "%0 to %1")])
def test_a_parameter_out_of_range(parameters: list[int], said: str) -> None:
    for text in ("a = %2", "a = %" + "9" * 200):
        with pytest.raises(ExpressionError, match=said):
            parse(text, parameters)


def test_a_number_is_no_condition() -> None:
    expression = parse("x + 1")
    assert not expression.is_condition
    with pytest.raises(ExpressionError, match="a condition, such as"):
        expression.test({"x": 1})


def test_equal_and_pickled_by_text() -> None:
    expression = parse("x > %0", [1])
    assert pickle.loads(pickle.dumps(expression)) == expression == parse("x > %0", [1]) != parse("x > %0", [2])
    assert isinstance(expression, Expression)
    assert len({expression, parse("x > %0", [1])}) == 1


# -- hostile texts ------------------------------------------------------------------------------


def with_frames(count: int, action: Any) -> Any:
    return action() if count == 0 else with_frames(count - 1, action)


DEEPEST = [
    "(" * MAX_DEPTH + "x" + ")" * MAX_DEPTH,
    "NOT " * MAX_DEPTH + "x",
    "-" * MAX_DEPTH + "x",
    "y = 1 OR y = 1 AND (" * MAX_DEPTH + "y" + ")" * MAX_DEPTH,
    "1 + 1 * (" * MAX_DEPTH + "x" + ")" * MAX_DEPTH,
    "y OR y AND y = 1 + 1 * (" * MAX_DEPTH + "1" + ")" * MAX_DEPTH,  # refused, but only on the way back
]


@pytest.mark.parametrize("text", DEEPEST)
def test_the_deepest_text_leaves_half_of_the_stack(text: str) -> None:
    def both() -> None:
        try:
            expression = parse(text)
        except ExpressionError:
            return
        expression.evaluate({"x": 1})

    # The depth of this test inside its runner is not the expression's matter.
    depth, frame = 0, sys._getframe()
    while frame.f_back:
        depth, frame = depth + 1, frame.f_back
    with_frames(max(0, sys.getrecursionlimit() // 2 - depth - 5), both)


@pytest.mark.parametrize("opening", ["(", "NOT ", "-", "NOT (", "a = (", "1 + (", "x IN ("])
def test_deeper_texts_are_refused(opening: str) -> None:
    with pytest.raises(ExpressionError):
        parse(opening * (MAX_LENGTH // len(opening)))


def test_a_long_chain_is_not_deep() -> None:
    assert parse(" AND ".join(["x = 1"] * 1000)).test({"x": 1})
    assert parse(" OR ".join(["x = 0"] * 1000)).test({"x": 1}) is False
    assert parse("+".join(["x"] * 4000)).evaluate({"x": 1}) == 4000
    assert parse("*".join(["x"] * 4000)).evaluate({"x": 1.0}) == 1
    with pytest.raises(ExpressionError, match="10,001 characters, allowed is at most 10,000"):
        parse(" " * (MAX_LENGTH + 1))


def test_a_hostile_pattern_takes_no_time() -> None:
    start = time.thread_time()
    test = parse("s LIKE '" + "%a_" * 2000 + "b'").test
    assert test({"s": "a" * 20_000}) is False
    assert time.thread_time() - start < 1


def test_a_simple_comparison_is_fast() -> None:
    test, item = parse("cpu > 70").test, {"cpu": 75.0}
    best = min(_seconds(test, item) for _ in range(5))
    assert best / 10_000 < 3e-6  # about 0.2 µs; the bound leaves room for a busy machine


def _seconds(test: Any, item: Any) -> float:
    start = time.thread_time()
    for _ in range(10_000):
        test(item)
    return time.thread_time() - start


PIECES = [
    "x",
    "y.z",
    "1",
    "2.5",
    "'a'",
    "%0",
    "%1",
    "(",
    ")",
    "AND",
    "or",
    "Not",
    "BETWEEN",
    "LIKE",
    "IN",
    "TRUE",
    ",",
    "+",
    "-",
    "*",
    "/",
    "=",
    "<>",
    "<",
    ">=",
    "≥",
    "'",
    ".",
    ";",
    "\n",
    "0x1",
]


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=25).map(" ".join)))
@example("x = 1 IN (1)")
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        expression = parse(text, [1, "'a'"])
    except ExpressionError as error:
        place, sentence = error.line, str(error)
        assert 1 <= place <= text.count("\n") + 1
        assert ": given " in sentence
        assert ", allowed is " in sentence
        return
    for item in ({}, {"x": 1, "y": {"z": "a"}}, {"x": "a", "y.z": True}, {"x": NAN}):
        value = expression.evaluate(item)
        assert value is None or type(value) in (int, float, str, bool)
        if expression.is_condition:
            assert expression.test(item) is (value is True)


# -- against Python's own arithmetic and logic --------------------------------------------------

numbers = st.one_of(st.integers(-5, 5), st.floats(-5, 5, allow_nan=False).map(lambda f: round(f, 2)))


def formulas() -> st.SearchStrategy[tuple[str, str]]:
    """Return pairs of our text and the same in Python."""
    number = st.one_of(st.sampled_from([("x", "x"), ("y", "y")]), st.integers(0, 9).map(lambda i: (str(i), f"({i})")))
    sums = st.recursive(
        number,
        lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(
            lambda t: (f"({t[0][0]} {t[1]} {t[2][0]})", f"({t[0][1]} {t[1]} {t[2][1]})")
        ),
        max_leaves=4,
    )
    signs = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
    comparisons = st.tuples(sums, st.sampled_from(sorted(signs)), sums).map(
        lambda t: (f"{t[0][0]} {t[1]} {t[2][0]}", f"({t[0][1]} {signs[t[1]]} {t[2][1]})")
    )
    betweens = st.tuples(sums, sums, sums).map(
        lambda t: (f"{t[0][0]} BETWEEN {t[1][0]} AND {t[2][0]}", f"({t[1][1]} <= {t[0][1]} <= {t[2][1]})")
    )
    return st.recursive(
        st.one_of(comparisons, betweens),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
                lambda t: (f"({t[0][0]} {t[1]} {t[2][0]})", f"({t[0][1]} {t[1]} {t[2][1]})")
            ),
            inner.map(lambda t: (f"NOT ({t[0]})", f"(not {t[1]})")),
        ),
        max_leaves=5,
    )


@settings(max_examples=100, deadline=None)
@given(formulas(), numbers, numbers)
def test_agrees_with_python(formula: tuple[str, str], x: float, y: float) -> None:
    ours, python = formula
    assert parse(ours).test({"x": x, "y": y}) is eval(python, {}, {"x": x, "y": y})


@settings(max_examples=100, deadline=None)
@given(st.text("ab%_", max_size=8), st.text("ab\n", max_size=8))
def test_like_agrees_with_a_regular_expression(pattern: str, text: str) -> None:
    regex = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern)
    expected = re.fullmatch(regex, text, re.DOTALL) is not None
    assert parse(f"s LIKE '{pattern}'").test({"s": text}) is expected
    assert parse(f"s NOT LIKE '{pattern}'").test({"s": text}) is not expected
