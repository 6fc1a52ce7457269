from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subscription_strategies import any_publication, any_subscription

from evenflow.subscriptions.language import (
    LanguageError,
    Predicate,
    Subscription,
    format_publication,
    format_subscription,
    matches,
    parse_publication,
    parse_subscription,
)


@settings(max_examples=500, deadline=None)
@given(any_subscription)
def test_subscriptions_round_trip(subscription):
    again = parse_subscription(format_subscription(subscription))
    assert again == subscription
    assert [type(p.value) for p in again.predicates] == [type(p.value) for p in subscription.predicates]


@settings(max_examples=500, deadline=None)
@given(any_publication)
def test_publications_round_trip(publication):
    again = parse_publication(format_publication(publication))
    assert list(again.items()) == list(publication.items())
    assert [(type(v), str(v)) for v in again.values()] == [(type(v), str(v)) for v in publication.values()]


@settings(max_examples=200, deadline=None)
@given(any_subscription, st.data())
def test_white_space_between_the_marks_says_nothing(subscription, data):
    space = st.text(" \t\r\n", max_size=2)
    text = ""
    for p in subscription.predicates:
        (whole,) = [format_subscription(Subscription((p,)))]
        operand = whole[len(p.attribute) + len(p.operator) + 3 : -1]
        for mark in ("[", p.attribute, ",", p.operator, ",", operand, "]", ","):
            text += data.draw(space) + mark
    assert parse_subscription(text.removesuffix(",") + data.draw(space)) == subscription


shards = st.lists(st.sampled_from([*"[],'\\* \t\n0123456789.eE+-=<>aé\x00\x85\ud800", "eq", "isPresent", "[a,=,1]"]))


@st.composite
def damaged(draw):
    text = draw(any_subscription.map(format_subscription) | any_publication.map(format_publication))
    for _ in range(draw(st.integers(1, 3))):
        at, until = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
        text = text[:at] + draw(st.sampled_from([*"[],'\\*0.e- \n", ""])) + text[min(until, at + 2) :]
    return text


@pytest.mark.parametrize("parse", [parse_subscription, parse_publication])
@settings(max_examples=1000, deadline=None)
@given(st.text() | shards.map("".join) | damaged())
def test_only_language_errors_and_they_point_into_the_text(parse, text):
    error = None
    try:
        found = parse(text)
    except LanguageError as caught:
        error = caught
    if error is not None:
        lines = text.split("\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
        assert error.message
        assert str(error) == f"line {error.line}, column {error.column}: {error.message}"
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
    else:
        write = format_subscription if parse is parse_subscription else format_publication
        assert parse(write(found)) == found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-0", 0),
        ("+5", 5),
        ("-12", -12),
        ("9007199254740993", 9007199254740993),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("30.25", 30.25),
        (".5", 0.5),
        ("5.", 5.0),
        ("-.5e-3", -0.0005),
        ("1E3", 1000.0),
        ("1e-999", 0.0),
        ("'5'", "5"),
        ("'it\\'s \\\\'", "it's \\"),
        ("'Zoë 漢字 🐍'", "Zoë 漢字 🐍"),
        ("'],[,'", "],[,"),
        ("''", ""),
        ("'\u2028\x0b'", "\u2028\x0b"),
    ],
)
def test_values(text, value):
    (found,) = parse_publication(f"[a,{text}]").values()
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("", 1, 1, "expected ["),
        ("  ", 1, 3, "found the end"),
        ("[", 1, 2, "attribute"),
        ("[a b,=,1]", 1, 4, "a comma"),
        ("[a,=,1]\n,[b,=,x]", 2, 7, "x is not a number"),
        ("[a,=,1],", 1, 9, "expected ["),
        ("[a,=,1] [b,=,1]", 1, 9, "comma or the end"),
        ("[a,=,1]]", 1, 8, "comma or the end"),
        ("[a,=,1,2]", 1, 7, "expected ]"),
        ("[a,like,'x']", 1, 4, "unknown operator like"),
        ("[a,EQ,'x']", 1, 4, "unknown operator EQ"),
        ("[a,eq,5]", 1, 4, "eq does not go with a number"),
        ("[a,=,'5']", 1, 4, "= does not go with a string"),
        ("[a,=,*]", 1, 4, "= does not go with the wildcard"),
        ("[a,isPresent,*]", 1, 4, "isPresent does not go with the wildcard"),
        ("[a,eq,'x]", 1, 7, "no closing quote"),
        ("[a,eq,'x\\n']", 1, 9, "backslash"),
        ("[a,eq,'x\\']", 1, 7, "no closing quote"),
        ("[a,eq,'x''y']", 1, 10, "expected ]"),
        ("[*,=,1]", 1, 2, "attribute"),
        ("[a\x9b31m,=,1]", 1, 3, "a comma"),
        ("['a',=,1]", 1, 2, "attribute"),
        ("[a,=,007]", 1, 6, "007 is not a number"),
        ("[a,=,.]", 1, 6, "not a number"),
        ("[a,=,1e]", 1, 6, "not a number"),
        ("[a,=,0x10]", 1, 6, "not a number"),
        ("[a,=,1_000]", 1, 6, "not a number"),
        ("[a,=,NaN]", 1, 6, "not a number"),
        ("[a,=,inf]", 1, 6, "not a number"),
        ("[a,=,--1]", 1, 6, "not a number"),
        ("[a,=,٣]", 1, 6, "not a number"),
        ("[a,=,9223372036854775808]", 1, 6, "64-bit integer"),
        ("[a,=,-9223372036854775809]", 1, 6, "64-bit integer"),
        ("[a,=," + "9" * 5000 + "]", 1, 6, "64-bit integer"),
        ("[a,=,1e309]", 1, 6, "64-bit float"),
        ("[a,=,-1e99999999999999999999]", 1, 6, "64-bit float"),
        ("[a,eq,'\ud800']", 1, 8, "surrogate"),
    ],
)
def test_faults_of_subscriptions(text, line, column, words):
    with pytest.raises(LanguageError) as caught:
        parse_subscription(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("[a,1],[b,2],[a,3]", 14, "a occurs twice"),
        ("[a,*]", 4, "wildcard"),
        ("[a,=,1]", 5, "expected ]"),
        ("[a,b]", 4, "b is not a number"),
        ("[a]", 3, "a comma"),
        ("", 1, "expected ["),
    ],
)
def test_faults_of_publications(text, column, words):
    with pytest.raises(LanguageError) as caught:
        parse_publication(text)
    assert (caught.value.line, caught.value.column) == (1, column)
    assert words in caught.value.message


