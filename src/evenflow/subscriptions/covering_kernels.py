"""Compiled kernels (extra ``fast``) that find which of many normal forms cover which.

An *extra* holds what an interval cannot express: excluded values, prefix, suffix and parts; extra 0 is empty.
These functions call some of `form_kernels`: numba's cache does not notice when those change, so touch this file too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evenflow.subscriptions.columns import Int32s, Int64s
from evenflow.subscriptions.form_kernels import (
    ANY,
    ATTRIBUTE,
    EXTRA,
    HIGH,
    KIND,
    LOW,
    STRING,
    TOP,
    ZERO,
    Place,
    compiled,
    copy_cell,
    find,
)

START, END, ANYWHERE = np.int64(0), np.int64(1), np.int64(2)  # as plain ints, numba would compile a copy for each


class Extras(NamedTuple):
    """What intervals cannot express, by extra: prefix and suffix are strings, the others lists with their starts.

    ``letters`` holds the code points of all strings, string s from ``letter_starts[s]`` on.
    ``excluded`` are ranks; the rank of string s is s + 1.
    """

    prefix: Int64s
    suffix: Int64s
    part_starts: Int64s
    parts: Int64s
    excluded_starts: Int64s
    excluded: Int64s
    letter_starts: Int64s
    letters: Int64s


class Forms(NamedTuple):
    """Distinct forms, grouped for the search.

    Forms of one *signature* have the same attributes, and where one requires a single value, all require the same.
    They are consecutive from ``form_starts[signature]`` on, by the low end of their first open cell, ascending,
    then by its high end, descending. Along them, ``reach`` and ``least`` are the highest and the lowest high end so far,
    ``same_low`` is the first form with the same low end, and ``plain`` means that the forms of the signature
    differ only in this interval. ``table`` finds a signature by its cells.
    ``shape_of`` leaves the values out; ``within`` lists from ``within_starts[shape]`` on the shapes that can cover it.
    """

    starts: Int64s
    cells: Int32s
    shape_of: Int32s
    shape_starts: Int64s
    shape_cells: Int32s
    within_starts: Int64s
    within: Int32s
    signature_starts: Int64s
    signature_cells: Int32s
    table: Int32s
    form_starts: Int64s
    first_low: Int32s
    first_high: Int32s
    reach: Int32s
    least: Int32s
    same_low: Int64s
    plain: Any


@compiled
def candidates(forms: Forms, form: Place, shape: Place, scratch: Int32s) -> tuple[Place, Place, Place]:
    """Return the range of forms of one shape that may cover a form, and the form's cell to compare first, or -1."""
    whole = forms.cells[forms.starts[form] : forms.starts[form + 1]]
    part = forms.shape_cells[forms.shape_starts[shape] : forms.shape_starts[shape + 1]]
    at, first = 0, -1
    for cell in range(len(part)):
        while whole[at, ATTRIBUTE] != part[cell, 0]:
            at += 1
        fixed = part[cell, 1] == 1
        scratch[cell, 0] = part[cell, 0]
        scratch[cell, 1] = whole[at, KIND] if fixed else -1
        scratch[cell, 2] = whole[at, LOW] if fixed else -1
        if not fixed and first < 0:
            first = at
    signature = find(forms.signature_starts, forms.signature_cells, forms.table, scratch[: len(part)])
    if signature < 0:
        return 0, 0, -1
    begin, end = forms.form_starts[signature], forms.form_starts[signature + 1]
    if first < 0:
        return begin, end, -1
    last = begin  # one after the last whose low end is low enough
    while last < end:
        middle = (last + end) >> 1
        if forms.first_low[middle] <= whole[first, LOW]:
            last = middle + 1
        else:
            end = middle
    if last == begin or forms.reach[last - 1] < whole[first, HIGH]:
        return 0, 0, -1
    return begin, last, first


