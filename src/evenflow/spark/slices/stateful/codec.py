"""Values as Spark's state keeps them: what a schema makes of a value on its way in, and what comes out again.

Spark converts what does not fit in its own ways: an int in a double column becomes null, a number in a string column its text.
A job that was written on Spark must find here what it finds there.
What is kept is immutable, so that a list a job got from its state and changed does not change the state.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final, NamedTuple

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import types as st
from pyspark.sql.streaming import stateful_processor_api_client as client

Kept = tuple[Any, ...]
Change = Callable[[Any], Any]

EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - Spark counts from here, with and without a zone
BITS: Final[dict[type[st.DataType], int]] = {st.ByteType: 8, st.ShortType: 16, st.IntegerType: 32, st.LongType: 64}


class Kind(NamedTuple):
    """How values of one type are kept.

    Parameters
    ----------
    into
        From what Spark's Python types hand over to what is kept.
    out
        From there to what the job gets; ``None`` where they are the same.
    exact, low, high
        A value of this class within these bounds is kept as it is.
    """

    into: Change
    out: Change | None = None
    exact: type | None = None
    low: float = -math.inf
    high: float = math.inf


class Codec:
    """Freezes and thaws the values of one schema.

    Examples
    --------
    >>> codec = Codec(st.StructType().add("n", "integer").add("mean", "double").add("tags", st.ArrayType(st.StringType())))
    >>> kept = codec.freeze((2**31, 1, ["a"]))
    >>> kept, codec.thaw(kept)
    ((-2147483648, None, ('a',)), (-2147483648, None, ['a']))
    """

    def __init__(self, schema: st.StructType) -> None:
        self.schema = schema
        self._kinds = [kind_of(field.dataType) for field in schema.fields]
        self._needed = [not field.nullable for field in schema.fields]
        self._quick = [(kind.exact, kind.low, kind.high) for kind in self._kinds]
        self._strict = any(self._needed)
        self._outs = [kind.out for kind in self._kinds]
        self.plain = not any(self._outs)

    def freeze(self, value: Any) -> Kept:
        """Return what is kept of a value."""
        if type(value) is tuple and len(value) == len(self._quick):
            for each, (exact, low, high) in zip(value, self._quick, strict=True):
                if type(each) is exact:
                    if exact is int and not low <= each <= high:  # type: ignore[operator]
                        break
                elif each is not None or self._strict:
                    break
            else:
                return value
        return self._frozen(value)

    def _frozen(self, value: Any) -> Kept:
        if client.has_numpy is None:
            client._load_numpy()  # noqa: SLF001 - Spark's own step in front of its state
        normal = tuple(client._normalize_state_value(each) for each in value)  # noqa: SLF001
        found = self.schema.toInternal(normal)
        if len(found) != len(self._kinds):
            raise PySparkRuntimeError(
                "Input row doesn't have expected number of values required by the schema. "
                f"{len(self._kinds)} fields are required while {len(found)} values are provided."
            )
        kept = tuple(None if each is None else kind.into(each) for each, kind in zip(found, self._kinds, strict=True))
        for each, needed, field in zip(kept, self._needed, self.schema.fields, strict=True):
            if needed and each is None:
                raise PySparkRuntimeError(f"[NOT_NULL_ASSERT_VIOLATION] a null in field '{field.name}', which has none")
        return kept

    def thaw(self, kept: Kept) -> tuple[Any, ...]:
        """Return what the job gets of what is kept."""
        if self.plain:
            return kept
        return tuple(
            each if out is None or each is None else out(each) for each, out in zip(kept, self._outs, strict=True)
        )


def kind_of(spark_type: st.DataType) -> Kind:
    """Return how a type is kept; a type that Spark's state does not take is refused."""
    bits = BITS.get(type(spark_type))
    if bits is not None:
        return _whole(bits)
    if isinstance(spark_type, st.DecimalType):
        return Kind(lambda value: _decimal(value, spark_type.precision, spark_type.scale))
    if isinstance(spark_type, st.ArrayType):
        return _array(kind_of(spark_type.elementType))
    if isinstance(spark_type, st.MapType):
        return _map(kind_of(spark_type.keyType), kind_of(spark_type.valueType))
    if isinstance(spark_type, st.StructType):
        return _struct([kind_of(field.dataType) for field in spark_type.fields], spark_type.names)
    found = SCALARS.get(type(spark_type))
    if found is None:
        raise PySparkRuntimeError(f"Unexpected type {spark_type}")
    return found


