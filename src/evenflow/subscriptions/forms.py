"""The normal forms of many subscriptions in columns, distinct and grouped for the covering kernels.

Everything is exact: numbers become ranks in the order of `normal`, strings become numbers that are only tested for equality.
Attributes with an exclusion or a string pattern go through `normal` itself, once per distinct combination;
all others, which are most, stay in numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np

from evenflow.subscriptions import columns as op
from evenflow.subscriptions import form_kernels as kernels
from evenflow.subscriptions.columns import (
    Bools,
    Exact,
    Int32s,
    Int64s,
    Predicates,
    join_exact,
    predicates_of,
    split_number,
)
from evenflow.subscriptions.covering_kernels import Extras, Forms
from evenflow.subscriptions.form_kernels import ANY, NUMBER, STRING, TOP, PredicateRows
from evenflow.subscriptions.language import EXACT, Subscription
from evenflow.subscriptions.normal import (
    Constraint,
    NumberConstraint,
    StringConstraint,
    normalize,
    predecessor,
    successor,
)

_HARD = np.isin(np.arange(14), [op.NEQ, op.PREFIX, op.SUFFIX, op.CONTAINS, op.UNEQUAL])


@dataclass(frozen=True, slots=True)
class FormsOf:
    """The distinct normal forms of many subscriptions, and which subscription has which; -1 is a contradiction."""

    form: Int32s
    forms: Forms
    extras: Extras


def forms_of(predicates: Predicates) -> FormsOf:
    """Return the distinct normal forms of many subscriptions."""
    hard = _hard_rows(predicates)
    groups = _HardGroups(predicates, np.flatnonzero(hard))
    rows, points = _soft_rows(predicates, np.flatnonzero(~hard) if hard.any() else slice(None), groups.numbers())
    hard_owner, hard_cells = groups.cells(points)
    starts = np.empty(predicates.count + 1, dtype=np.int64)
    cells = np.empty((len(rows.owner) + len(hard_cells), 5), dtype=np.int32)
    form = np.empty(predicates.count, dtype=np.int32)
    count = kernels.merge_rows(rows, hard_owner, hard_cells, _table(predicates.count), starts, cells, form)
    forms, place = _searchable(starts[: count + 1], cells[: starts[count]])
    return FormsOf(np.append(place, np.int32(-1))[form], forms, groups.extras(points))


def _soft_rows(predicates: Predicates, chosen: Int64s | slice, more: Exact) -> tuple[PredicateRows, Exact]:
    """Return the chosen rows with ranks in place of numbers, and the ranked numbers, which include ``more``."""
    operator = predicates.operator[chosen]
    compared = (operator >= op.EQUAL) & (operator < op.NUMBER)
    values = join_exact(predicates.number[chosen][compared] + 0.0, predicates.rest[chosen][compared])
    distinct, inverse = _unique(values)
    place = np.zeros(len(operator), dtype=np.int32)
    place[compared] = inverse
    before, after = _next(distinct, up=False), _next(distinct, up=True)
    points, _ = _unique(np.concatenate([join_exact(np.array([-np.inf, np.inf]), 0), distinct, before, after, more]))
    same, low, high = (_rank(points, value) for value in (distinct, before, after))
    columns = (predicates.owner[chosen], predicates.attribute[chosen], operator, predicates.text[chosen])
    return PredicateRows(*columns, place, same, low, high, (0, len(points) - 1)), points


def _hard_rows(predicates: Predicates) -> Bools:
    """Mark the rows of every attribute of a subscription that has an exclusion or a pattern on it."""
    hard = _HARD[predicates.operator]
    if not hard.any():
        return np.asarray(hard)
    key = predicates.owner * np.int64(len(predicates.attributes)) + predicates.attribute
    return np.isin(key, key[hard])


def _unique(values: Exact) -> tuple[Exact, Int64s]:
    if values.imag.any():
        distinct, inverse = np.unique(values, return_inverse=True)
        return distinct, inverse
    reals, inverse = np.unique(values.real, return_inverse=True)  # the common case, much faster
    return join_exact(reals, 0), inverse


def _rank(points: Exact, values: Exact) -> Int32s:
    if points.imag.any():
        return np.searchsorted(points, values).astype(np.int32)
    return np.searchsorted(np.ascontiguousarray(points.real), np.ascontiguousarray(values.real)).astype(np.int32)


def _split(values: Sequence[float]) -> Exact:
    pairs = [split_number(value) for value in values]
    return join_exact(np.array([near for near, _ in pairs], dtype=np.float64), [rest for _, rest in pairs])


def _next(value: Exact, *, up: bool) -> Exact:
    after = np.nextafter(value.real, np.inf if up else -np.inf) + 0.0
    neighbours = join_exact(after, 0)
    large = np.flatnonzero(np.abs(value.real) >= EXACT)  # where there are integers between the floats
    step = successor if up else predecessor
    if len(large):
        neighbours[large] = _split([step(int(v.real) + int(v.imag)) for v in value[large].tolist()])
    return neighbours


class _HardGroups:
    """Attributes of subscriptions with an exclusion or a pattern; `normal` makes their normal form."""

    def __init__(self, predicates: Predicates, rows: Int64s) -> None:
        order = np.lexsort((predicates.attribute[rows], predicates.owner[rows]))
        rows = rows[order]
        self._texts = predicates.texts
        self._owner, self._attribute = predicates.owner[rows], predicates.attribute[rows]
        first = np.flatnonzero((np.diff(self._owner, prepend=-1) != 0) | (np.diff(self._attribute, prepend=-1) != 0))
        self._owner, self._attribute = self._owner[first], self._attribute[first]
        parts = list(predicates_of(predicates, rows))
        memo: dict[tuple[int, ...], Constraint | None] = {}
        self._constraints: list[Constraint | None] = []
        bounds = [*first.tolist(), len(rows)]
        for begin, end in pairwise(bounds):
            key = tuple(map(id, parts[begin:end]))
            if key not in memo:
                normal = normalize(Subscription(tuple(parts[begin:end])))
                memo[key] = None if normal is None else next(iter(normal.values()))
            self._constraints.append(memo[key])
        self._codes: dict[tuple[object, ...], int] = {}
        self._code = [self._code_of(c) for c in self._constraints]

    def _code_of(self, constraint: Constraint | None) -> int:
        """Return the number of what intervals cannot express, 0 for nothing."""
        if isinstance(constraint, NumberConstraint) and constraint.excluded:
            key: tuple[object, ...] = (constraint.excluded,)
        elif isinstance(constraint, StringConstraint) and constraint != StringConstraint() and constraint.equal is None:
            key = (constraint.prefix, constraint.suffix, constraint.parts, constraint.excluded)
        else:
            return 0
        return self._codes.setdefault(key, len(self._codes) + 1)

    def numbers(self) -> Exact:
        """Return all numbers that need a rank."""
        constraints = [c for c in dict.fromkeys(self._constraints) if isinstance(c, NumberConstraint)]
        return _split([x for c in constraints for x in (c.low, c.high, *c.excluded)])

    def cells(self, points: Exact) -> tuple[Int32s, Int32s]:
        """Return the owners and their cells; a cell that nothing satisfies has its low end above its high end."""
        numbers = {text: number for number, text in enumerate(self._texts)}
        cells = np.zeros((len(self._constraints), 5), dtype=np.int32)
        cells[:, 0] = self._attribute
        ends = [x for c in self._constraints if isinstance(c, NumberConstraint) for x in (c.low, c.high)]
        ranks = iter(_rank(points, _split(ends)).tolist())
        for cell, constraint in zip(cells, self._constraints, strict=True):
            if isinstance(constraint, NumberConstraint):
                cell[1:4] = NUMBER, next(ranks), next(ranks)
            elif isinstance(constraint, StringConstraint) and constraint.equal is not None:
                cell[1:4] = STRING, numbers[constraint.equal] + 1, numbers[constraint.equal] + 1
            else:
                cell[1:4] = STRING, 0, -1 if constraint is None else TOP
        cells[:, 4] = self._code
        return self._owner, cells

    def extras(self, points: Exact) -> Extras:
        strings = {text: number for number, text in enumerate(self._texts)}
        strings.setdefault("", len(strings))
        prefix, suffix = [strings[""]], [strings[""]]
        parts: list[list[int]] = [[]]
        excluded: list[list[int]] = [[]]
        for key in self._codes:
            if len(key) == 1:
                (values,) = key
                assert isinstance(values, frozenset)
                prefix.append(strings[""])
                suffix.append(strings[""])
                parts.append([])
                excluded.append(sorted(_rank(points, _split(list(values))).tolist()))
            else:
                start, end, inner, others = key
                assert isinstance(inner, frozenset)
                assert isinstance(others, frozenset)
                prefix.append(strings[str(start)])
                suffix.append(strings[str(end)])
                parts.append([strings[text] for text in inner])
                excluded.append(sorted(strings[text] + 1 for text in others))
        spelled = [[ord(letter) for letter in text] for text in strings] if self._codes else [[]] * len(strings)
        return Extras(
            np.array(prefix, dtype=np.int64),
            np.array(suffix, dtype=np.int64),
            *_listed(parts),
            *_listed(excluded),
            *_listed(spelled),
        )


def _table(count: int) -> Int32s:
    """Return an empty hash table, at most half of which will be used."""
    return np.full(1 << max(4, (2 * count).bit_length()), -1, dtype=np.int32)


def _grouped(starts: Int64s, cells: Int32s) -> tuple[Int32s, Int32s, Int32s]:
    """Return the group of each row of cells, the first row of each group, and the table that finds a group."""
    count = len(starts) - 1
    table = _table(count)
    group, chosen = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int32)
    size = kernels.group_rows(starts, np.ascontiguousarray(cells), table, group, chosen)
    return group, chosen[:size], table


def _taken(starts: Int64s, cells: Int32s, rows: Int64s | Int32s) -> tuple[Int64s, Int32s]:
    """Return some rows of cells alone."""
    sizes = starts[rows + 1] - starts[rows]
    taken = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
    where = np.repeat(starts[rows] - taken[:-1], sizes) + np.arange(taken[-1])
    return taken, np.ascontiguousarray(cells[where])


def _searchable(starts: Int64s, cells: Int32s) -> tuple[Forms, Int32s]:
    """Sort and group distinct forms; return also where each one went."""
    fixed = (cells[:, 2] == cells[:, 3]) & (cells[:, 1] != ANY)  # requires a single value
    signature_of_cells = cells[:, :3].copy()
    signature_of_cells[~fixed, 1:] = -1
    signature, chosen, table = _grouped(starts, signature_of_cells)
    signature_starts, signature_cells = _taken(starts, signature_of_cells, chosen)
    kind, low, high = _first_open(starts, cells, fixed)
    order = np.lexsort((-high.astype(np.int64), low, signature))
    signature, kind, low, high = signature[order], kind[order], low[order], high[order]
    starts, cells = _taken(starts, cells, order)  # forms that are searched together are close in memory
    form_starts = np.searchsorted(signature, np.arange(len(chosen) + 1))
    shape_of, shape_starts, shape_cells, within_starts, within = _shapes(signature_starts, signature_cells)

    # One running maximum for all signatures: the lift puts each signature above all earlier ones (below, for the minimum).
    lift = signature.astype(np.int64) << 32
    reach = np.maximum.accumulate(high + lift) - lift
    least = np.minimum.accumulate(high - lift) + lift
    new_low = (np.diff(low, prepend=-2) != 0) | (np.diff(signature, prepend=-1) != 0)
    same_low = np.maximum.accumulate(np.where(new_low, np.arange(len(low)), 0))
    mixed = np.bincount(signature, weights=kind != kind[form_starts[signature]], minlength=len(form_starts)) > 0
    forms = Forms(
        starts,
        cells,
        shape_of[signature],
        shape_starts,
        shape_cells,
        within_starts,
        within,
        signature_starts,
        signature_cells,
        table,
        form_starts,
        low,
        high,
        reach.astype(np.int32),
        least.astype(np.int32),
        same_low,
        (kind >= 0) & ~mixed[signature],
    )
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order))
    return forms, place


def _shapes(starts: Int64s, signature_cells: Int32s) -> tuple[Int32s, Int64s, Int32s, Int64s, Int32s]:
    """Return the shape of each signature, the shapes, and for each shape those that can cover it, widest first."""
    shapes = np.stack([signature_cells[:, 0], signature_cells[:, 1] >= 0], axis=1).astype(np.int32)
    shape_of, chosen, table = _grouped(starts, shapes)
    shape_starts, shape_cells = _taken(starts, shapes, chosen)
    within_starts = np.empty(len(shape_starts), dtype=np.int64)
    within = kernels.shapes_within(shape_starts, shape_cells, table, within_starts)
    owner = np.repeat(np.arange(len(shape_starts) - 1), np.diff(within_starts))
    within = within[np.lexsort((np.diff(shape_starts)[within], owner))]
    return shape_of, shape_starts, shape_cells, within_starts, within


def _first_open(starts: Int64s, cells: Int32s, fixed: Bools) -> tuple[Int32s, Int32s, Int32s]:
    """Return the ends of each form's first cell that is not fixed, zeros if all are, and its kind.

    The kind is -1 if there is another such cell or an extra.
    """
    open_cells = np.flatnonzero(~fixed)
    place = np.searchsorted(open_cells, starts)
    first = np.append(open_cells, 0)[place[:-1]]
    some = place[1:] > place[:-1]
    plain = (np.diff(place) == 1) & (np.add.reduceat(cells[:, 4], starts[:-1], dtype=np.int64) == 0)
    kind, low, high = (
        np.where(there, cells[first, c], no) for there, c, no in ((plain, 1, -1), (some, 2, 0), (some, 3, 0))
    )
    return kind, low, high


def _listed(lists: Sequence[Sequence[int]]) -> tuple[Int64s, Int64s]:
    starts = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return starts, np.fromiter(chain.from_iterable(lists), dtype=np.int64, count=int(starts[-1]))
