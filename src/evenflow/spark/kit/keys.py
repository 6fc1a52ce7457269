"""Keys: one int per slice and lane that Spark hashes to that lane; a slice moves when its key changes.

Spark puts a row with the int key ``k`` into partition ``pmod(hash(k), lanes)``, and ``hash`` is Murmur3 with seed 42.
Each slice has ``stride`` consecutive ints; its key on a lane is the first of them that Spark hashes to that lane.
So slice and lane can be computed from the key, and no table of keys is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from evenflow.errors import BadInput

PER_LANE: Final = 40  # ints per slice and lane: a slice has no key on a lane with a probability below exp(-40)
MOST_KEYS: Final = 2**31 - 1
_SEED: Final = np.uint32(42)

Ints = NDArray[np.int32]


def spark_hash(keys: Any) -> Ints:
    """Return Spark's ``hash`` of int keys.

    Examples
    --------
    >>> spark_hash([0, 1, 2]).tolist()
    [933211791, -559580957, 1765031574]
    """
    with np.errstate(over="ignore"):
        k = np.asarray(keys, np.int32).view(np.uint32) * np.uint32(0xCC9E2D51)
        k = _rotated(k, 15) * np.uint32(0x1B873593)
        h = _rotated(_SEED ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        h ^= np.uint32(4)  # the length of an int
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
            h = (h ^ (h >> np.uint32(shift))) * np.uint32(factor)
        h ^= h >> np.uint32(16)
    hashed: Ints = h.view(np.int32)
    return hashed


def _rotated(x: Any, bits: int) -> Any:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of all slices on all lanes.

    Parameters
    ----------
    slices, lanes
        Number of slices and lanes.
    begun
        The number of lanes when the checkpoint began, if it has grown since; a slice keeps its ints.
        If the new number is a multiple of the old one, each old key is still the first of its slice on its new lane.

    Examples
    --------
    >>> keys = Keys(slices=16, lanes=4)
    >>> k = keys.key(slice_id=7, lane=2)
    >>> keys.slice_of(k), keys.lane_of(k)
    (7, 2)
    """

    slices: int
    lanes: int
    begun: int = 0
    _known: dict[tuple[int, int], int] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not (self.slices >= 1 and self.lanes >= 1 and self.slices * self.stride <= MOST_KEYS):
            most = MOST_KEYS // PER_LANE
            raise BadInput(
                f"{self.slices} slices on {self.lanes} lanes", f"1 to {most:,} in all (slices × lanes)", "keys"
            )

    @property
    def stride(self) -> int:
        """The number of ints that belong to one slice."""
        return (self.begun or self.lanes) * PER_LANE

    def key(self, slice_id: int, lane: int) -> int:
        """Return the key of a slice on a lane."""
        known = self._known.get((slice_id, lane))
        if known is None:
            first = slice_id * self.stride
            lanes = spark_hash(np.arange(first, first + self.stride)) % self.lanes
            for each in range(self.lanes):
                self._known[slice_id, each] = first + int((lanes == each).argmax())
            known = self._known[slice_id, lane]
        return known

    def lane_among(self, lanes: int, slice_id: int, lane: int) -> int:
        """Return the lane to which a slice's key on ``lane`` is hashed if there are ``lanes`` lanes."""
        return int(spark_hash(self.key(slice_id, lane)) % lanes)

    def of_lane(self, lane: int) -> int:
        """Return the key of the lane itself; it is negative, so that Spark sorts it before all slices."""
        lanes = spark_hash(-1 - np.arange(self.stride)) % self.lanes
        return -1 - int((lanes == lane).argmax())

    def slice_of(self, key: int) -> int:
        """Return the slice that a key belongs to."""
        return key // self.stride

    def lane_of(self, key: int) -> int:
        """Return the lane to which a key is hashed."""
        return int(spark_hash(key) % self.lanes)