@compiled
def form_covers(starts: Int64s, cells: Int32s, extras: Extras, wide: Place, narrow: Place) -> bool:
    """Return whether one form covers another, cell by cell."""
    at, end = starts[narrow], starts[narrow + 1]
    for cell in range(starts[wide], starts[wide + 1]):
        attribute = cells[cell, ATTRIBUTE]
        while at < end and cells[at, ATTRIBUTE] < attribute:
            at += 1
        if at == end or cells[at, ATTRIBUTE] != attribute:
            return False
        if not _implies(extras, cells, at, cell):
            return False
    return True


@compiled
def covered_forms(forms: Forms, extras: Extras, covered: Any) -> None:
    """Mark every form that another covers."""
    scratch = np.empty((len(forms.cells) + 1, 3), dtype=np.int32)
    for form in range(len(forms.starts) - 1):
        shape = forms.shape_of[form]
        for choice in range(forms.within_starts[shape], forms.within_starts[shape + 1]):
            begin, end, first = candidates(forms, form, forms.within[choice], scratch)
            high = -1 if first < 0 else forms.cells[forms.starts[form] + first, HIGH]
            for other in range(begin, end):
                if other == form or forms.first_high[other] < high:
                    continue
                if form_covers(forms.starts, forms.cells, extras, other, form):
                    covered[form] = True
                    break
            if covered[form]:
                break


@compiled
def direct_edges(forms: Forms, extras: Extras) -> Int32s:
    """List the direct covering pairs of forms as two columns."""
    scratch = np.empty((len(forms.cells) + 1, 3), dtype=np.int32)
    nearest = np.empty(len(forms.starts), dtype=np.int32)
    edges = np.empty((max(16, len(forms.starts)), 2), dtype=np.int32)
    size = 0
    for form in range(len(forms.starts) - 1):
        near: Place = ZERO
        shape = forms.shape_of[form]
        for choice in range(forms.within_starts[shape], forms.within_starts[shape + 1]):
            begin, end, first = candidates(forms, form, forms.within[choice], scratch)
            if first >= 0 and forms.plain[begin]:
                high = np.int64(forms.cells[forms.starts[form] + first, HIGH])
                near = _nearest_intervals(forms, extras, form, high, begin, end, nearest, near)
                continue
            for other in range(
                end - 1, begin - 1, -1
            ):  # narrow ones first: most others cover them and need only one test
                if other != form and form_covers(forms.starts, forms.cells, extras, other, form):
                    near = _keep_nearest(forms, extras, nearest, near, other)
        if size + near > len(edges):
            longer = np.empty((2 * len(edges) + near, 2), dtype=np.int32)
            for edge in range(size):
                copy_cell(longer, edge, edges, edge)
            edges = longer
        for one in range(near):
            edges[size, 0] = nearest[one]
            edges[size, 1] = form
            size += 1
    return edges[:size]


@compiled
def _nearest_intervals(
    forms: Forms, extras: Extras, form: Place, high: Place, begin: Place, end: Place, nearest: Int32s, near: Place
) -> Place:
    """Scan forms that differ in one interval only, from the highest low end down, and keep the nearest.

    Each step takes the lowest high end that is high enough among equal low ends, and keeps it if it is below the best.
    The scan ends where no earlier form can be better.
    """
    best: Place = np.int64(TOP) + 1
    at = end - 1
    while at >= begin and forms.least[at] < best and best > high:
        first = forms.same_low[at]
        low, up = first, at + 1  # the high ends fall from first to at: find the last that is high enough
        while low < up:
            middle = (low + up) >> 1
            if forms.first_high[middle] >= high:
                low = middle + 1
            else:
                up = middle
        candidate = low - 1
        if candidate == form:
            candidate -= 1
        if candidate >= first and forms.first_high[candidate] < best:
            if not form_covers(forms.starts, forms.cells, extras, candidate, form):
                break  # all are of another kind
            best = np.int64(forms.first_high[candidate])
            near = _keep_nearest(forms, extras, nearest, near, candidate)
        at = first - 1
    return near


