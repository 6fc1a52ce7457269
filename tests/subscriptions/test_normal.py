from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subscription_strategies import brute_contradicts, close_publication, close_subscription, numbers

from evenflow.subscriptions.language import INT64_MAX, INT64_MIN, matches, parse_subscription
from evenflow.subscriptions.normal import NumberConstraint, StringConstraint, admits, normalize, predecessor, successor


def can_be_published(number):
    return isinstance(number, float) or INT64_MIN <= number <= INT64_MAX


@settings(max_examples=1000, deadline=None)
@given(numbers)
def test_nothing_lies_between_a_number_and_the_next(number):
    after = successor(number)
    assert can_be_published(after)
    assert number < after
    assert predecessor(after) == number
    assert math.nextafter(number, math.inf) >= after or float(number) > number
    between = int(number) + 1 if number >= 0 or number == int(number) else int(number)
    assert not (number < between < after and can_be_published(between))


@settings(max_examples=200, deadline=None)
@given(st.lists(close_subscription, max_size=5), st.lists(close_publication, max_size=10))
def test_the_normal_form_matches_the_same_publications(subscriptions, publications):
    for subscription in subscriptions:
        normal = normalize(subscription)
        assert (normal is None) == brute_contradicts(subscription)
        for publication in publications:
            kept = normal is not None and all(
                name in publication and admits(constraint, publication[name]) for name, constraint in normal.items()
            )
            assert kept == matches(subscription, publication)


@settings(max_examples=200, deadline=None)
@given(close_subscription, st.randoms(use_true_random=False))
def test_the_order_of_predicates_says_nothing(subscription, random):
    mixed = list(subscription.predicates)
    random.shuffle(mixed)
    assert normalize(type(subscription)(tuple(mixed))) == normalize(subscription)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a,>,9007199254740992],[a,<,9007199254740994]", NumberConstraint(2**53 + 1, 2**53 + 1)),
        ("[a,>,9007199254740992],[a,<,9007199254740993]", None),
        ("[a,>,1],[a,<,2],[a,<>,1.5]", NumberConstraint(successor(1), predecessor(2), frozenset([1.5]))),
        ("[a,>=,9007199254740993],[a,<>,9007199254740993]", NumberConstraint(low=2**53 + 2)),
        ("[a,>=,5],[a,<>,5]", NumberConstraint(low=successor(5))),
        ("[a,<=,5],[a,<>,5]", NumberConstraint(high=predecessor(5))),
        ("[a,<=,9007199254740994],[a,<>,9007199254740994],[a,<>,9007199254740993]", NumberConstraint(high=2**53)),
        ("[a,=,1],[a,<>,1]", None),
        ("[a,=,-0.0],[a,>=,0]", NumberConstraint(0, 0)),
        ("[a,=,1],[a,eq,'1']", None),
        ("[a,eq,*],[a,=,1]", NumberConstraint(1, 1)),
        ("[a,isPresent,0],[a,isPresent,'']", None),
        ("[a,>,1.7976931348623157e308]", NumberConstraint(math.inf, math.inf)),
        ("[a,str-prefix,'a'],[a,str-prefix,'ab'],[a,str-contains,'b']", StringConstraint(prefix="ab")),
        ("[a,str-prefix,'a'],[a,str-prefix,'b']", None),
        ("[a,str-suffix,'a'],[a,str-suffix,'b']", None),
        ("[a,str-contains,'a'],[a,str-contains,'b']", StringConstraint(parts=frozenset("ab"))),
        ("[a,str-contains,'a'],[a,str-contains,'bab']", StringConstraint(parts=frozenset(["bab"]))),
        ("[a,str-contains,''],[a,str-prefix,''],[a,isPresent,'x']", StringConstraint()),
        ("[a,neq,'b'],[a,str-prefix,'a']", StringConstraint(prefix="a")),
        ("[a,neq,'ab'],[a,str-prefix,'a']", StringConstraint(prefix="a", excluded=frozenset(["ab"]))),
        ("[a,eq,'ab'],[a,str-prefix,'a'],[a,neq,'b']", StringConstraint(equal="ab")),
        ("[a,eq,'ab'],[a,neq,'ab']", None),
    ],
)
def test_forms(text, expected):
    assert normalize(parse_subscription(text)) == (None if expected is None else {"a": expected})