def test_messages_keep_control_characters_from_the_terminal():
    with pytest.raises(LanguageError) as caught:
        parse_subscription("[a,\x1b[31m,1]")
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("attribute", "operator", "value"),
    [
        ("", "=", 1),
        ("a,b", "=", 1),
        ("a", "=", math.nan),
        ("a", "<", math.inf),
        ("a", "=", 2**63),
        ("a", "eq", 1),
        ("a", "=", "x"),
        ("a", "neq", None),
        ("a", "eq", "\udfff"),
        ("a", "~", 1),
    ],
)
def test_a_predicate_that_cannot_be_written_cannot_be_made(attribute, operator, value):
    with pytest.raises(ValueError, match=r"\w"):
        Predicate(attribute, operator, value)


def test_numbers_of_numpy_are_written_as_numbers():
    value = np.float64(0.1)
    assert format_publication({"a": value}) == "[a,0.1]"
    assert format_subscription(Subscription((Predicate("a", "<", value),))) == "[a,<,0.1]"


def test_very_long_texts_are_read():
    many = 200_000
    assert parse_publication("[a,'" + "\\'" * many + "']") == {"a": "'" * many}
    assert len(parse_subscription(",".join(["[a,<>,1]"] * many)).predicates) == many
    with pytest.raises(LanguageError) as caught:
        parse_subscription("[a,eq,'" + "\\'" * many)
    assert caught.value.column == 7


def test_neither_can_one_of_another_type_or_a_subscription_of_nothing():
    with pytest.raises(TypeError):
        Predicate("a", "=", True)
    with pytest.raises(ValueError, match="at least one"):
        Subscription(())
    with pytest.raises(ValueError, match="without attributes"):
        format_publication({})


@pytest.mark.parametrize(
    ("subscription", "publication", "expected"),
    [
        ("[class,eq,'STOCK'],[volume,>,300000]", {"class": "STOCK", "volume": 300001}, True),
        ("[class,eq,'STOCK'],[volume,>,300000]", {"class": "STOCK", "volume": 300000}, False),
        ("[class,eq,'STOCK'],[volume,>,300000]", {"class": "STOCK"}, False),
        ("[a,neq,'x']", {}, False),
        ("[a,neq,'x']", {"a": 1}, False),
        ("[a,<>,1]", {"a": "x"}, False),
        ("[a,<>,1]", {"a": math.nan}, False),
        ("[a,isPresent,0]", {"a": math.nan}, False),
        ("[a,eq,*]", {"a": math.nan}, False),
        ("[a,eq,*]", {"a": ""}, True),
        ("[a,eq,*]", {"a": 0}, True),
        ("[a,eq,*]", {"b": 0}, False),
        ("[a,isPresent,0]", {"a": ""}, False),
        ("[a,isPresent,0]", {"a": math.inf}, True),
        ("[a,isPresent,'']", {"a": "x"}, True),
        ("[a,=,0]", {"a": -0.0}, True),
        ("[a,<,0]", {"a": -0.0}, False),
        ("[a,=,9007199254740993]", {"a": 9007199254740992}, False),
        ("[a,>,9007199254740992.0]", {"a": 9007199254740993}, True),
        ("[a,eq,'300']", {"a": 300}, False),
        ("[a,str-prefix,'ab'],[a,str-suffix,'bc'],[a,str-contains,'b']", {"a": "abc"}, True),
        ("[a,str-contains,'']", {"a": ""}, True),
        ("[a,eq,'é']", {"a": "e\u0301"}, False),
    ],
)
def test_matches(subscription, publication, expected):
    assert matches(parse_subscription(subscription), publication) is expected
