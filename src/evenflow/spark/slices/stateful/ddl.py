"""Spark's text for a schema, read without Spark: what tests in memory need."""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql import types as st

from evenflow.errors import BadInput

SIMPLE: Final = {
    "boolean": st.BooleanType,
    "byte": st.ByteType,
    "tinyint": st.ByteType,
    "short": st.ShortType,
    "smallint": st.ShortType,
    "int": st.IntegerType,
    "integer": st.IntegerType,
    "long": st.LongType,
    "bigint": st.LongType,
    "float": st.FloatType,
    "real": st.FloatType,
    "double": st.DoubleType,
    "string": st.StringType,
    "binary": st.BinaryType,
    "date": st.DateType,
    "timestamp": st.TimestampType,
    "timestamp_ntz": st.TimestampNTZType,
}


def schema_of(text: str | st.StructType) -> st.StructType:
    """Return the schema that a text describes.

    Examples
    --------
    >>> schema_of("n int not null, tags array<string>, at struct<x: double, y: decimal(10,2)>").simpleString()
    'struct<n:int,tags:array<string>,at:struct<x:double,y:decimal(10,2)>>'
    """
    if isinstance(text, st.StructType):
        return text
    schema = st.StructType()
    for part in _divided(text):
        found = re.fullmatch(r"`?(\w+)`?\s*[:\s]\s*(.+?)(\s+not\s+null)?", part.strip(), re.IGNORECASE | re.DOTALL)
        if found is None:
            raise BadInput(f"'{part.strip()}'", "a name and a type", "schema")
        name, kind, needed = found.groups()
        schema = schema.add(name, _type(kind.strip()), nullable=needed is None)
    return schema


def _type(text: str) -> st.DataType:
    simple = SIMPLE.get(text.lower())
    if simple is not None:
        return simple()
    decimal = re.fullmatch(r"(?:decimal|dec|numeric)(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?", text, re.IGNORECASE)
    if decimal is not None:
        return st.DecimalType(int(decimal[1] or 10), int(decimal[2] or 0))
    nested = re.fullmatch(r"(array|map|struct)\s*<(.*)>", text, re.IGNORECASE | re.DOTALL)
    if nested is None:
        raise BadInput(f"type '{text}'", "a type of Spark SQL", "schema")
    kind, inner = nested[1].lower(), nested[2]
    if kind == "struct":
        return schema_of(inner)
    parts = [_type(part.strip()) for part in _divided(inner)]
    return st.ArrayType(parts[0]) if kind == "array" else st.MapType(parts[0], parts[1])


def _divided(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for place, sign in enumerate(text):
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]
