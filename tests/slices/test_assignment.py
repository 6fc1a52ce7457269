"""Assignment functions: the examples of the thesis, one item against a batch, evenness, refusals, speed."""

from __future__ import annotations

import math
import random
import sys
import time
import types
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import chdtrc

from evenflow.errors import BadInput
from evenflow.slices.assignment import (
    NO_SLICE,
    PRODUCER,
    Assignment,
    Custom,
    Hash,
    Modulo,
    Random,
    checked,
    parse_assignment,
)

slice_counts = st.one_of(st.integers(1, 50), st.integers(1, 2**31 - 1))
int64s = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-5, 5))
whole_floats = st.one_of(
    st.floats(-1e6, 1e6).map(round), st.floats(allow_nan=False, allow_infinity=False).map(math.floor)
)


def batch_of(**columns: Any) -> Any:
    return pa.record_batch({name: c if isinstance(c, pa.Array) else pa.array(c) for name, c in columns.items()})


def assert_agree(assignment: Assignment, column: Any) -> None:
    """A batch, a table of uneven chunks and the items one by one: the same slices."""
    expected = [assignment.assign({"x": value}) for value in column.to_pylist()]
    ids = assignment.assign_batch(batch_of(x=column))
    assert ids.dtype == np.int32
    assert ids.tolist() == expected
    cut = len(column) // 3
    table = pa.table({"x": pa.chunked_array([column[:cut], column[cut:cut], column[cut:]], type=column.type)})
    assert assignment.assign_batch(table).tolist() == expected
    assert all(0 <= s < assignment.slices or s == NO_SLICE for s in expected)


# -- the thesis ---------------------------------------------------------------------------------


def test_figure_13() -> None:
    by_sensor = Modulo("sensor_id", 10)
    assert [by_sensor.assign({"sensor_id": i, "temperature": 20.5}) for i in (21, 1, 52, 19)] == [1, 1, 2, 9]
    assert by_sensor.assign_batch(batch_of(sensor_id=[21, 1, 52, 19])).tolist() == [1, 1, 2, 9]


def test_latitude() -> None:
    def hemisphere(item: Any) -> int:
        return 0 if item["latitude"] > 0 else 1

    by_hemisphere = Custom(hemisphere, 2)
    assert [by_hemisphere.assign({"latitude": lat}) for lat in (48.1, -22.9, 0.0)] == [0, 1, 1]
    places = batch_of(latitude=[48.1, -22.9, 0.0], longitude=[11.6, -43.2, 0.0])
    assert by_hemisphere.assign_batch(places).tolist() == [0, 1, 1]
    vectorised = Custom(hemisphere, 2, lambda batch: 1 - (batch["latitude"].to_numpy() > 0))
    assert vectorised.assign_batch(places).tolist() == [0, 1, 1]


# -- modulo -------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.lists(int64s), slice_counts)
def test_modulo_of_integers(values: list[int], slices: int) -> None:
    assert_agree(Modulo("x", slices), pa.array(values, pa.int64()))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1)), slice_counts)
def test_modulo_of_unsigned_integers(values: list[int], slices: int) -> None:
    assert_agree(Modulo("x", slices), pa.array(values, pa.uint64()))


@settings(max_examples=50, deadline=None)
@given(st.lists(whole_floats), slice_counts)
def test_modulo_of_whole_floats(values: list[float], slices: int) -> None:
    assert_agree(Modulo("x", slices), pa.array([float(v) for v in values], pa.float64()))


@settings(max_examples=50, deadline=None)
@given(st.integers(), slice_counts)
def test_modulo_of_any_integer(value: int, slices: int) -> None:
    assert Modulo("x", slices).assign({"x": value}) == value % slices
    if abs(value) < 2**53:
        assert Modulo("x", slices).assign({"x": float(value)}) == value % slices


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.float32()]
)
def test_modulo_of_narrow_types(kind: Any) -> None:
    assert_agree(Modulo("x", 1000), pa.array([0, 1, 127, 100], kind))  # more slices than the type has values
    if pa.types.is_signed_integer(kind):
        assert Modulo("x", 10).assign_batch(batch_of(x=pa.array([-1, -128], kind))).tolist() == [9, 2]


