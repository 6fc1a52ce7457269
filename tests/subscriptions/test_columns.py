"""Columns of predicates and the subscriptions they hold."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from subscription_strategies import any_subscription

from evenflow.subscriptions.columns import Predicates, subscriptions_of
from evenflow.subscriptions.language import matches
from evenflow.subscriptions.normal import normalize


@settings(max_examples=200, deadline=None)
@given(
    st.lists(any_subscription, max_size=4), st.lists(st.dictionaries(st.sampled_from("ab"), st.integers()), max_size=3)
)
def test_columns_come_back_as_subscriptions_of_the_same_meaning(subscriptions, publications):
    again = subscriptions_of(Predicates.of(subscriptions))
    assert list(map(normalize, again)) == list(map(normalize, subscriptions))
    for publication in publications:
        assert [matches(s, publication) for s in again] == [matches(s, publication) for s in subscriptions]
