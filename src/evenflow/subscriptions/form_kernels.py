"""Compiled kernels (extra ``fast``) that build the normal forms of many subscriptions and group equal ones.

A *form* is a row of *cells* (attribute, kind, low, high, extra), ascending by attribute.
Numbers and strings are ranks.
Row r has the cells ``starts[r]`` to ``starts[r + 1]``.
All indices are 64-bit, zero included: numba compiles a function again for each new argument type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np

from evenflow.subscriptions import columns as op
from evenflow.subscriptions.columns import Int8s, Int32s, Int64s

ANY, NUMBER, STRING = range(3)
ATTRIBUTE, KIND, LOW, HIGH, EXTRA = range(5)
TOP = 2**31 - 1

Place = int | np.int64
ZERO = np.int64(0)

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile a function at its first call and cache it on disk."""
    return cast("F", numba.njit(cache=True, nogil=True)(function))


class PredicateRows(NamedTuple):
    """Predicates without exclusion or pattern, as in `columns.Predicates`.

    ``place`` is the number operand as an index into ``same``, ``before`` and ``after``, which have its rank
    and those of the numbers next to it; ``ends`` has the ranks of the infinities.
    """

    owner: Int32s
    attribute: Int32s
    operator: Int8s
    text: Int32s
    place: Int32s
    same: Int32s
    before: Int32s
    after: Int32s
    ends: tuple[int, int]


@compiled
def merge_rows(
    rows: PredicateRows, hard_owner: Int32s, hard: Int32s, table: Int32s, starts: Int64s, cells: Int32s, form: Int32s
) -> int:
    """Merge the rows and the hard cells of each owner into one cell per attribute, and keep distinct forms.

    ``starts`` and ``cells`` become the distinct forms, ``form`` the form of each owner, -1 where it contradicts itself.
    Return the number of forms.
    """
    count = 0
    row, hard_row = ZERO, ZERO
    new = np.empty((1, 5), dtype=np.int32)
    starts[0] = 0
    for mine in range(len(form)):
        first = at = starts[count]
        possible = True
        while row < len(rows.owner) and rows.owner[row] == mine:
            _read(rows, row, new)
            row += 1
            at, fits = _merge(cells, first, at, new, ZERO)
            possible &= fits
        while hard_row < len(hard_owner) and hard_owner[hard_row] == mine:
            at, fits = _merge(cells, first, at, hard, hard_row)
            hard_row += 1
            possible &= fits
        known = find(starts, cells, table, cells[first:at]) if possible else -1
        if possible and known < 0:
            table[-1 - known] = count
            known = count
            count += 1
            starts[count] = at
        form[mine] = known
    return count


@compiled
def _read(rows: PredicateRows, row: Place, new: Int32s) -> None:
    """Turn a predicate without exclusion or pattern into a cell."""
    code, place = rows.operator[row], rows.place[row]
    new[0, ATTRIBUTE] = rows.attribute[row]
    new[0, EXTRA] = 0
    if code <= op.STRING:
        new[0, KIND] = STRING
        new[0, LOW] = rows.text[row] + 1  # 0 for isPresent
        new[0, HIGH] = new[0, LOW] if code == op.EQ else TOP
    elif code == op.ANY:
        new[0, KIND] = ANY
        new[0, LOW] = -1
        new[0, HIGH] = TOP
    else:
        new[0, KIND] = NUMBER
        new[0, LOW], new[0, HIGH] = rows.ends
        if code in (op.EQUAL, op.AT_LEAST):
            new[0, LOW] = rows.same[place]
        if code in (op.EQUAL, op.AT_MOST):
            new[0, HIGH] = rows.same[place]
        if code == op.MORE:
            new[0, LOW] = rows.after[place]
        if code == op.LESS:
            new[0, HIGH] = rows.before[place]


@compiled
def _merge(cells: Int32s, first: Place, at: Place, new: Int32s, row: Place) -> tuple[Place, bool]:
    """Insert a cell among those from ``first`` to ``at``, which ascend by attribute.

    Return where they now end, and whether any value satisfies the attribute's cell.
    """
    slot = at
    while slot > first and cells[slot - 1, ATTRIBUTE] > new[row, ATTRIBUTE]:
        slot -= 1
    if slot > first and cells[slot - 1, ATTRIBUTE] == new[row, ATTRIBUTE]:
        return at, _narrow(cells, slot - 1, new, row)
    for later in range(at, slot, -1):
        copy_cell(cells, later, cells, later - 1)
    copy_cell(cells, slot, new, row)
    return at + 1, new[row, LOW] <= new[row, HIGH]


@compiled
def copy_cell(to: Int32s, at: Place, cells: Int32s, cell: Place) -> None:
    """Copy one cell, column by column: a slice would take seconds to compile."""
    for column in range(to.shape[1]):
        to[at, column] = cells[cell, column]


