"""The order in which Spark's store gives keys back: by the bytes of a row, its numbers with the lowest byte first.

A job that goes through a map's keys or through its timers sees this order, and so it is kept.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import types as st

WORD: Final = 8
FIXED: Final[dict[type[st.DataType], str]] = {
    st.BooleanType: "<?7x",
    st.ByteType: "<b7x",
    st.ShortType: "<h6x",
    st.IntegerType: "<i4x",
    st.DateType: "<i4x",
    st.LongType: "<q",
    st.TimestampType: "<q",
    st.TimestampNTZType: "<q",
    st.FloatType: "<f4x",
    st.DoubleType: "<d",
}


def row_bytes(values: Sequence[Any], schema: st.StructType) -> bytes:
    """Return a row as Spark writes it: a bit per null, a word per field, then what has no fixed length.

    Examples
    --------
    >>> schema = st.StructType().add("n", "long")
    >>> sorted([(1,), (256,), (2,)], key=lambda row: row_bytes(row, schema))
    [(256,), (1,), (2,)]
    """
    fields = schema.fields
    nulls = bytearray(WORD * ((len(fields) + 63) // 64))
    words, tail = bytearray(), bytearray()
    base = len(nulls) + WORD * len(fields)
    for number, (value, field) in enumerate(zip(values, fields, strict=True)):
        if value is None:
            nulls[number // 8] |= 1 << (number % 8)
            words += bytes(WORD)
            continue
        code = FIXED.get(type(field.dataType))
        if code is not None:
            words += struct.pack(code, value)
        elif isinstance(field.dataType, st.DecimalType) and field.dataType.precision <= 18:
            words += struct.pack("<q", int(value.scaleb(field.dataType.scale)))
        else:
            body = _body(value, field.dataType)
            words += struct.pack("<ii", len(body), base + len(tail))
            tail += body + bytes(-len(body) % WORD)
    return bytes(nulls + words + tail)


def _body(value: Any, spark_type: st.DataType) -> bytes:
    if isinstance(spark_type, st.StructType):
        return row_bytes(value, spark_type)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, Decimal):
        unscaled = int(value.scaleb(-value.as_tuple().exponent))  # type: ignore[operator]  # finite, so an int
        return unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    return repr(value).encode()  # an array: Spark's order within one is not kept


def store_order(values: Sequence[Any], schema: st.StructType) -> tuple[bytes, bytes]:
    """Return what keys of a store are sorted by: a row inside a row has its length in front."""
    body = row_bytes(values, schema)
    return struct.pack("<i", len(body)), body


def number_order(number: int) -> bytes:
    """Return what whole numbers are sorted by."""
    return struct.pack("<q", number)
