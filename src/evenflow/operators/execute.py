"""Execution of operators on all rows of a batch, as Arrow tables; the state is the tuples of open windows.

A window closes when the watermark has passed its end, because then no more readings of it are expected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.operators.query import Spec

ROWS = pa.schema([("ts", pa.int64()), ("key", pa.int64()), ("value", pa.int64())])
STATE = pa.schema([("side", pa.int64()), ("ts", pa.int64()), ("key", pa.int64()), ("value", pa.int64())])
NOTHING = ROWS.empty_table()
TESTS: Mapping[str, Any] = {
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "==": pc.equal,
    "!=": pc.not_equal,
}


class Done(NamedTuple):
    """The output of an operator, its new state, and the number of rows that came too late for their window."""

    output: Any
    state: Any
    late: int


def execute(spec: Spec, rows: Any, state: Any, closed: int, watermark: int) -> Done:
    """Run one operator on the rows of one batch.

    Parameters
    ----------
    spec
        The operator.
    rows
        A table with the schema ``STATE``; ``side`` is the number of the input that a row comes from.
    state
        The tuples of open windows, or ``None``.
    closed, watermark
        Windows that end at or before ``closed`` are already closed; those that end up to ``watermark`` close now.

    Examples
    --------
    >>> spec = Spec(0, "sum", "aggregate", (), window_s=10, measure="sum")
    >>> rows = pa.table({"side": [0] * 3, "ts": [1, 8, 12], "key": [5, 5, 5], "value": [2, 3, 4]}, schema=STATE)
    >>> done = execute(spec, rows, None, 0, 10)
    >>> done.output.to_pylist(), done.state.num_rows
    ([{'ts': 0, 'key': 5, 'value': 5}], 1)
    """
    if not spec.stateful:
        return Done(_stateless(spec, rows.select(ROWS.names)), None, 0)
    late = 0
    begin = _begin(rows, spec.window_s)
    if rows.num_rows:
        in_time = begin + spec.window_s > closed
        late = int(len(in_time) - in_time.sum())
        if late:
            rows = rows.filter(pa.array(in_time))
    everything = rows if state is None else pa.concat_tables([state, rows])
    ends = _begin(everything, spec.window_s) + spec.window_s
    over = pa.array(ends <= watermark)
    ripe = everything.filter(over)
    kept = everything.filter(pc.invert(over)).combine_chunks()
    output = (
        {"aggregate": _aggregate, "join": _join, "sort": _sort}[spec.kind](spec, ripe) if ripe.num_rows else NOTHING
    )
    return Done(output, kept, late)


def _begin(rows: Any, window_s: int) -> Any:
    ts = rows.column("ts").to_numpy()
    return ts - ts % window_s


def _stateless(spec: Spec, rows: Any) -> Any:
    if spec.kind == "filter":
        return rows.filter(TESTS[spec.test](rows.column("value"), spec.value))
    if spec.kind == "map":
        value = pc.multiply(rows.column("value"), spec.factor)
        key = rows.column("key") if spec.key is None else pa.array(np.full(rows.num_rows, spec.key), pa.int64())
        return pa.table([rows.column("ts"), key, value], schema=ROWS)
    return rows


def _windowed(spec: Spec, rows: Any) -> Any:
    return rows.append_column("begin", pa.array(_begin(rows, spec.window_s)))


def _aggregate(spec: Spec, rows: Any) -> Any:
    grouped = _windowed(spec, rows).group_by(["begin", "key"])
    if spec.measure == "mean":
        found = grouped.aggregate([("value", "sum"), ("value", "count")])
        value = pc.divide(
            found.column("value_sum"), found.column("value_count")
        )  # integer division truncates, as SQL's div
    else:
        found = grouped.aggregate([("value", spec.measure)])
        value = found.column(f"value_{spec.measure}").cast(pa.int64())
    return pa.table([found.column("begin"), found.column("key"), value], schema=ROWS)


def _join(spec: Spec, rows: Any) -> Any:
    rows = _windowed(spec, rows)
    left = rows.filter(pc.equal(rows.column("side"), 0)).select(["begin", "key", "value"])
    right = rows.filter(pc.equal(rows.column("side"), 1)).select(["begin", "key", "value"])
    both = left.join(right, ["begin", "key"], join_type="inner", right_suffix="_right")
    value = pc.subtract(both.column("value"), both.column("value_right"))
    return pa.table([both.column("begin"), both.column("key"), value], schema=ROWS)


def _sort(spec: Spec, rows: Any) -> Any:
    order = [("begin", "ascending"), ("value", "descending"), ("key", "ascending"), ("ts", "ascending")]
    ordered = _windowed(spec, rows).sort_by(order)
    begin = ordered.column("begin").to_numpy()
    first = np.searchsorted(begin, begin, side="left")  # the first row of each row's window
    return ordered.filter(pa.array(np.arange(len(begin)) - first < spec.limit)).select(ROWS.names)
