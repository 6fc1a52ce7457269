"""Large, mostly cold state of per-key functions: kept in buckets, so that a batch reads and writes only those it touches.

A slice's state is one value until it outgrows a setting; then its dictionary is divided by key.
A header says so in the value's place, and the whole travels as one when the slice moves.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol
from zlib import crc32

from evenflow.spark.slices.cells import UnreadableStateError, decode_state, encode_state

MARK: Final = b"K"
BUCKETS: Final = 64


class BucketMemory(Protocol):
    """What a key keeps beside its one value."""

    def bucket(self, number: int) -> bytes:
        """Return a bucket, empty if there is none."""
        ...

    def save_bucket(self, number: int, content: bytes) -> None:
        """Keep a bucket; an empty one is dropped."""
        ...

    def drop_buckets(self) -> None:
        """Keep no bucket."""
        ...


def bucket_of(key: Any) -> int:
    """Return the bucket of a key, the same in every process.

    Examples
    --------
    >>> bucket_of("sensor-7") == bucket_of("sensor-7"), 0 <= bucket_of(("a", 1)) < BUCKETS
    (True, True)
    """
    return crc32(repr(key).encode()) % BUCKETS


class KeyedState:
    """One slice's buckets; ``sizes`` is what the header holds."""

    def __init__(self, memory: BucketMemory, sizes: Mapping[int, int]) -> None:
        self._memory = memory
        self.sizes = dict(sizes)

    @staticmethod
    def is_header(encoded: bytes) -> bool:
        """Say whether a slice's value is the header of buckets."""
        return encoded[:1] == MARK

    @staticmethod
    def opened(memory: BucketMemory, header: bytes) -> KeyedState:
        """Return the buckets that a header speaks of."""
        return KeyedState(memory, pickle.loads(header[1:]))  # noqa: S301 - written by ourselves, into the checkpoint

    @staticmethod
    def divided(memory: BucketMemory, encoded: bytes) -> KeyedState:
        """Divide a dictionary that has been one value."""
        keyed = KeyedState(memory, {})
        keyed.store(encoded, range(BUCKETS))
        return keyed

    def header(self) -> bytes:
        """Return what stands in the value's place."""
        return MARK + pickle.dumps(self.sizes, protocol=5)

    def load(self, touched: Iterable[int]) -> bytes:
        """Return the touched part of the state, as one value."""
        found: dict[Any, Any] = {}
        for number in touched:
            if self.sizes.get(number):
                found.update(decode_state(self._bucket(number), dict))
        return encode_state(found)

    def _bucket(self, number: int) -> bytes:
        """Return a bucket that the header speaks of: an empty one in its place would be a state that begins again."""
        content = self._memory.bucket(number)
        if len(content) != self.sizes[number]:
            raise UnreadableStateError(
                f"part {number} of a state that is divided by key has {len(content)} bytes, not {self.sizes[number]}"
            )
        return content

    def store(self, encoded: bytes, touched: Iterable[int]) -> None:
        """Keep the touched part of the state."""
        parts: dict[int, dict[Any, Any]] = {number: {} for number in touched}
        for key, value in decode_state(encoded, dict).items():
            parts[bucket_of(key)][key] = value
        for number, part in parts.items():
            content = encode_state(part) if part else b""
            if content or self.sizes.get(number):
                self._memory.save_bucket(number, content)
            self.sizes[number] = len(content)

    def packed(self) -> bytes:
        """Return everything as one value, to travel."""
        return self.load(range(BUCKETS))

    @property
    def size(self) -> int:
        """How many bytes all buckets have."""
        return sum(self.sizes.values())
