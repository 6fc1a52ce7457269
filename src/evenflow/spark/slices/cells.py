"""Encoding: the rows of one slice as one binary cell (Arrow IPC), and a slice's state as bytes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.slices.by_field import NO_SLICE, SliceIds

# Each mark has 8 bytes, so that the Arrow columns after it stay aligned; Arrow's engine warns otherwise.
_ARROW, _PICKLE = b"arrow   ", b"pickle  "


class UnreadableStateError(Exception):
    """The stored state of a slice cannot be read: continuing with another state would give wrong results."""


def to_cell(table: Any) -> bytes:
    """Return a table as one cell.

    Examples
    --------
    >>> of_cells([to_cell(pa.table({"a": [1]})), to_cell(pa.table({"a": [2]}))])["a"].to_pylist()
    [1, 2]
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]  # pyarrow has no types


def of_cells(cells: Sequence[bytes]) -> Any:
    """Return the rows of several cells, in order, as one table."""
    tables = [pa.ipc.open_stream(cell).read_all() for cell in cells]
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


def batches_of(cell: bytes) -> Iterator[Any]:
    """Yield the record batches of a cell."""
    yield from pa.ipc.open_stream(cell)


def by_slice(table: Any, ids: SliceIds) -> Iterator[tuple[int, Any]]:
    """Yield each slice with its rows in their original order; rows without a slice are left out."""
    order = np.argsort(ids, kind="stable")
    sorted_ids = ids[order]
    ordered = table.combine_chunks().take(pa.array(order))
    starts = np.flatnonzero(np.diff(sorted_ids, prepend=sorted_ids[:1] - 1))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(ids)], strict=True):
        if sorted_ids[start] != NO_SLICE:
            yield int(sorted_ids[start]), ordered.slice(start, end - start)


def encode_state(state: Any) -> bytes:
    """Return a state as bytes: an Arrow table as Arrow, any other object pickled."""
    if isinstance(state, pa.Table):
        return _ARROW + to_cell(state)
    return _PICKLE + pickle.dumps(state, protocol=5)


def decode_state(content: bytes, fresh: Callable[[], Any]) -> Any:
    """Return the state from bytes; empty bytes give a fresh state."""
    if not content:
        return fresh()
    mark, body = content[: len(_ARROW)], memoryview(content)[len(_ARROW) :]
    if mark not in (_ARROW, _PICKLE):
        raise UnreadableStateError(f"a state that begins with {mark!r} is neither Arrow nor pickled")
    try:
        return pa.ipc.open_stream(body).read_all() if mark == _ARROW else pickle.loads(body)  # noqa: S301 - written by ourselves, into the query's own checkpoint
    except Exception as error:
        raise UnreadableStateError(
            f"a state of {len(content)} bytes cannot be read ({type(error).__name__}: {error})"
        ) from error
