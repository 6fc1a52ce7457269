"""Relations of two subscriptions, and the covering set and edges of many, on both engines."""

from __future__ import annotations

import random
import time
from importlib.util import find_spec
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subscription_strategies import (
    ATTRIBUTES,
    NUMBERS,
    brute_covers,
    brute_intersects,
    brute_poset,
    close_publication,
    close_subscription,
    lattice_subscription,
)

from evenflow.bench.workloads import from_templates
from evenflow.errors import BadInput
from evenflow.experiments.brokers.quotes import quotes
from evenflow.subscriptions.columns import Predicates
from evenflow.subscriptions.covering import covering, covering_set, covers, intersects, relation
from evenflow.subscriptions.language import NUMBER_OPERATORS, Predicate, Subscription, matches, parse_subscription
from evenflow.subscriptions.normal import normalize

needs_numba = pytest.mark.skipif(find_spec("numba") is None, reason="the extra fast is not installed")
ENGINES = ["python", pytest.param("numba", marks=needs_numba)]
intervals = st.lists(
    st.builds(
        Predicate,
        st.sampled_from(ATTRIBUTES[:2]),
        st.sampled_from(list(NUMBER_OPERATORS)),
        st.sampled_from(NUMBERS) | st.integers(0, 20),
    ),
    min_size=1,
    max_size=3,
).map(lambda found: Subscription(tuple(found)))


@settings(max_examples=150, deadline=None)
@given(st.lists(close_subscription, min_size=2, max_size=8), st.lists(close_publication, max_size=8))
def test_relations_are_exact(subscriptions, publications):
    mirror = {"covers": "covered", "covered": "covers"}
    for a, b in combinations(subscriptions, 2):
        over, under, meeting = brute_covers(a, b), brute_covers(b, a), brute_intersects(a, b)
        apart = "intersects" if meeting else "disjoint"
        expected = "equal" if over and under else "covers" if over else "covered" if under else apart
        assert (covers(a, b), covers(b, a), intersects(a, b)) == (over, under, meeting)
        assert (relation(a, b), relation(b, a)) == (expected, mirror.get(expected, expected))
        assert (normalize(a) == normalize(b)) == (expected == "equal")
        for publication in publications:
            by_a, by_b = matches(a, publication), matches(b, publication)
            assert by_a or not (over and by_b)
            assert by_b or not (under and by_a)
            assert meeting or not (by_a and by_b)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("[class,eq,'STOCK']", "[class,eq,'STOCK'],[volume,>,1000]", "covers"),
        ("[class,eq,'STOCK']", "[volume,>,1000]", "intersects"),
        ("[class,eq,'STOCK']", "[class,eq,'SPORTS']", "disjoint"),
        ("[class,eq,*]", "[class,eq,'STOCK']", "covers"),
        ("[class,eq,*]", "[class,isPresent,0]", "covers"),
        ("[class,isPresent,'']", "[class,eq,*]", "covered"),
        ("[v,>=,5],[v,<=,5]", "[v,=,5.0]", "equal"),
        ("[v,<=,5],[v,<>,5]", "[v,<,5]", "equal"),
        ("[v,>=,5],[v,<>,5]", "[v,>,5]", "equal"),
        ("[v,<>,3]", "[v,>,3]", "covers"),
        ("[v,<>,3]", "[v,>=,3]", "intersects"),
        ("[v,>,3],[v,<,4]", "[v,=,9],[v,=,8]", "covers"),
        ("[v,=,9],[v,=,8]", "[s,eq,'a'],[s,eq,'b']", "equal"),
        ("[s,str-contains,'b']", "[s,str-prefix,'abc']", "covers"),
        ("[s,str-contains,'a'],[s,str-contains,'b']", "[s,str-contains,'ab']", "covers"),
        ("[s,str-contains,'bb']", "[s,str-prefix,'ab'],[s,str-suffix,'ba']", "intersects"),
        ("[s,str-prefix,'ab']", "[s,str-prefix,'b']", "disjoint"),
        ("[s,neq,'x']", "[s,str-prefix,'y']", "covers"),
        ("[v,>,9007199254740992]", "[v,>=,9007199254740993]", "equal"),
        ("[v,=,9007199254740993]", "[v,=,9007199254740992]", "disjoint"),
    ],
)
def test_relations(a, b, expected):
    assert relation(parse_subscription(a), parse_subscription(b)) == expected


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=150, deadline=None)
@given(
    st.lists(close_subscription, max_size=12)
    | st.lists(intervals, max_size=20)
    | st.lists(lattice_subscription, max_size=12)
)
def test_equals_brute_force(engine, subscriptions):
    names = [str(number) for number in range(len(subscriptions))]
    table = Predicates.of(subscriptions)
    css, edges = brute_poset(dict(enumerate(subscriptions)))
    found = covering(names, table, engine=engine)
    assert (found.css, found.edges) == (css, edges)
    assert found.contradictions == [name for name, s in zip(names, subscriptions, strict=True) if normalize(s) is None]
    assert covering_set(names, table, engine=engine) == css


