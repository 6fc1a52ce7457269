"""Large state of per-key functions, divided into buckets so that a batch reads and writes only the buckets it uses.

A slice's state is one value until it exceeds a configured size; then its dictionary is divided by key.
A header then replaces the value. When the slice moves, all buckets are sent as one value.
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
    """The storage of one key's buckets, in addition to its value."""

    def bucket(self, number: int) -> bytes:
        """Return a bucket's content, empty if there is none."""
        ...

    def save_bucket(self, number: int, content: bytes) -> None:
        """Store a bucket; delete it if its content is empty."""
        ...

    def drop_buckets(self) -> None:
        """Delete all buckets."""
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
    """The buckets of one slice; ``sizes`` is the content of the header: bucket → bytes."""

    def __init__(self, memory: BucketMemory, sizes: Mapping[int, int]) -> None:
        self._memory = memory
        self.sizes = dict(sizes)

    @staticmethod
    def is_header(encoded: bytes) -> bool:
        """Return whether a slice's value is a header of buckets."""
        return encoded[:1] == MARK

    @staticmethod
    def opened(memory: BucketMemory, header: bytes) -> KeyedState:
        """Return the buckets that a header describes."""
        return KeyedState(memory, pickle.loads(header[1:]))  # noqa: S301 - written by ourselves, into the checkpoint

    @staticmethod
    def divided(memory: BucketMemory, encoded: bytes) -> KeyedState:
        """Divide a dictionary that was stored as one value."""
        keyed = KeyedState(memory, {})
        keyed.store(encoded, range(BUCKETS))
        return keyed

    def header(self) -> bytes:
        """Return the header, which is stored instead of the value."""
        return MARK + pickle.dumps(self.sizes, protocol=5)

    def load(self, touched: Iterable[int]) -> bytes:
        """Return the content of the touched buckets, as one value."""
        found: dict[Any, Any] = {}
        for number in touched:
            if self.sizes.get(number):
                found.update(decode_state(self._bucket(number), dict))
        return encode_state(found)

    def _bucket(self, number: int) -> bytes:
        """Return a bucket and check its size: a missing bucket must not silently reset its keys' state."""
        content = self._memory.bucket(number)
        if len(content) != self.sizes[number]:
            raise UnreadableStateError(
                f"part {number} of a state that is divided by key has {len(content)} bytes, not {self.sizes[number]}"
            )
        return content

    def store(self, encoded: bytes, touched: Iterable[int]) -> None:
        """Store the content of the touched buckets."""
        parts: dict[int, dict[Any, Any]] = {number: {} for number in touched}
        for key, value in decode_state(encoded, dict).items():
            parts[bucket_of(key)][key] = value
        for number, part in parts.items():
            content = encode_state(part) if part else b""
            if content or self.sizes.get(number):
                self._memory.save_bucket(number, content)
            self.sizes[number] = len(content)

    def packed(self) -> bytes:
        """Return all buckets as one value, to send to another lane."""
        return self.load(range(BUCKETS))

    @property
    def size(self) -> int:
        """The total size of all buckets in bytes."""
        return sum(self.sizes.values())
