"""What Spark 4.3 itself gives back for each value, seen on a real query and written down."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import Row
from pyspark.sql import types as st

from evenflow.spark.slices.stateful.codec import Codec
from evenflow.spark.slices.stateful.order import row_bytes

WIDE = (
    st.StructType()
    .add("i", "integer")
    .add("d", "double")
    .add("f", "float")
    .add("s", "string")
    .add("b", "boolean")
    .add("ts", "timestamp")
    .add("tn", st.TimestampNTZType())
    .add("da", "date")
    .add("de", st.DecimalType(10, 2))
    .add("bi", "binary")
    .add("a", st.ArrayType(st.IntegerType()))
    .add("m", st.MapType(st.StringType(), st.IntegerType()))
    .add("st", st.StructType().add("x", "integer").add("y", "string"))
    .add("l", "long")
    .add("by", "byte")
)
NOW = dt.datetime(2024, 5, 6, 7, 8, 9, 123456)  # noqa: DTZ001 - Spark gives such back
DAY = NOW.date()
FITS = (1, 2.5, 1.1, "s", True, NOW, NOW, DAY, Decimal("1.23"), b"xy", [1, 2], {"a": 1}, (1, "y"), 2**40, 5)
XY = {"x": 1, "y": "z"}
FITS_BACK = (*FITS[:2], 1.100000023841858, *FITS[3:12], Row(x=1, y="y"), 2**40, 5)


@pytest.mark.parametrize(
    ("given", "back"),
    [
        (FITS, FITS_BACK),
        (list(FITS), FITS_BACK),
        (
            (1.5, 1, 1, 5, 1, NOW, NOW, DAY, Decimal("1.239"), "xy", (1, None), {}, Row(x=1, y="q"), True, 300),
            (
                None,
                None,
                None,
                "5",
                None,
                NOW,
                NOW,
                DAY,
                Decimal("1.24"),
                b"xy",
                [1, None],
                {},
                Row(x=1, y="q"),
                None,
                44,
            ),
        ),
        (
            (
                True,
                "2",
                True,
                True,
                "x",
                *[None] * 3,
                Decimal("12345678.5"),
                bytearray(b"z"),
                [],
                {"b": None},
                XY,
                1.5,
                -129,
            ),
            (
                *[None] * 3,
                "true",
                *[None] * 4,
                Decimal("12345678.50"),
                b"z",
                [],
                {"b": None},
                Row(x=1, y="z"),
                None,
                127,
            ),
        ),
        (
            (2**40, None, None, 1.5, None, None, None, None, 5, None, None, None, None, 2**70, None),
            (0, None, None, "1.5", *[None] * 11),
        ),
    ],
)
def test_a_value_comes_back_as_from_spark(given, back):
    codec = Codec(WIDE)
    found = codec.thaw(codec.freeze(given))
    assert found == back
    assert [type(each) for each in found] == [type(each) for each in back]


def test_a_list_that_was_got_can_be_changed_without_changing_the_state():
    codec = Codec(st.StructType().add("tags", st.ArrayType(st.StringType())))
    kept = codec.freeze((["a"],))
    codec.thaw(kept)[0].append("b")
    assert codec.thaw(kept) == (["a"],)


def test_numbers_of_numpy_become_numbers():
    codec = Codec(st.StructType().add("n", "long").add("x", "double"))
    kept = codec.freeze((np.int32(5), np.float32(0.5)))
    assert kept == (5, 0.5)
    assert [type(each) for each in kept] == [int, float]


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ((1, 2), "1 fields are required while 2 values are provided"),
        ((None,), "NOT_NULL_ASSERT_VIOLATION"),
        (("x",), "NOT_NULL_ASSERT_VIOLATION"),
    ],
)
def test_what_does_not_fit_is_refused(value, error):
    codec = Codec(st.StructType().add("n", "integer", nullable=False))
    with pytest.raises(PySparkRuntimeError, match=error):
        codec.freeze(value)


def test_a_decimal_that_does_not_fit_and_a_type_that_spark_does_not_take_are_refused():
    with pytest.raises(PySparkRuntimeError, match=r"cannot be represented as Decimal\(10, 2\)"):
        Codec(st.StructType().add("x", st.DecimalType(10, 2))).freeze((Decimal("123456789012.5"),))
    with pytest.raises(PySparkRuntimeError, match="Unexpected type"):
        Codec(st.StructType().add("x", st.DayTimeIntervalType()))


def test_rows_are_ordered_by_their_bytes_as_in_sparks_store():
    schema = st.StructType().add("n", "long")
    seen = [10000, 10256, 20000, 9000, 9256, 19000, 15000, 15256, 25000]  # as a real query listed them
    assert sorted(seen, key=lambda n: row_bytes((n,), schema)) == seen
