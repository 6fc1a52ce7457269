"""Every form of the result against an oracle of its own, on both engines, while subscriptions come and go."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from subscription_strategies import (
    any_publication,
    any_subscription,
    brute_matches,
    close_publication,
    close_subscription,
)

from evenflow.errors import BadInput
from evenflow.subscriptions import matching
from evenflow.subscriptions.columns import Predicates, read_lines
from evenflow.subscriptions.ids import sort_key
from evenflow.subscriptions.language import Publication, Subscription, format_subscription, matches, parse_subscription
from evenflow.subscriptions.matching import Engine, Index
from evenflow.subscriptions.result import Matches

ENGINES = ["numpy", "numba"]
subscription = close_subscription | any_subscription
publication = close_publication | any_publication


def expected(subscriptions: dict[int, Subscription], publications: list[Publication]) -> list[list[int]]:
    return [[name for name in sorted(subscriptions) if brute_matches(subscriptions[name], p)] for p in publications]


def check(found: Matches, wanted: list[list[int]]) -> None:
    """Compare every form of a result with the lists of ids."""
    assert found.lists().to_pylist() == wanted
    assert found.counts().tolist() == [len(names) for names in wanted]
    pairs = [tuple(row.values()) for batch in found.pairs() for row in batch.to_pylist()]
    assert pairs == [(event, name) for event, names in enumerate(wanted) for name in names]
    slices, ids = found.slices(), found.ids.to_pylist()
    ranges: list[list[int]] = [[] for _ in wanted]
    for event, start, stop in zip(slices.event, slices.start, slices.stop, strict=True):
        ranges[event] += [ids[number] for number in slices.members[start:stop]]
    assert [sorted(names) for names in ranges] == wanted
    bits: dict[int, int] = {}
    for event, names in enumerate(wanted):
        for name in names:
            bits[name] = bits.get(name, 0) | 1 << event
    assert found.bits().to_dict() == bits
    destination_of = {name: f"d{name % 3}" for name in ids if name % 5}
    destinations, reached = found.per_destination(destination_of)
    assert [[destinations[i] for i in np.flatnonzero(row)] for row in reached] == [
        sorted({destination_of[name] for name in names if name in destination_of}) for names in wanted
    ]


@settings(max_examples=2000, deadline=None)
@given(subscription, publication)
def test_matches_is_the_oracle(asked: Subscription, published: Publication) -> None:
    assert matches(asked, published) == brute_matches(asked, published)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=250, deadline=None)
@given(
    subscriptions=st.lists(subscription, max_size=40),
    publications=st.lists(publication, max_size=8),
)
def test_every_result_is_the_oracles(
    engine: matching.Engine, subscriptions: list[Subscription], publications: list[Publication]
) -> None:
    named = dict(enumerate(subscriptions))
    index = Index(named.items(), engine=engine)
    check(index.match(publications), expected(named, publications))


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=60, deadline=None)
@given(data=st.data(), least=st.sampled_from([0, 3, 4096]))
def test_results_stay_right_while_subscriptions_come_and_go(
    engine: matching.Engine, data: st.DataObject, least: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "REBUILD_LEAST", least)  # rebuilt at once, now and then, never
        named = dict(enumerate(data.draw(st.lists(subscription, max_size=20))))
        index = Index(named.items(), engine=engine)
        earlier = None
        for _ in range(data.draw(st.integers(1, 4))):
            for name in data.draw(st.lists(st.sampled_from(sorted(named)), unique=True)) if named else []:
                index.remove(name)
                del named[name]
            for new in data.draw(st.lists(subscription, max_size=6)):
                name = max(named, default=0) + data.draw(st.integers(1, 3))
                index.add(name, new)
                named[name] = new
            assert len(index) == len(named)
            assert sorted(index.ids()) == sorted(named)
            publications = data.draw(st.lists(publication, max_size=5))
            wanted = expected(named, publications)
            found = index.match(publications)
            check(found, wanted)
            if earlier is not None:  # a result is not changed by what happens to the index later
                assert earlier[0].lists().to_pylist() == earlier[1]
            earlier = found, wanted


def test_an_index_that_will_be_matched_for_long_uses_what_is_fastest_however_small() -> None:
    assert matching.fastest_engine() == "numba"
    index = Index([(1, parse_subscription("[a,>,1]"))], engine=matching.fastest_engine())
    assert index.match([{"a": 2}, {"a": 1}]).lists().to_pylist() == [[1], []]


def test_an_index_that_lost_most_is_as_small_as_a_new_one():
    lines = [f"[x,>,{n}]" for n in range(1000)]
    kept = {n: parse_subscription(line) for n, line in enumerate(lines[:300])}
    index = Index((n, parse_subscription(line)) for n, line in enumerate(lines))
    for name in range(300, 1000):
        index.remove(name)
    assert index.match(pa.table({"x": [250]})).lists().to_pylist() == [list(range(250))]
    assert index.nbytes <= Index(kept.items()).nbytes


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.sampled_from([3, 700]), events=st.sampled_from([1, 64, 1500]))
def test_engines_agree_on_many_events(seed: int, count: int, events: int) -> None:
    random = np.random.default_rng(seed)
    lines = [_random_line(random) for _ in range(count)]
    table = pa.table(
        {
            "s": pa.array(random.choice(["A", "B", "C", None], events)),
            "x": pa.array(random.integers(0, 20, events), mask=random.random(events) < 0.1),
            "y": np.where(random.random(events) < 0.1, np.nan, random.integers(0, 40, events) / 2),
        }
    )
    reading = read_lines(lines)
    assert not reading.faults
    one, two = (Index.from_columns(range(count), reading.predicates, engine=e).match(table) for e in ("numpy", "numba"))
    assert one.lists().equals(two.lists())
    assert one.counts().tolist() == two.counts().tolist()
    assert one.bits().to_dict() == two.bits().to_dict()
    some = random.integers(0, events, 5)
    rows = [{k: v for k, v in row.items() if v is not None} for row in table.take(pa.array(some)).to_pylist()]
    named = {i: parse_subscription(line) for i, line in enumerate(lines)}
    assert [one.lists()[int(i)].as_py() for i in some] == expected(named, rows)


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@pytest.mark.parametrize("count", [3, 3000])  # few matches and many: two ways to sort
def test_chunks_are_named_in_the_order_of_the_numbers(engine: Engine, count: int) -> None:
    random = np.random.default_rng(count)
    reading = read_lines([f"[x,>,{random.integers(0, 20)}]" for _ in range(count)])
    names = random.permutation(5 * count)[:count]
    events = pa.table({"x": random.integers(0, 25, 200)})
    for ids in (pa.array(names.astype(np.int32)), pa.array(names), pa.array(map(str, names))):
        found = Index.from_columns(ids, reading.predicates, engine=engine).match(events)
        wanted = [ids.take(pa.array(chunk.numbers)) for chunk in found.chunks()]
        got = list(found.id_chunks())
        assert [list(offsets) for _, offsets, _ in got] == [list(chunk.offsets) for chunk in found.chunks()]
        assert [part for *_, part in got] == wanted
        assert sum(map(len, wanted)) > 0


def _random_line(random: np.random.Generator) -> str:
    predicates = []
    if random.random() < 0.6:
        predicates.append(random.choice(["[s,eq,'A']", "[s,eq,'B']", "[s,neq,'C']", "[s,str-prefix,'A']", "[s,eq,*]"]))
    for attribute in random.permutation(["x", "y"])[: random.integers(0, 3)]:
        operator = random.choice(["<", "<=", ">", ">=", "=", "<>"])
        predicates.append(f"[{attribute},{operator},{random.integers(0, 40) / 2}]")
        if random.random() < 0.3:
            predicates.append(f"[{attribute},<,{random.integers(0, 40)}]")
    return ",".join(predicates or ["[x,isPresent,0]"])


@pytest.mark.parametrize("engine", ENGINES)
def test_more_shapes_than_are_worth_a_lookup_of_their_own(engine: matching.Engine) -> None:
    attributes = [f"a{i}" for i in range(9)]
    named = {
        mask: parse_subscription(",".join(f"[{a},eq,'x']" for i, a in enumerate(attributes) if mask >> i & 1))
        for mask in range(1, 512)
    }
    publications = [dict.fromkeys([a for i, a in enumerate(attributes) if m >> i & 1], "x") for m in (0, 1, 7, 511)]
    check(Index(named.items(), engine=engine).match(publications), expected(named, publications))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_result_larger_than_a_chunk_is_given_in_several(engine: matching.Engine) -> None:
    lines = ["[x,>=,0]"] * 50 + ["[x,>=,0],[x,<=,9],[y,<>,1]"] * 50
    found = Index.from_columns(range(100), read_lines(lines).predicates, engine=engine).match(
        pa.table({"x": np.arange(20), "y": np.arange(20)})
    )
    chunks = list(found.chunks(limit=500))
    assert len(chunks) > 1
    joined = [part.tolist() for chunk in chunks for part in np.split(chunk.numbers, chunk.offsets[1:-1])]
    assert joined == found.lists().to_pylist()
    assert [chunk.first for chunk in chunks] == np.cumsum([0, *(len(c.offsets) - 1 for c in chunks[:-1])]).tolist()


NUMBER_COLUMNS = [
    pa.array([2**53 + 1, None, -(2**63), 2**63 - 1]),
    pa.array([2**64 - 1, 2**63, 0, None], pa.uint64()),
    pa.array([-1, 0, None, 127], pa.int8()),
    pa.array([0.5, -0.0, math.nan, None]),
    pa.array([1.5, None], pa.float32()),
    pa.array([1, 0, None], pa.int32()).dictionary_encode(),
    pa.array([None, None], pa.null()),
    pa.array([None, None], pa.int64()),
    pa.chunked_array([[1, 2], [None, 2**53 + 1]]),
]


@pytest.mark.parametrize("column", NUMBER_COLUMNS, ids=lambda c: str(c.type))
def test_number_columns_are_read_exactly(column: pa.Array) -> None:
    operands = [0, 1, 0.5, 1.5, 127, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2.0**63, 2.0**64]
    named = {
        i: parse_subscription(f"[x,{operator},{operand!r}]")
        for i, (operator, operand) in enumerate((o, v) for o in ("=", "<>", "<", "<=", ">", ">=") for v in operands)
    }
    rows: list[Publication] = [{} if value is None else {"x": value} for value in column.to_pylist()]
    assert Index(named.items()).match(pa.table({"x": column})).lists().to_pylist() == expected(named, rows)


STRING_COLUMNS = [
    pa.array(["ab", "", None, "ünï", "b"]),
    pa.array(["ab", None, "b"], pa.large_string()),
    pa.array(["ab", None, "b"], pa.string_view()),
    pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, None]), pa.array(["ab", "b", "ab", None])),
]


@pytest.mark.parametrize("column", STRING_COLUMNS, ids=lambda c: str(c.type))
def test_string_columns_are_read_exactly(column: pa.Array) -> None:
    lines = ["[x,eq,'ab']", "[x,neq,'ab']", "[x,str-prefix,'ü']", "[x,str-suffix,'b']", "[x,str-contains,'']"]
    named = {i: parse_subscription(line) for i, line in enumerate([*lines, "[x,eq,*]", "[x,isPresent,0]"])}
    rows: list[Publication] = [{} if value is None else {"x": value} for value in column.to_pylist()]
    assert Index(named.items()).match(pa.table({"x": column})).lists().to_pylist() == expected(named, rows)


def test_a_column_that_is_neither_string_nor_number_counts_as_missing() -> None:
    index = Index([(1, parse_subscription("[x,eq,*]")), (2, parse_subscription("[x,<>,5]"))])
    assert index.match(pa.table({"x": pa.array([True, False])})).lists().to_pylist() == [[], []]


def test_ids_ascend_as_numbers_or_by_code_point() -> None:
    any_x = parse_subscription("[x,eq,*]")
    for ids in (["10", "9", "+8", "08"], ["b", "ä", "B", "10", "9"], ["1" * 30, "2"]):
        ascending = sorted(ids, key=sort_key(ids))
        assert Index([(name, any_x) for name in ids]).match([{"x": 1}]).lists().to_pylist() == [ascending]


def test_ids_are_taken_once_and_of_one_type() -> None:
    any_x = parse_subscription("[x,eq,*]")
    with pytest.raises(BadInput, match="'b' twice"):
        Index([("b", any_x), ("a", any_x), ("b", any_x)])
    index = Index([("a", any_x)])
    with pytest.raises(BadInput, match="'a' twice"):
        index.add("a", any_x)
    with pytest.raises(BadInput, match="7"):
        index.add(7, any_x)
    with pytest.raises(BadInput, match="'z'"):
        index.remove("z")
    index.remove("a")
    index.add("a", any_x)
    assert index.match([{"x": 0}]).lists().to_pylist() == [["a"]]
    assert "a" in index
    assert "b" not in index


def test_batches_are_added_at_once() -> None:
    index = Index.from_columns([1, 2], read_lines(["[x,>,1]", "[x,>,2]"]).predicates)
    index.add_many([3, 4], read_lines(["[x,>,3]", "[x,<,0]"]).predicates)
    index.add(5, parse_subscription("[x,=,9]"))
    assert index.match([{"x": 9}]).lists().to_pylist() == [[1, 2, 3, 5]]
    with pytest.raises(BadInput, match="2 ids for 1"):
        index.add_many([6, 7], read_lines(["[x,>,3]"]).predicates)


@pytest.mark.parametrize("looked_up", [False, True])  # with and without the table of ids
def test_many_ids_are_claimed_as_single_ones(looked_up: bool) -> None:
    def rules(count: int) -> Predicates:
        return read_lines(["[x,=,9]"] * count).predicates

    def fresh() -> Index:
        index = Index.from_columns(pa.array([5, 3, 4], pa.int32()), rules(3))
        assert not looked_up or 3 in index
        return index

    for ids, fault in (([7, 3], "the id 3 twice"), ([7, 7], "an id twice"), (["7"], "'7'"), ([6, "7"], "'7'")):
        with pytest.raises(BadInput, match=fault):
            fresh().add_many(ids, rules(len(ids)))
    index = fresh()
    index.add_many([2, 2**40], rules(2))
    index.add(1, parse_subscription("[x,=,9]"))
    index.remove(3)
    index.add_many(pa.array([3], pa.int32()), rules(1))
    assert len(index) == 6
    assert index.match([{"x": 9}]).lists().to_pylist() == [[1, 2, 3, 4, 5, 2**40]]
    with pytest.raises(BadInput, match=f"the id {2**40} twice"):
        index.add_many([2**40], rules(1))


@settings(max_examples=250, deadline=None)
@given(st.lists(any_subscription.map(format_subscription) | st.text("[]',ab=*\\ ", max_size=12), max_size=8))
@example(["[a,eq,'x],[b,eq,'],[c,eq,'y']", "[a,eq,'],[']", " [a,=,1]", "[a,=,1]\n", ""])
def test_many_lines_are_read_as_one_by_one(lines: list[str]) -> None:
    reading = read_lines(lines)
    good, faults = [], {}
    for number, line in enumerate(lines):
        try:
            good.append((number, parse_subscription(line)))
        except ValueError as fault:
            faults[number] = str(fault)
    assert reading.good.tolist() == [number for number, _ in good]
    assert {number: str(fault) for number, fault in reading.faults.items()} == faults
    table = reading.predicates
    again = Predicates.from_arrow(table.to_arrow())
    for read in (table, again):
        one = Predicates.of(s for _, s in good)
        assert _rows(read) == _rows(one)


def _rows(table: Predicates) -> list[tuple[object, ...]]:
    texts = (*table.texts, None)
    columns = (table.owner, table.operator, table.number, table.rest)
    plain = zip(*(c.tolist() for c in columns), strict=True)
    return [
        (*row, table.attributes[attribute], texts[text])
        for row, attribute, text in zip(plain, table.attribute.tolist(), table.text.tolist(), strict=True)
    ]
