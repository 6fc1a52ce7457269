"""Samples become columns: fast where the encoding is the usual one, and always the same values as Cyclone's own objects."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Optional

import pyarrow as pa
import pytest
from cyclonedds.idl import IdlEnum, IdlStruct, IdlUnion, types
from cyclonedds.idl.annotations import appendable, key, mutable
from cyclonedds.idl.types import array, bounded_str, case, char, sequence, typedef
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.dds.wire.columns import is_item, load_type, schema_of, struct_of
from evenflow.dds.wire.decode import Decoder
from evenflow.dds.wire.fields import MalformedError
from evenflow.dds.wire.idl import item_type
from evenflow.errors import BadInput

NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "byte", "float32", "float64")


class Colour(IdlEnum, typename="test.Colour"):
    RED = 0
    BLUE = 1


@dataclass
class Inner(IdlStruct, typename="test.Inner"):
    label: str
    weight: types.float32


@dataclass
class Fixed(IdlStruct, typename="test.Fixed"):
    small: types.int8
    wide: types.uint64
    flag: bool
    point: types.float64
    count: types.uint16


@dataclass
class Many(IdlStruct, typename="test.Many"):
    name: str
    tiny: types.uint8
    inner: Inner
    values: sequence[types.int16]
    wides: sequence[types.uint64]
    raw: sequence[types.uint8]
    inners: sequence[Inner]
    texts: sequence[bounded_str[20]]
    grid: array[types.float64, 3]
    alias: typedef["test.Alias", types.uint32]  # noqa: F821
    last: types.int64


@dataclass
class Odd(IdlStruct, typename="test.Odd"):
    colour: Colour
    letter: char
    maybe: Optional[types.int32]  # noqa: UP045 - Cyclone knows this form
    colours: sequence[Colour]


@dataclass
@appendable
class Grows(IdlStruct, typename="test.Grows"):
    name: str
    count: types.int64
    inners: sequence[Inner]


@dataclass
@mutable
class Changes(IdlStruct, typename="test.Changes"):
    number: types.int64
    key("number")
    name: str


@dataclass
class Person:
    name: str
    age: int


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)
inners = st.builds(Inner, texts, st.floats(width=32, allow_nan=False))


def whole(bits, signed=False):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)


manys = st.builds(
    Many,
    texts,
    whole(8),
    inners,
    st.lists(whole(16, signed=True), max_size=4),
    st.lists(whole(64), max_size=3),
    st.lists(whole(8), max_size=5),
    st.lists(inners, max_size=3),
    st.lists(texts, max_size=3),
    st.lists(st.floats(allow_nan=False), min_size=3, max_size=3),
    whole(32),
    whole(64, signed=True),
)


def as_row(value):
    if isinstance(value, IdlStruct):
        return {name: as_row(getattr(value, name)) for name in value.__dataclass_fields__}
    return [as_row(part) for part in value] if isinstance(value, list) else value


def row_of_many(value):
    return {**as_row(value), "raw": bytes(value.raw), "wides": [Decimal(w) for w in value.wides]}


@settings(max_examples=30)
@given(st.lists(manys, max_size=4))
def test_every_kind_of_field_comes_out_as_it_went_in(values):
    decoder = Decoder(Many)
    assert decoder._parts is not None
    assert decoder.batch([v.serialize() for v in values]).to_pylist() == [row_of_many(v) for v in values]


@settings(max_examples=30)
@given(st.lists(manys, min_size=1, max_size=3))
def test_the_other_encodings_give_the_same_rows(values):
    from cyclonedds.idl._support import Endianness

    usual = Decoder(Many).batch([v.serialize() for v in values])
    second = Decoder(Many).batch([v.serialize(use_version_2=True) for v in values])
    big = Decoder(Many).batch([v.serialize(endianness=Endianness.Big) for v in values])
    assert usual.equals(second)
    assert usual.equals(big)


@settings(max_examples=30)
@given(
    st.lists(st.builds(Fixed, whole(8, signed=True), whole(64), st.booleans(), st.floats(allow_nan=False), whole(16)))
)
def test_a_fixed_layout_is_read_at_once(values):
    decoder = Decoder(Fixed)
    assert decoder._fixed
    want = [{**as_row(v), "wide": Decimal(v.wide)} for v in values]
    assert decoder.batch([v.serialize() for v in values]).to_pylist() == want


@pytest.mark.parametrize(
    "value",
    [
        Odd(Colour.BLUE, "x", None, [Colour.RED]),
        Odd(Colour.RED, "y", 7, []),
        Grows("a", 5, [Inner("b", 0.5)]),
        Changes(1, "é"),
    ],
)
def test_what_only_cyclone_reads_goes_through_cyclone(value):
    decoder = Decoder(type(value))
    (row,) = decoder.batch([value.serialize()]).to_pylist()
    want = as_row(value)
    for name in ("colour", "colours"):
        if name in want:
            part = want[name]
            want[name] = [c.name for c in part] if isinstance(part, list) else part.name
    assert row == want


@pytest.mark.parametrize("cut", [5, 9, 20, 40])
def test_a_cut_sample_is_refused(cut):
    value = Many("name", 1, Inner("l", 1.0), [1], [2], [3], [], ["t"], [1.0, 2.0, 3.0], 4, 5)
    with pytest.raises(MalformedError, match="Many"):
        Decoder(Many).batch([value.serialize()[:cut]])
    with pytest.raises(MalformedError, match="Fixed"):
        Decoder(Fixed).batch([Fixed(1, 2, True, 1.0, 3).serialize()[: min(cut, 12)]])


def test_a_schema_and_its_type_are_each_other_s_inverse():
    inner = pa.struct([("room", pa.string()), ("floor", pa.int32())])
    fields = [
        ("id", pa.int64()),
        ("small", pa.int8()),
        ("share", pa.float32()),
        ("raw", pa.binary()),
        ("rooms", pa.list_(pa.field("element", inner))),
        ("wide", pa.decimal128(20, 0)),
        ("on", pa.bool_()),
    ]
    schema = pa.schema(fields)
    assert schema_of(struct_of(schema, "Inline")) == schema
    with pytest.raises(BadInput, match="'when'"):
        struct_of(pa.schema([("when", pa.timestamp("us"))]), "Inline")
    with pytest.raises(BadInput, match="no fields"):
        struct_of(pa.schema([]), "Inline")


def test_types_are_found_by_name_and_refused_by_field():
    assert load_type(f"{__name__}:Fixed") is Fixed
    assert load_type(f"{__name__}:Person") is item_type(Person)
    assert is_item(item_type(Person))
    assert not is_item(Fixed)
    for name, match in (
        ("no.such:Type", "no.such"),
        (f"{__name__}:Fixd", "'Fixed'"),
        (f"{__name__}:NUMBERS", "no dataclass"),
        (f"{__name__}:Unreadable", "Unreadable.choice"),
    ):
        with pytest.raises(BadInput, match=match):
            load_type(name)


class Choice(IdlUnion, discriminator=types.int32, typename="test.Choice"):
    a: case[1, types.int32]
    b: case[2, str]


@dataclass
class Unreadable(IdlStruct, typename="test.Unreadable"):
    choice: Choice
