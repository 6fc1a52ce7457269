"""Ids have one order, by number or by code point."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.subscriptions import ids

id_texts = st.integers(-(10**20), 10**20).map(str) | st.sampled_from(["0", "-0", "00", "+1", "1", "01", "9" * 2000])


@settings(max_examples=300, deadline=None)
@given(st.lists(id_texts, unique=True) | st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True))
def test_ids_have_one_order(names):
    ordered = [names[place] for place in ids.ascending_order(pa.array(names, pa.string()))]
    assert ordered == sorted(names, key=ids.sort_key(names))
    if all(ids.is_integer(name) and len(name) < 100 for name in names):
        assert ordered == sorted(names, key=lambda name: (int(name), name))
    elif not all(map(ids.is_integer, names)):
        assert ordered == sorted(names)


def test_ids_are_compared_exactly():
    names = ["9007199254740993", "09007199254740994", "+9007199254740992"]
    assert ids.ascending_order(pa.array(names)).tolist() == [2, 0, 1]