def _whole(bits: int) -> Kind:
    half = 1 << (bits - 1)

    def into(value: Any) -> int | None:
        if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
            return None
        return (value + half) % (2 * half) - half

    return Kind(into, None, int, -half, half - 1)


def _double(value: Any) -> float | None:
    return value if type(value) is float else None


def _float(value: Any) -> float | None:
    if type(value) is not float:
        return None
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, float) and (value == 0 or 1e-3 <= abs(value) < 1e7):
        return repr(value)
    raise PySparkRuntimeError(f"a {type(value).__name__} in a string field of the state")


def _bytes(value: Any) -> bytes | None:
    if isinstance(value, str):
        return value.encode()
    return bytes(value) if isinstance(value, bytes | bytearray) else None


def _decimal(value: Any, precision: int, scale: int) -> Decimal | None:
    if not isinstance(value, Decimal) or not value.is_finite():
        return None
    rounded = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    if len(rounded.as_tuple().digits) > precision:
        raise PySparkRuntimeError(
            f"[NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION] The {rounded} rounded half up from {value} "
            f"cannot be represented as Decimal({precision}, {scale})."
        )
    return rounded


def _moment(micros: int) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=micros)


def _local(micros: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(micros // 1_000_000).replace(microsecond=micros % 1_000_000)  # noqa: DTZ006 - as Spark


def _day(days: int) -> dt.date:
    return EPOCH.date() + dt.timedelta(days=days)


def _count(value: Any) -> int | None:
    return value if type(value) is int else None


SCALARS: Final[dict[type[st.DataType], Kind]] = {
    st.BooleanType: Kind(lambda value: value if type(value) is bool else None, None, bool),
    st.DoubleType: Kind(_double, None, float),
    st.FloatType: Kind(_float),
    st.StringType: Kind(_text, None, str),
    st.BinaryType: Kind(_bytes, None, bytes),
    st.TimestampType: Kind(_count, _local),
    st.TimestampNTZType: Kind(_count, _moment),
    st.DateType: Kind(_count, _day),
    st.NullType: Kind(lambda value: None),
}


def _each(change: Change, value: Any) -> Any:
    return None if value is None else change(value)


def _array(item: Kind) -> Kind:
    def out(kept: Sequence[Any]) -> list[Any]:
        return list(kept) if item.out is None else [_each(item.out, each) for each in kept]

    def into(value: Any) -> tuple[Any, ...] | None:
        return tuple(_each(item.into, each) for each in value) if isinstance(value, list | tuple) else None

    return Kind(into, out)


def _map(key: Kind, item: Kind) -> Kind:
    def into(value: Any) -> tuple[Any, ...] | None:
        if not isinstance(value, dict):
            return None
        return tuple((_each(key.into, k), _each(item.into, v)) for k, v in value.items())

    def out(kept: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
        return {_each(key.out, k) if key.out else k: _each(item.out, v) if item.out else v for k, v in kept}

    return Kind(into, out)


def _struct(kinds: Sequence[Kind], names: Sequence[str]) -> Kind:
    def into(value: Any) -> tuple[Any, ...]:
        if len(value) != len(kinds):
            raise PySparkRuntimeError(
                "Input row doesn't have expected number of values required by the schema. "
                f"{len(kinds)} fields are required while {len(value)} values are provided."
            )
        return tuple(_each(kind.into, each) for each, kind in zip(value, kinds, strict=True))

    def out(kept: Sequence[Any]) -> st.Row:
        values = (_each(kind.out, each) if kind.out else each for each, kind in zip(kept, kinds, strict=True))
        return st.Row(*names)(*values)

    return Kind(into, out)
