"""The slice filter of a reader: compiled, because Cyclone calls it from its receive thread for every sample.

A filter written in Python would need the interpreter's lock there while ``take`` holds it and waits for the reader's:
both would wait for ever. The compiled one reads the slice's number at its fixed place in the serialised sample.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numba
import numpy as np
from cyclonedds.topic import _filter_fn  # the C signature of a topic's filter
from numba.extending import intrinsic

from evenflow.dds.wire.idl import SLICE_OFFSET

types: Any = numba.types
_LITTLE = 1  # the lowest bit of the second octet of the header says little-endian


@intrinsic
def _looked_at(typing_context: Any, address: Any) -> Any:  # noqa: ARG001 - numba's signature
    """Look at an address as octets."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.uint8)(types.uintp), generate


_octets: Any = _looked_at


@numba.cfunc(types.boolean(types.CPointer(types.uintp), types.CPointer(types.int64)), cache=True)
def _passes(sample: Any, mask: Any) -> Any:
    """Say whether the sample's slice is wanted; ``mask`` is its length, the samples seen and passed, then a flag per slice."""
    mask[1] += 1
    data = _octets(sample[0])
    if sample[1] >= SLICE_OFFSET + 4 and data[1] & _LITTLE:
        number = types.int64(data[SLICE_OFFSET])
        for i in range(1, 4):
            number |= types.int64(data[SLICE_OFFSET + i]) << (8 * i)
        if number >= mask[0] or mask[3 + number] == 0:
            return False
    mask[2] += 1  # in another byte order the node decides, as it does for every sample again
    return True


class SliceFilter:
    """A filter that cannot be changed, for one topic entity and the readers made of it."""

    def __init__(self, topic: Any, slices: frozenset[int], count: int) -> None:
        self.slices = slices
        self._mask = np.zeros(3 + count, dtype=np.int64)
        self._mask[0] = count
        self._mask[[3 + s for s in slices]] = 1
        address: Any = _passes.address
        callback: Any = ctypes.cast(address, _filter_fn)
        topic._set_topic_filter(topic._ref, callback, ctypes.c_void_p(self._mask.ctypes.data))  # noqa: SLF001 - it alone takes an argument
        self._kept = callback

    @property
    def seen(self) -> int:
        """How many samples arrived."""
        return int(self._mask[1])

    @property
    def passed(self) -> int:
        """How many of them it let through."""
        return int(self._mask[2])
