"""The hash never changes: a changed one would send every key of a running system to another slice."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from evenflow.slices.hashing import hash_column, hash_value

GOLDEN = 0x9E3779B97F4A7C15

SPLITMIX64 = {  # from the reference implementation: the first outputs for seed 0, and the first for seed 1
    0: 0xE220A8397B1DCDAF,
    GOLDEN: 0x6E789E6AA1B965F4,
    2 * GOLDEN: 0x06C45D188009454F,
    1: 0x910A2DEC89025CC1,
}
FASTHASH64 = {  # from the reference implementation in C, seed 0
    "": 0x0000000000000000,
    "a": 0x527C05AA961741C6,
    "sensor": 0xB6F1C225A71A60CB,
    "sensor-7": 0xC89F41CB1D8B3867,
    "sensor-42": 0xAD3DD83BB7F8904B,
    "0123456789abcdef": 0x5DA1310B654AB965,
    "x" * 64: 0xDBD2CD4D0CA76274,
}
BLAKE2B = {"x" * 65: 0x36C9C5DF1F7285C0}  # from b2sum -l 64, little-endian
OURS = {0.5: 0x2414C2909FDAB14A, math.inf: 0xB091412946B15C01, -1: 0xE4D971771B652C20, 2**63: 0x481EC0A212A9F3DB}


@pytest.mark.parametrize(("value", "expected"), [*(SPLITMIX64 | FASTHASH64 | BLAKE2B | OURS).items()])
def test_known_hashes(value: Any, expected: int) -> None:
    assert hash_value(value) == expected
    if isinstance(value, int) and value >= 2**64:
        return
    kind = pa.uint64() if isinstance(value, int) and value >= 2**63 else None
    assert hash_column(pa.array([value, value], kind)).tolist() == [expected, expected]


def test_nan_has_one_hash() -> None:
    assert hash_value(math.nan) == 0x96481915CEFE9394
    assert hash_column(pa.array([math.nan, -math.nan])).tolist() == [0x96481915CEFE9394] * 2


def test_one_bit_changes_half_of_the_bits() -> None:
    flips = [(hash_value(i) ^ hash_value(i ^ 1 << bit)).bit_count() for i in range(50) for bit in range(64)]
    assert 31 < sum(flips) / len(flips) < 33
    names = [(hash_value(f"sensor-{i}") ^ hash_value(f"sensor-{i + 1}")).bit_count() for i in range(3000)]
    assert 31 < sum(names) / len(names) < 33