@compiled
def _narrow(cells: Int32s, cell: Place, rows: Int32s, row: Place) -> bool:
    if cells[cell, KIND] == ANY:
        copy_cell(cells, cell, rows, row)
    elif rows[row, KIND] != ANY:
        if cells[cell, KIND] != rows[row, KIND]:
            return False
        cells[cell, LOW] = max(cells[cell, LOW], rows[row, LOW])
        cells[cell, HIGH] = min(cells[cell, HIGH], rows[row, HIGH])
    return bool(cells[cell, LOW] <= cells[cell, HIGH])


@compiled
def _hash(cells: Int32s) -> np.uint64:
    mixed = np.uint64(0x9E3779B97F4A7C15)
    for row in range(cells.shape[0]):
        for column in range(cells.shape[1]):
            mixed = (mixed ^ np.uint64(np.int64(cells[row, column]) & 0xFFFFFFFF)) * np.uint64(0xFF51AFD7ED558CCD)
            mixed ^= mixed >> np.uint64(32)
    return mixed


@compiled
def _same(a: Int32s, b: Int32s) -> bool:
    if a.shape[0] != b.shape[0]:
        return False
    for row in range(a.shape[0]):
        for column in range(a.shape[1]):
            if a[row, column] != b[row, column]:
                return False
    return True


@compiled
def find(starts: Int64s, cells: Int32s, table: Int32s, wanted: Int32s) -> int:
    """Find a group by its cells; if there is none, return -1 - the place in the table where it would go."""
    mask = np.uint64(len(table) - 1)
    at = _hash(wanted) & mask
    while table[at] >= 0:
        known = table[at]
        if _same(cells[starts[known] : starts[known + 1]], wanted):
            return int(known)
        at = (at + np.uint64(1)) & mask
    return int(-1 - np.int64(at))


@compiled
def group_rows(starts: Int64s, cells: Int32s, table: Int32s, group: Int32s, chosen: Int32s) -> int:
    """Give rows of equal cells the same group number; ``chosen`` has the first row of each group.

    While grouping, ``table`` holds rows; at the end it holds groups.
    """
    count = 0
    for row in range(len(starts) - 1):
        known = find(starts, cells, table, cells[starts[row] : starts[row + 1]])
        if known >= 0:
            group[row] = group[known]
        else:
            table[-1 - known] = row
            group[row] = count
            chosen[count] = row
            count += 1
    for at in range(len(table)):
        if table[at] >= 0:
            table[at] = group[table[at]]
    return count


@compiled
def shapes_within(starts: Int64s, cells: Int32s, table: Int32s, within_starts: Int64s) -> Int32s:
    """List for each shape the shapes with some of its attributes, open where it is open.

    A shape is a row of cells (attribute, whether it requires a single value).
    Either all its parts are looked up, or all shapes are tried, whichever is fewer.
    """
    shapes = len(starts) - 1
    within = np.empty(max(16, shapes), dtype=np.int32)
    size = 0
    scratch = np.empty((len(cells) + 1, 2), dtype=np.int32)
    for shape in range(shapes):
        within_starts[shape] = size
        mine = cells[starts[shape] : starts[shape + 1]]
        ways = 1.0
        for cell in range(len(mine)):
            ways *= 2.0 + mine[cell, 1]
        tries = min(ways, float(shapes))
        for number in range(int(tries)):
            if ways <= shapes:
                other = find(starts, cells, table, _part_of(mine, number, scratch))
            else:
                other = number if _is_within(cells[starts[number] : starts[number + 1]], mine) else -1
            if other >= 0:
                if size == len(within):
                    wider = np.empty(2 * size, dtype=np.int32)
                    for i in range(size):
                        wider[i] = within[i]
                    within = wider
                within[size] = other
                size += 1
    within_starts[shapes] = size
    return within[:size]


@compiled
def _part_of(shape: Int32s, number: int, scratch: Int32s) -> Int32s:
    """Decode a number into one choice per attribute: left out, open, or a single value."""
    size = 0
    for cell in range(len(shape)):
        choice = number % (2 + shape[cell, 1])
        number //= 2 + shape[cell, 1]
        if choice > 0:
            scratch[size, 0] = shape[cell, 0]
            scratch[size, 1] = choice - 1
            size += 1
    return scratch[:size]


@compiled
def _is_within(part: Int32s, whole: Int32s) -> bool:
    at = 0
    for cell in range(len(part)):
        while at < len(whole) and whole[at, 0] < part[cell, 0]:
            at += 1
        if at == len(whole) or whole[at, 0] != part[cell, 0] or part[cell, 1] > whole[at, 1]:
            return False
    return True