@needs_numba
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_both_engines_agree_on_many(seed, letters):
    chance = random.Random(seed)
    texts = [random_text(chance) for _ in range(chance.randrange(400))]
    names = [f"{'s' if letters else ''}{number}" for number in chance.sample(range(10_000), len(texts))]
    table = Predicates.of(map(parse_subscription, texts))
    slow, quick = (covering(names, table, engine=engine) for engine in ("python", "numba"))
    assert quick == slow
    assert covering_set(names, table, engine="numba") == covering_set(names, table, engine="python") == slow.css


def random_text(chance: random.Random) -> str:
    """Return a subscription like those of Table 5.1, some of them with more."""
    words = ["[class,eq,'STOCK']"]
    for _ in range(chance.choice([0, 1, 1, 2])):
        operator = chance.choice(["eq", "eq", "eq", "str-prefix", "str-suffix", "str-contains", "neq"])
        words.append(f"[symbol,{operator},'{chance.choice(['A', 'B', 'AB', 'BA', 'ABA'])}']")
    for attribute in chance.sample(["high", "low", "volume", "date"], chance.choice([0, 1, 1, 1, 2])):
        words += [
            f"[{attribute},{chance.choice(['>', '<', '>=', '<=', '=', '<>', '>', '<'])},{chance.randrange(30)}]"
            for _ in range(chance.choice([1, 1, 2]))
        ]
    return ",".join(chance.sample(words, len(words)))


@needs_numba
def test_many_shapes():
    """More shapes than parts of a shape, and shapes with more parts than there are shapes."""
    chance = random.Random(7)
    names = [f"a{number}" for number in range(12)]
    texts = []
    for _ in range(600):
        chosen = chance.sample(names, chance.choice([1, 2, 3, 3, 11]))
        texts.append(",".join(f"[{name},{chance.choice(['>', '=', '<'])},{chance.randrange(3)}]" for name in chosen))
    table = Predicates.of(map(parse_subscription, texts))
    slow, quick = (
        covering([str(n) for n in range(len(texts))], table, engine=engine) for engine in ("python", "numba")
    )
    assert slow == quick
    assert len(slow.edges) > 600


@needs_numba
def test_long_chains_take_no_time_squared():
    """Thousands of thresholds on one attribute: each covers all that follow, but only one directly."""
    table, _ = from_templates(quotes(1), 100_000, 1)
    table = table.only(np.flatnonzero(np.bincount(table.owner) > 1))  # without what covers everything
    names = [str(number) for number in range(table.count)]
    covering(names[:10], table.only(np.arange(10)), engine="numba")  # compiles
    start = time.process_time()
    found = covering(names, table)
    assert covering_set(names, table) == found.css
    assert time.process_time() - start < 15  # about one second; every pair would take minutes
    assert len(found.edges) < 3 * table.count


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_at_all_and_nothing_but_contradictions(engine):
    empty = Predicates.of([])
    assert (covering([], empty, engine=engine).css, covering_set([], empty, engine=engine)) == ([], [])
    never = Predicates.of([parse_subscription("[a,=,1],[a,=,2]"), parse_subscription("[a,=,1],[a,eq,'1']")])
    found = covering(["y", "x"], never, engine=engine)
    assert (found.css, found.edges, found.contradictions) == ([], [("x", "y")], ["x", "y"])
    assert covering_set(["y", "x"], never, engine=engine) == []


def test_an_unknown_engine_is_refused():
    with pytest.raises(BadInput, match="'auto', 'python' or 'numba'"):
        covering_set([], Predicates.of([]), engine="rust")