@compiled
def _keep_nearest(forms: Forms, extras: Extras, nearest: Int32s, near: Place, new: Place) -> Place:
    for one in range(near):
        if form_covers(forms.starts, forms.cells, extras, new, np.int64(nearest[one])):
            return near
    kept = 0
    for one in range(near):
        if not form_covers(forms.starts, forms.cells, extras, np.int64(nearest[one]), new):
            nearest[kept] = nearest[one]
            kept += 1
    nearest[kept] = new
    return kept + 1


@compiled
def _implies(extras: Extras, cells: Int32s, narrow: Place, wide: Place) -> bool:
    """Return what `normal.implies` returns, for cells."""
    kind, low, high = cells[wide, KIND], np.int64(cells[narrow, LOW]), np.int64(cells[narrow, HIGH])
    if kind == ANY:
        return True
    if kind != cells[narrow, KIND] or cells[wide, LOW] > low or high > cells[wide, HIGH]:
        return False
    if cells[wide, EXTRA] == 0:
        return True
    return _extra_implies(extras, np.int64(cells[narrow, EXTRA]), np.int64(cells[wide, EXTRA]), low, high, kind)


@compiled
def _extra_implies(extras: Extras, narrow: Place, wide: Place, low: Place, high: Place, kind: Place) -> bool:
    if kind == STRING and low == high:
        return _admits(extras, wide, low)
    if kind == STRING and not _pattern_implies(extras, narrow, wide):
        return False
    for at in range(extras.excluded_starts[wide], extras.excluded_starts[wide + 1]):
        value = extras.excluded[at]
        if low <= value <= high and (
            _admits(extras, narrow, value) if kind == STRING else not _excludes(extras, narrow, value)
        ):
            return False
    return True


@compiled
def _pattern_implies(extras: Extras, narrow: Place, wide: Place) -> bool:
    """Return whether the prefix, suffix and parts of ``narrow`` imply those of ``wide``."""
    if not _has_part(extras, extras.prefix[narrow], extras.prefix[wide], START):
        return False
    if not _has_part(extras, extras.suffix[narrow], extras.suffix[wide], END):
        return False
    for at in range(extras.part_starts[wide], extras.part_starts[wide + 1]):
        part = extras.parts[at]
        implied = _has_part(extras, extras.prefix[narrow], part, ANYWHERE)
        implied = implied or _has_part(extras, extras.suffix[narrow], part, ANYWHERE)
        for other in range(extras.part_starts[narrow], extras.part_starts[narrow + 1]):
            implied = implied or _has_part(extras, extras.parts[other], part, ANYWHERE)
        if not implied:
            return False
    return True


@compiled
def _excludes(extras: Extras, extra: Place, value: Place) -> bool:
    for at in range(extras.excluded_starts[extra], extras.excluded_starts[extra + 1]):
        if extras.excluded[at] == value:
            return True
    return False


@compiled
def _admits(extras: Extras, extra: Place, value: Place) -> bool:
    """Return whether the string of this rank satisfies an extra of strings."""
    string = value - 1
    if not _has_part(extras, string, extras.prefix[extra], START):
        return False
    if not _has_part(extras, string, extras.suffix[extra], END):
        return False
    for at in range(extras.part_starts[extra], extras.part_starts[extra + 1]):
        if not _has_part(extras, string, extras.parts[at], ANYWHERE):
            return False
    return not _excludes(extras, extra, value)


@compiled
def _has_part(extras: Extras, string: Place, part: Place, place: Place) -> bool:
    """Return whether a string has a part at its start, at its end or anywhere."""
    first, begin = extras.letter_starts[string], extras.letter_starts[part]
    size = extras.letter_starts[part + 1] - begin
    last = extras.letter_starts[string + 1] - size
    at = last if place == END else first
    while first <= at <= last:
        same = 0
        while same < size and extras.letters[at + same] == extras.letters[begin + same]:
            same += 1
        if same == size:
            return True
        if place != ANYWHERE:
            return False
        at += 1
    return False