def test_modulo_of_a_dictionary() -> None:
    assert_agree(Modulo("x", 10), pa.array([21, 1, 21, 52]).dictionary_encode())


# -- hash ---------------------------------------------------------------------------------------

COLUMNS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "int64": (pa.int64(), int64s),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "bool": (pa.bool_(), st.booleans()),
    "float64": (pa.float64(), st.one_of(st.floats(), whole_floats.map(float))),
    "float32": (pa.float32(), st.floats(width=32)),
    "string": (pa.string(), st.text(max_size=100)),
    "large_string": (pa.large_string(), st.text()),
    "string_view": (pa.string_view(), st.text()),
    "binary": (pa.binary(), st.binary(max_size=100)),
    "binary_view": (pa.binary_view(), st.binary()),
    "uuid": (pa.uuid(), st.uuids()),
    "fixed": (pa.binary(5), st.binary(min_size=5, max_size=5)),
}


@pytest.mark.parametrize("name", sorted(COLUMNS))
def test_hash_of_every_type(name: str) -> None:
    kind, values = COLUMNS[name]

    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.one_of(values, st.none())), slice_counts, st.integers(0, 5))
    def agree(rows: list[Any], slices: int, skip: int) -> None:
        column = pa.array(rows, kind)
        assert_agree(Hash("x", slices, nulls="drop"), column[skip:])  # a slice of an array has an offset

    agree()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(["a", "b", "sensor-7"]), st.none())))
def test_hash_of_a_dictionary(values: list[str | None]) -> None:
    assert_agree(Hash("x", 10, nulls=3), pa.array(values, pa.string()).dictionary_encode())
    assert_agree(Hash("x", 10, nulls=3), pa.array(values, pa.string()).dictionary_encode(null_encoding="encode"))


def test_hash_of_many_rows() -> None:
    rng = np.random.default_rng(1)
    assert_agree(Hash("x", 997), pa.array(["x" * length for length in rng.integers(0, 80, 40_000)]))
    assert_agree(Hash("x", 997), pa.array(rng.integers(-(2**62), 2**62, 40_000)))


@settings(max_examples=50, deadline=None)
@given(st.integers(-(2**53), 2**53), slice_counts)
def test_equal_values_share_a_slice(value: int, slices: int) -> None:
    by_x = Hash("x", slices)
    assert by_x.assign({"x": value}) == by_x.assign({"x": float(value)}) == by_x.assign({"x": np.int64(value)})


def test_equal_values_of_other_types_share_a_slice() -> None:
    by_x = Hash("x", 2**31 - 1)

    def slices_of(*values: Any) -> set[int]:
        return {by_x.assign({"x": value}) for value in values}

    uuid = UUID("12345678123456781234567812345678")
    assert len(slices_of(0, 0.0, -0.0, False, np.bool_(False), np.float32(0))) == 1
    assert len(slices_of(1, 1.0, True)) == 1
    assert len(slices_of("é", "é".encode(), bytearray("é".encode()))) == 1
    assert len(slices_of(uuid, uuid.bytes)) == 1
    assert len(slices_of(float("nan"), -float("nan"), np.float32("nan"))) == 1
    assert len(slices_of(2**70, 2.0**70, -(2.0**70))) == 1  # integers count modulo 2**64: all are 0
    assert len(slices_of(0, 0.5, 1, -1, 2**63, 1.5, math.inf, -math.inf, "", "0", "a", "b")) == 12


