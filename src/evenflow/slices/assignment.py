"""Assignment functions: which slice an item belongs to, decided before it is published (DPSLB thesis, section 3.2).

Every function works on one item and on a whole Arrow batch, with the same result bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Final, Protocol

import numpy as np
from numpy.typing import ArrayLike

from evenflow.errors import BadInput, nearest
from evenflow.slices.by_field import (
    NO_SLICE,
    Batch,
    Hash,
    Item,
    Modulo,
    Nulls,
    SliceIds,
    check_nulls,
    check_slices,
    null_slice,
    placed,
    shown,
)

__all__ = [
    "NO_SLICE",
    "PRODUCER",
    "Assignment",
    "Custom",
    "Hash",
    "Modulo",
    "Random",
    "Stream",
    "checked",
    "parse_assignment",
]

PRODUCER: Final = "@producer"
"""The field under which an item carries its producer's id."""


class Assignment(Protocol):
    """From an item to its slice, 0 … ``slices`` - 1."""

    @property
    def slices(self) -> int:
        """How many slices there are."""
        ...

    def assign(self, item: Item) -> int:
        """Return the slice of one item."""
        ...

    def assign_batch(self, batch: Batch) -> SliceIds:
        """Return the slice of every row of a record batch or a table."""
        ...


class Stream(Protocol):
    """A seeded stream of chance: ``random.Random`` and ``numpy.random.Generator`` both are."""

    def random(self) -> float:
        """Return a number of at least 0 and below 1."""
        ...


def checked(ids: ArrayLike, slices: int, where: str = "assignment") -> SliceIds:
    """Return slice ids as int32, or refuse the first one that is outside 0 … ``slices`` - 1.

    Examples
    --------
    >>> checked([0, 9], 10).tolist()
    [0, 9]
    >>> checked([0, 10], 10)
    Traceback (most recent call last):
    evenflow.errors.BadInput: assignment, row 1: given slice 10, allowed is an integer from 0 to 9.
    """
    array = np.asarray(ids)
    if array.size == 0:
        return array.astype(np.int32)
    if array.dtype.kind not in "iu":
        raise BadInput(f"slices of type {array.dtype}", f"integers from 0 to {slices - 1}", where)
    wrong = (array < 0) | (array >= slices)
    if wrong.any():
        row = int(wrong.argmax())
        raise BadInput(f"slice {array[row]}", f"an integer from 0 to {slices - 1}", f"{where}, row {row}")
    return array.astype(np.int32)


@dataclass(frozen=True, slots=True)
class Random:
    """Any slice, whatever the item: even, but the items of one producer go everywhere.

    Parameters
    ----------
    slices
        How many there are.
    stream
        The seeded stream that decides; one draw per item, in order.

    Examples
    --------
    >>> anywhere = Random(10, np.random.default_rng(1))
    >>> [anywhere.assign({}) for _ in range(5)]
    [5, 9, 1, 9, 3]
    """

    slices: int
    stream: Stream

    def __post_init__(self) -> None:
        check_slices(self.slices)

    def assign(self, item: Item) -> int:
        """Return the slice of one item."""
        return int(self.stream.random() * self.slices)

    def assign_batch(self, batch: Batch) -> SliceIds:
        """Return a slice for every row of a record batch or a table."""
        stream, rows = self.stream, batch.num_rows
        if isinstance(stream, np.random.Generator):
            draws = stream.random(rows)
        else:
            draws = np.fromiter((stream.random() for _ in range(rows)), np.float64, rows)
        ids: SliceIds = (draws * self.slices).astype(np.int32)
        return ids


