"""One 64-bit hash, for a single value and for a whole Arrow column, the same on every machine and in every process.

Equal values hash alike whatever their type: 1, 1.0 and true; 0 and -0.0; a string and its UTF-8 bytes.
Integers count modulo 2**64 and go through the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
Strings up to 64 bytes go through fasthash64 (Zilong Tan), longer ones through BLAKE2b: both are fast where they are used.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final, TypeVar
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenflow.errors import BadInput

Hashes = NDArray[np.uint64]
Number = TypeVar("Number", bound=np.generic)

MASK: Final = (1 << 64) - 1
LONGEST: Final = 64  # bytes; above it the word-by-word loop over a column costs more than one BLAKE2b per string
HASHABLE = "an integer, a float, a bool, a string, bytes or a UUID"

_GOLDEN: Final = 0x9E3779B97F4A7C15
_SPLIT: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_FAST_MIX: Final = 0x2127599BF4325C37
_FAST: Final = 0x880355F21E6D1965
_FRACTION: Final = 0xD6E8FEB86659FD93  # tells the bits of 0.5 from the integer with the same bits
_NAN: Final = 0x7FF8000000000000  # one NaN for all
_BLOCK: Final = 16_384  # rows


# -- one value ----------------------------------------------------------------------------------


def hash_value(value: object) -> int:
    """Return the hash of one value.

    Examples
    --------
    >>> hash_value(1) == hash_value(1.0) == hash_value(True)
    True
    >>> f"{hash_value(0):x} {hash_value('sensor'):x}"
    'e220a8397b1dcdaf b6f1c225a71a60cb'
    """
    if isinstance(value, str):
        try:
            return _hash_bytes(value.encode("utf-8"))
        except UnicodeEncodeError:
            raise BadInput(f"{value!r:.60}", "a string that can be written as UTF-8", "hash") from None
    if isinstance(value, int | np.integer | np.bool_):
        return _hash_integer(int(value))
    if isinstance(value, float | np.floating):
        return _hash_float(float(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return _hash_bytes(bytes(value))
    if isinstance(value, UUID):
        return _hash_bytes(value.bytes)
    raise BadInput(f"{value!r} ({type(value).__name__})"[:80], HASHABLE, "hash")


def _hash_integer(value: int) -> int:
    h = (value + _GOLDEN) & MASK
    for shift, factor in _SPLIT:
        h = (h ^ h >> shift) * factor & MASK
    return h ^ h >> 31


def _hash_float(value: float) -> int:
    if value.is_integer():
        return _hash_integer(int(value))
    bits = int(np.float64(value).view(np.uint64)) if value == value else _NAN  # noqa: PLR0124  NaN
    return _hash_integer(bits ^ _FRACTION)


def _hash_bytes(data: bytes) -> int:
    if len(data) > LONGEST:
        return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")
    h = len(data) * _FAST & MASK
    for start in range(0, len(data), 8):
        h = (h ^ _mixed(int.from_bytes(data[start : start + 8], "little"))) * _FAST & MASK
    return _mixed(h)


def _mixed(h: int) -> int:
    h = (h ^ h >> 23) * _FAST_MIX & MASK
    return h ^ h >> 47


# -- a column -----------------------------------------------------------------------------------


def hash_column(column: Any) -> Hashes:
    """Return the hash of every row of an Arrow array; what a null row gives means nothing.

    Examples
    --------
    >>> column = pa.array(["a", "sensor-7"])
    >>> hash_column(column).tolist() == [hash_value("a"), hash_value("sensor-7")]
    True
    """
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return hash_column(column.storage)
    if pa.types.is_dictionary(kind):
        rows = pc.fill_null(column.indices, 0).to_numpy(zero_copy_only=False)
        hashes = hash_column(column.dictionary)
        return hashes[rows] if len(hashes) else np.zeros(len(rows), np.uint64)
    if pa.types.is_boolean(kind):
        return hash_column(column.cast(pa.uint8()))
    if pa.types.is_integer(kind):
        return by_blocks(_hash_integers, without_nulls(column), np.uint64)
    if pa.types.is_floating(kind):
        return by_blocks(_hash_floats, without_nulls(column).astype(np.float64, copy=False), np.uint64)
    wide = _WIDE_STRINGS.get(kind, pa.large_binary() if pa.types.is_fixed_size_binary(kind) else None)
    if wide is None:
        raise BadInput(f"a column of type {kind}", HASHABLE, "hash")
    return _hash_strings(column.cast(wide))


_WIDE_STRINGS = {
    pa.string(): pa.large_binary(),
    pa.binary(): pa.large_binary(),
    pa.large_string(): pa.large_binary(),
    pa.large_binary(): pa.large_binary(),
    pa.string_view(): pa.large_string(),
    pa.binary_view(): pa.large_binary(),
}


def without_nulls(column: Any) -> Any:
    """Return a number column as numpy, with 0 for null."""
    return (pc.fill_null(column, 0) if column.null_count else column).to_numpy(zero_copy_only=False)


def by_blocks(function: Callable[[Any], Any], values: NDArray[Any], kind: type[Number]) -> NDArray[Number]:
    """Apply a function to thousands of rows at a time, so that what it makes on the way stays in the cache."""
    results = np.empty(len(values), kind)
    for start in range(0, len(values), _BLOCK):
        block = slice(start, start + _BLOCK)
        results[block] = function(values[block])
    return results


def _hash_integers(values: NDArray[Any]) -> Hashes:
    h = values.astype(np.uint64)  # a negative one wraps around: modulo 2**64
    h += np.uint64(_GOLDEN)
    for shift, factor in _SPLIT:
        h ^= h >> np.uint64(shift)
        h *= np.uint64(factor)
    h ^= h >> np.uint64(31)
    return h


def _hash_floats(values: NDArray[np.float64]) -> Hashes:
    integral = np.isfinite(values) & (values == np.floor(values))
    bits = np.where(np.isnan(values), np.uint64(_NAN), values.view(np.uint64)) ^ np.uint64(_FRACTION)
    whole = np.fmod(np.where(integral, values, 0.0), 2.0**64)  # exact, so that any size agrees with Python's integers
    magnitude = np.abs(whole).astype(np.uint64)
    return _hash_integers(np.where(integral, np.where(whole < 0, np.uint64(0) - magnitude, magnitude), bits))


def _hash_strings(column: Any) -> Hashes:
    """Hash the bytes of a large_binary array, eight at a time across all rows."""
    _, offset_buffer, data_buffer = column.buffers()
    if len(column) == 0 or offset_buffer is None:
        return np.zeros(len(column), np.uint64)
    offsets = np.frombuffer(offset_buffer, np.int64)[column.offset : column.offset + len(column) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    # A word may begin at any byte and reach beyond the end: a copy with room, seen as overlapping words.
    data = np.zeros(last - first + 8, np.uint8)
    if last > first:
        data[: last - first] = np.frombuffer(data_buffer, np.uint8)[first:last]
    words: Hashes = np.ndarray((len(data) - 7,), "<u8", buffer=data, strides=(1,))
    hashes = np.empty(len(column), np.uint64)
    for start in range(0, len(column), _BLOCK):
        bounds = offsets[start : start + _BLOCK + 1] - first
        hashes[start : start + _BLOCK] = _hash_string_block(words, data, bounds[:-1], np.diff(bounds))
    return hashes


_TAILS = np.array([(1 << 8 * length) - 1 for length in range(9)], np.uint64)  # keeps the first bytes of a word


def _hash_string_block(
    words: Hashes, data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> Hashes:
    h = lengths.astype(np.uint64) * np.uint64(_FAST)
    longest = int(lengths.max())
    for at in range(0, min(longest, LONGEST), 8):
        rows = np.flatnonzero(lengths > at)
        everywhere = len(rows) == len(h)
        left = lengths - at if everywhere else lengths[rows] - at
        word = words[(starts if everywhere else starts[rows]) + at] & _TAILS[np.minimum(left, 8)]
        _mix_in_place(word)
        if everywhere:
            h ^= word
            h *= np.uint64(_FAST)
        else:
            h[rows] = (h[rows] ^ word) * np.uint64(_FAST)
    _mix_in_place(h)
    for row in np.flatnonzero(lengths > LONGEST).tolist() if longest > LONGEST else ():
        h[row] = _hash_bytes(data[starts[row] : starts[row] + lengths[row]].tobytes())
    return h


def _mix_in_place(h: Hashes) -> None:
    h ^= h >> np.uint64(23)
    h *= np.uint64(_FAST_MIX)
    h ^= h >> np.uint64(47)