def test_producer() -> None:
    by_producer = Hash(PRODUCER, 10)
    assert by_producer.assign({"@producer": "sensor-7", "value": 1}) == Hash("x", 10).assign({"x": "sensor-7"})
    assert by_producer.assign_batch(batch_of(**{"@producer": ["sensor-7"]})).tolist() == [
        by_producer.assign({"@producer": "sensor-7"})
    ]


# -- random -------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [lambda: random.Random(7), lambda: np.random.default_rng(7)])
def test_random_one_by_one_or_at_once(stream: Any) -> None:
    single, together = Random(10, stream()), Random(10, stream())
    ids = together.assign_batch(batch_of(x=list(range(1000))))
    assert ids.dtype == np.int32
    assert ids.tolist() == [single.assign({}) for _ in range(1000)]
    assert set(ids.tolist()) == set(range(10))


def test_random_leaves_the_global_stream_alone() -> None:
    before = random.getstate()
    Random(10, random.Random(1)).assign_batch(batch_of(x=[1, 2, 3]))
    assert random.getstate() == before


# -- evenness -----------------------------------------------------------------------------------

KEYS: dict[str, Any] = {
    "counted": np.arange(30_000),
    "every thousandth": np.arange(30_000) * 1000,
    "powers apart": np.arange(30_000) << 40,
    "negative": -np.arange(30_000),
    "fractions": np.arange(30_000) / 7,
    "names": [f"sensor-{i}" for i in range(30_000)],
    "long names": [f"{'building/floor/room/' * 4}{i}" for i in range(30_000)],
    "hexadecimal": [f"{i:016x}" for i in range(30_000)],
    "one letter apart": [chr(97 + i % 26) * (1 + i // 26 % 60) + str(i) for i in range(30_000)],
}


def assert_even(ids: Any, slices: int) -> None:
    """Chi-square test: an even assignment looks this uneven once in 10,000 times."""
    expected = len(ids) / slices
    chi_square = ((np.bincount(ids, minlength=slices) - expected) ** 2 / expected).sum()
    assert chdtrc(slices - 1, chi_square) > 1e-4


@pytest.mark.parametrize("slices", [2, 10, 1000])
@pytest.mark.parametrize("keys", sorted(KEYS))
def test_hash_is_even(keys: str, slices: int) -> None:
    ids = Hash("x", slices).assign_batch(batch_of(x=KEYS[keys]))
    assert_even(ids, slices)


@pytest.mark.parametrize("slices", [2, 10, 1000])
def test_random_is_even(slices: int) -> None:
    ids = Random(slices, np.random.default_rng(3)).assign_batch(batch_of(x=KEYS["counted"]))
    assert_even(ids, slices)


def test_modulo_of_uniform_keys_is_even() -> None:
    keys = np.random.default_rng(4).integers(-(2**63), 2**63 - 1, 30_000)
    assert_even(Modulo("x", 128).assign_batch(batch_of(x=keys)), 128)


def test_the_chi_square_test_sees_unevenness() -> None:
    with pytest.raises(AssertionError):
        assert_even(np.repeat(np.arange(10), [1000] * 9 + [1300]), 10)


# -- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1.5, math.nan, math.inf, "21", True, b"1", [1], UUID(int=1)])
def test_modulo_refuses_what_is_no_whole_number(value: Any) -> None:
    with pytest.raises(BadInput, match=r"item \{.*\}, field 'x': given .*, allowed is a whole number"):
        Modulo("x", 10).assign({"x": value})


def test_modulo_refuses_columns_and_rows() -> None:
    for column in (pa.array(["1"]), pa.array([True]), pa.array([[1]])):
        with pytest.raises(
            BadInput, match=r"batch, field 'x': given a column of type .*, allowed is integers or floats"
        ):
            Modulo("x", 10).assign_batch(batch_of(x=column))
    table = pa.table({"x": pa.chunked_array([[1.0, 2.0], [3.0, 4.5, 5.5]])})
    with pytest.raises(BadInput, match=r"row 3, field 'x': given 4\.5, allowed is a whole number"):
        Modulo("x", 10).assign_batch(table)


@pytest.mark.parametrize("value", [[1], {"a": 1}, object(), 1j, "\ud800"])
def test_hash_refuses_what_has_no_hash(value: Any) -> None:
    with pytest.raises(BadInput, match=r"item .*, field 'x': given .*, allowed is a"):
        Hash("x", 10).assign({"x": value})


@pytest.mark.parametrize("column", [pa.array([[1]]), pa.array([{"a": 1}]), pa.array([1], pa.timestamp("s"))])
def test_hash_refuses_columns(column: Any) -> None:
    with pytest.raises(BadInput, match=r"batch, field 'x': given a column of type .*, allowed is an integer"):
        Hash("x", 10).assign_batch(batch_of(x=column))


@pytest.mark.parametrize("build", [Modulo, Hash])
def test_nulls(build: Any) -> None:
    table = pa.table({"x": pa.chunked_array([[1, 2], [3, None]])})
    with pytest.raises(BadInput, match="row 3, field 'x': given null"):
        build("x", 10).assign_batch(table)
    for item in ({"x": None}, {}):
        with pytest.raises(BadInput, match="field 'x': given null"):
            build("x", 10).assign(item)
        assert build("x", 10, "drop").assign(item) == NO_SLICE
        assert build("x", 10, 4).assign(item) == 4
    assert build("x", 10, "drop").assign_batch(table)[3] == NO_SLICE
    assert build("x", 10, 4).assign_batch(table)[3] == 4
    assert build("x", 10, 4).assign_batch(batch_of(x=pa.nulls(2))).tolist() == [4, 4]
    with pytest.raises(BadInput, match="nulls=10, allowed is 'refuse', 'drop' or a slice from 0 to 9"):
        build("x", 10, 10)
    with pytest.raises(BadInput, match="nulls='skip'"):
        build("x", 10, "skip")


def test_columns_that_are_not_there() -> None:
    with pytest.raises(BadInput, match="batch: given no column 'sensor', allowed is one column: 'sensors'"):
        Hash("sensor", 10).assign_batch(batch_of(sensors=[1], other=[2]))
    twice = pa.record_batch([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(BadInput, match="several columns 'x'"):
        Hash("x", 10).assign_batch(twice)


@pytest.mark.parametrize("slices", [0, -1, 2**31, True, 2.0, "10"])
def test_a_number_of_slices(slices: Any) -> None:
    for build in (
        lambda: Modulo("x", slices),
        lambda: Hash("x", slices),
        lambda: Custom(lambda item: 0, slices),
        lambda: Random(slices, random.Random(1)),
    ):
        with pytest.raises(BadInput, match="allowed is an integer from 1 to 2147483647"):
            build()


@pytest.mark.parametrize("slice_id", [10, -1, True, 1.0, "1", 2**80, np.int64(10)])
def test_a_slice_outside_the_range_is_refused(slice_id: Any) -> None:
    user = Custom(lambda item: slice_id if item["x"] == 3 else 0, 10)
    with pytest.raises(BadInput, match=r"item \{'x': 3\}: given slice .*, allowed is an integer from 0 to 9"):
        user.assign({"x": 3})
    with pytest.raises(BadInput, match=r"row 2: given slice .*, allowed is an integer from 0 to 9"):
        user.assign_batch(batch_of(x=[1, 2, 3]))


def test_a_batch_function_is_checked_too() -> None:
    three = batch_of(x=[1, 2, 3])
    for ids, said in (
        ([0, 10, 0], "assignment, row 1: given slice 10"),
        ([0, 1, -1], "assignment, row 2: given slice -1"),
        ([0.0, 1.0, 2.0], "slices of type float64"),
        ([0, 1], r"slices of shape \(2,\)"),
        ([], r"slices of shape \(0,\)"),
    ):
        with pytest.raises(BadInput, match=said):
            Custom(lambda item: 0, 10, lambda batch, ids=ids: ids).assign_batch(three)
    assert checked(np.array([], np.float64), 10).tolist() == []
    assert checked(np.array([9], np.uint8), 10).tolist() == [9]


def test_a_user_function_may_give_no_slice() -> None:
    user = Custom(lambda item: None, 10, nulls="drop")
    assert user.assign({}) == NO_SLICE
    assert user.assign_batch(batch_of(x=[1])).tolist() == [NO_SLICE]
    with pytest.raises(BadInput, match="given null"):
        Custom(lambda item: None, 10).assign({})


def test_a_long_item_is_cut_in_the_message() -> None:
    with pytest.raises(BadInput) as caught:
        Modulo("x", 10).assign({"x": "a" * 1000, "y": "b" * 1000})
    assert len(str(caught.value)) < 300


def test_empty_batches() -> None:
    empty = batch_of(x=pa.array([], pa.int64()))
    for assignment in (Modulo("x", 10), Hash("x", 10), Random(10, random.Random(1)), Custom(lambda item: 0, 10)):
        assert assignment.assign_batch(empty).tolist() == []
    assert Hash("x", 10).assign_batch(batch_of(x=pa.array([], pa.string()))).tolist() == []


# -- specifications -----------------------------------------------------------------------------


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    places = types.ModuleType("places")
    places.hemisphere = lambda item: 0 if item["latitude"] > 0 else 1  # type: ignore[attr-defined]
    places.number = 5  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "places", places)


@pytest.mark.usefixtures("module")
def test_specifications() -> None:
    assert parse_assignment("modulo:sensor_id", 10) == Modulo("sensor_id", 10)
    assert parse_assignment("hash:device", 10, nulls="drop") == Hash("device", 10, "drop")
    assert parse_assignment("hash:@producer", 10) == Hash(PRODUCER, 10)
    assert parse_assignment("hash:a:b", 10) == Hash("a:b", 10)
    stream = random.Random(1)
    assert parse_assignment("random", 10, stream=stream) == Random(10, stream)
    assert parse_assignment("places:hemisphere", 2).assign({"latitude": 1}) == 0


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("", "given '', allowed is modulo:FIELD"),
        ("modulo", "given 'modulo', allowed is modulo:FIELD"),
        ("modulo:", "allowed is modulo:FIELD"),
        ("hash", "hash:FIELD"),
        ("random", "'random' without a stream"),
        ("randomly", "given 'randomly'"),
        (":f", "MODULE:FUNCTION"),
        ("no_such_module:f", "module 'no_such_module' (No module named 'no_such_module')"),
        ("places:hemispher", "'hemispher', which is no function of places, allowed is 'hemisphere'"),
        ("places:number", "'number', which is no function of places"),
        (".:f", "assignment '.:f'"),
        ("a b:f", "module 'a b'"),
    ],
)
def test_bad_specifications(spec: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_assignment(spec, 10)
    assert said in str(caught.value)


# -- speed --------------------------------------------------------------------------------------


def rows_per_second(assignment: Assignment, column: Any) -> float:
    batch = batch_of(x=column)
    best = math.inf
    for _ in range(7):
        start = time.thread_time()  # what one core did, however busy the machine is
        assignment.assign_batch(batch)
        best = min(best, time.thread_time() - start)
    return len(column) / best


def test_speed() -> None:
    """On one core: measured 100 to 240 million integers and 25 to 50 million short strings a second."""
    rng = np.random.default_rng(1)
    integers = pa.array(rng.integers(-(2**63), 2**63 - 1, 500_000))
    strings = pa.array([f"sensor-{i}" for i in range(500_000)])
    assert rows_per_second(Modulo("x", 128), integers) > 20e6
    assert rows_per_second(Hash("x", 128), integers) > 20e6
    assert rows_per_second(Hash("x", 128), strings) > 5e6