@dataclass(frozen=True, slots=True)
class Custom:
    """A function of the application: from an item to its slice.

    Parameters
    ----------
    function
        Takes an item, returns an integer, or ``None`` for an item without a slice.
    slices
        How many there are.
    batch_function
        The same for a batch, returning an integer per row; without it, batches are worked off row by row.
    nulls
        What ``None`` means.

    Examples
    --------
    >>> def hemisphere(item):
    ...     return 0 if item["latitude"] > 0 else 1
    >>> import pyarrow as pa
    >>> by_hemisphere = Custom(hemisphere, 2)
    >>> by_hemisphere.assign({"latitude": -22.9, "longitude": -43.2})
    1
    >>> by_hemisphere.assign_batch(pa.record_batch({"latitude": [48.1, -22.9]})).tolist()
    [0, 1]
    """

    function: Callable[[Item], int | None]
    slices: int
    batch_function: Callable[[Batch], ArrayLike] | None = None
    nulls: Nulls = "refuse"

    def __post_init__(self) -> None:
        check_slices(self.slices)
        check_nulls(self.nulls, self.slices)

    def assign(self, item: Item) -> int:
        """Return the slice of one item."""
        slice_id = self.function(item)
        try:
            return self._checked(slice_id)
        except BadInput as error:
            raise placed(error, f"item {shown(item)}") from None

    def assign_batch(self, batch: Batch) -> SliceIds:
        """Return the slice of every row of a record batch or a table."""
        if self.batch_function is not None:
            ids = checked(self.batch_function(batch), self.slices)
            if ids.shape != (batch.num_rows,):
                raise BadInput(f"slices of shape {ids.shape}", f"one per row, ({batch.num_rows},)", "assignment")
            return ids
        found = np.empty(batch.num_rows, np.int32)
        for row, item in enumerate(batch.to_pylist()):
            slice_id = self.function(item)
            try:
                found[row] = self._checked(slice_id)
            except BadInput as error:
                raise placed(error, f"row {row}") from None
        return found

    def _checked(self, slice_id: object) -> int:
        if slice_id is None:
            return null_slice(self.nulls)
        if isinstance(slice_id, int | np.integer) and not isinstance(slice_id, bool) and 0 <= slice_id < self.slices:
            return int(slice_id)
        raise BadInput(f"slice {slice_id!r}", f"an integer from 0 to {self.slices - 1}", "")


# -- specifications -----------------------------------------------------------------------------

FORMS = "modulo:FIELD, hash:FIELD, hash:@producer, random or MODULE:FUNCTION"
_BY_FIELD = {"modulo": Modulo, "hash": Hash}


def parse_assignment(spec: str, slices: int, *, stream: Stream | None = None, nulls: Nulls = "refuse") -> Assignment:
    """Build an assignment function from its specification.

    Parameters
    ----------
    spec
        ``modulo:sensor_id``, ``hash:device``, ``hash:@producer``, ``random`` or ``module:function``.
    slices
        How many slices there are.
    stream
        The stream of chance that ``random`` needs.
    nulls
        What a null means.

    Examples
    --------
    >>> parse_assignment("modulo:sensor_id", 10).assign({"sensor_id": 52})
    2
    """
    name, colon, rest = spec.partition(":")
    if spec == "random":
        if stream is None:
            raise BadInput("'random' without a stream", "a seeded stream of chance", "assignment")
        return Random(slices, stream)
    if name in _BY_FIELD and rest:
        return _BY_FIELD[name](rest, slices, nulls)
    if not (name and colon and rest) or name in _BY_FIELD:
        raise BadInput(f"'{spec}'", FORMS, "assignment")
    return Custom(_imported(name, rest), slices, nulls=nulls)


def _imported(module_name: str, name: str) -> Callable[[Item], int | None]:
    where = f"assignment '{module_name}:{name}'"
    try:
        module = import_module(module_name)
    except (ImportError, ValueError, TypeError) as error:
        raise BadInput(
            f"module '{module_name}' ({error})", f"a module that can be imported, or {FORMS}", where
        ) from None
    function: Callable[[Item], int | None] | None = getattr(module, name, None)
    if not callable(function):
        functions = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        given = f"'{name}', which is no function of {module_name}"
        raise BadInput(given, nearest(name, functions), where)
    return function
