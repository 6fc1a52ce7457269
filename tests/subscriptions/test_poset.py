"""The poset of subscriptions, while subscriptions come and go."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subscription_strategies import brute_poset, close_subscription, lattice_subscription

from evenflow.subscriptions.language import parse_subscription
from evenflow.subscriptions.poset import Poset

many = (st.lists(close_subscription, max_size=12) | st.lists(lattice_subscription, max_size=12)).map(
    lambda found: dict(enumerate(found, start=1))
)


@settings(max_examples=150, deadline=None)
@given(many)
def test_the_poset_equals_brute_force(subscriptions):
    poset = Poset((str(name), subscription) for name, subscription in subscriptions.items())
    assert (poset.css(), poset.edges()) == brute_poset(subscriptions)


@settings(max_examples=150, deadline=None)
@given(many, st.data())
def test_the_poset_stays_right_under_add_and_remove(subscriptions, data):
    poset, kept = Poset(), {}
    waiting = data.draw(st.permutations(list(subscriptions)))
    while waiting:
        if kept and data.draw(st.booleans()):
            name = data.draw(st.sampled_from(sorted(kept)))
            poset.remove(str(name))
            del kept[name]
        else:
            name = waiting.pop()
            poset.add(str(name), subscriptions[name])
            kept[name] = subscriptions[name]
        assert (poset.css(), poset.edges()) == brute_poset(kept)
    for name in list(kept):
        poset.remove(str(name))
    assert (len(poset), poset.css(), poset.edges()) == (0, [], [])
    assert not any((poset._index._shapes, poset._index._signatures, poset._index._holders))


def test_the_poset_of_the_thesis():
    texts = [
        "[class,eq,'STOCK']",
        "[class,eq,'STOCK'],[symbol,eq,'YHOO']",
        "[class,eq,'STOCK'],[volume,>,1000]",
        "[class,eq,'SPORTS']",
        "[class,eq,'SPORTS'],[type,eq,'RACING']",
    ]
    poset = Poset((str(i), parse_subscription(text)) for i, text in enumerate(texts))
    assert poset.css() == ["0", "3"]
    assert poset.edges() == [("0", "1"), ("0", "2"), ("3", "4")]


def test_who_is_covered_twice_stays_covered():
    texts = ["[a,>,0]", "[a,>,0],[b,>,0]", "[a,>,0],[c,>,0]", "[a,>,0],[b,>,0],[c,>,0]"]
    poset = Poset((str(i), parse_subscription(text)) for i, text in enumerate(texts))
    assert poset.edges() == [("0", "1"), ("0", "2"), ("1", "3"), ("2", "3")]
    poset.remove("1")
    assert poset.edges() == [("0", "2"), ("2", "3")]
    poset.remove("2")
    assert poset.edges() == [("0", "3")]


def test_the_lowest_id_speaks_for_its_equals():
    same = [("b", "[v,>=,5],[v,<=,5]"), ("10", "[v,=,5.0]"), ("9", "[v,=,5]"), ("x", "[v,=,5],[v,=,6]")]
    poset = Poset((name, parse_subscription(text)) for name, text in same)
    assert poset.css() == ["10"]  # by code point, as b is no integer
    assert poset.edges() == [("10", "9"), ("10", "b"), ("10", "x")]
    poset.remove("b")
    poset.remove("x")
    assert poset.css() == ["9"]  # by number now
    assert poset.edges() == [("9", "10")]


def test_contradictions_lie_at_the_bottom():
    poset = Poset((str(i), parse_subscription(t)) for i, t in enumerate(["[v,<,1],[v,>,1]", "[v,<,1],[v,>,2]"]))
    assert (poset.css(), poset.edges()) == ([], [("0", "1")])
    poset.add("7", parse_subscription("[v,>,1]"))
    poset.add("8", parse_subscription("[v,>,2]"))
    assert (poset.css(), poset.edges()) == (["7"], [("0", "1"), ("7", "8"), ("8", "0")])


def test_ids_are_taken_once():
    poset = Poset([("1", parse_subscription("[v,=,1]"))])
    with pytest.raises(ValueError, match="'1' is taken"):
        poset.add("1", parse_subscription("[v,=,2]"))
    with pytest.raises(KeyError):
        poset.remove("2")
