"""Axes: every value of an attribute becomes a small integer, every predicate on it an interval of such integers.

The operands in subscriptions divide the values of an attribute into points and gaps.
Point r has the code 2r + 1, the gap below it 2r, and a missing value -1.
So ``= x`` is ``[2r + 1, 2r + 1]``, ``> x`` is ``[2r + 2, top]``, ``isPresent`` is ``[0, top]``: exact for integers and floats.
Strings need equality only: their points are in any order, and every string that is no operand has the code 0.
Prefixes, suffixes and substrings are *patterns*: they are evaluated once per distinct value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from evenflow.subscriptions import columns as op
from evenflow.subscriptions.columns import Bools, Exact, Floats, Int16s, Int32s, Int64s, Predicates, join_exact
from evenflow.subscriptions.events import EventColumns, NumberColumn

NUMBERS, STRINGS, ANYTHING = range(3)
FAMILY = np.array([STRINGS] * 6 + [NUMBERS] * 7 + [ANYTHING], dtype=np.int8)
_TRIED_LIMIT = 1 << 16  # strings whose patterns are cached


@dataclass
class Axis:
    """One attribute under one type: its points in code order, and its patterns.

    ``points`` are numbers (with ``rest`` if an integer needs it) or strings; the axis of the wildcard has none.
    """

    attribute: str
    family: int
    points: Floats
    rest: Int16s | None
    words: dict[str, int]
    patterns: list[tuple[int, str]]
    _tried: dict[str, Int32s] = field(default_factory=dict, repr=False)

    @property
    def top(self) -> int:
        """The highest code."""
        return 2 * (len(self.points) + len(self.words))

    def encode(self, events: EventColumns) -> Int32s:
        """Return the code of every event."""
        if self.family == ANYTHING:
            present = events.present(self.attribute)
            return np.full(events.size, -1, dtype=np.int32) if present is None else present.astype(np.int32) - 1
        if self.family == STRINGS:
            strings = events.strings(self.attribute)
            if strings is None:
                return np.full(events.size, -1, dtype=np.int32)
            get = self.words.get
            codes = [0 if (code := get(value)) is None else 2 * code + 1 for value in strings.values]
            return np.array([*codes, -1], dtype=np.int32)[strings.codes]
        numbers = events.numbers(self.attribute)
        if numbers is None:
            return np.full(events.size, -1, dtype=np.int32)
        return np.where(numbers.present, self._place(numbers), np.int32(-1))

    def _place(self, numbers: NumberColumn) -> Int32s:
        if not len(self.points):
            return np.zeros(len(numbers.values), dtype=np.int32)
        points: Floats | Exact = self.points
        values: Floats | Exact = numbers.values
        if self.rest is not None or numbers.rest is not None:
            points, values = join_exact(self.points, self.rest), join_exact(numbers.values, numbers.rest)
        left = np.searchsorted(points, values)
        hit = points[np.minimum(left, len(points) - 1)] == values
        return np.asarray(2 * left + hit, dtype=np.int32)

    def patterns_in(self, value: str) -> Int32s:
        """Return the patterns that a string satisfies, ascending; they are looked up by their text."""
        patterns = self._tried.get(value)
        if patterns is None:
            if len(self._tried) >= _TRIED_LIMIT:
                self._tried.clear()
            patterns = self._tried[value] = np.array(sorted(self._find(value)), dtype=np.int32)
        return patterns

    def _find(self, value: str) -> Iterator[int]:
        for (code, length), texts in self._by_length.items():
            last = len(value) - length
            if last < 0:
                continue
            starts = (0,) if code == op.PREFIX else (last,) if code == op.SUFFIX else range(last + 1)
            parts = {value[start : start + length] for start in starts}
            yield from (texts[part] for part in parts if part in texts)

    @cached_property
    def _by_length(self) -> dict[tuple[int, int], dict[str, int]]:
        by_length: dict[tuple[int, int], dict[str, int]] = {}
        for number, (code, text) in enumerate(self.patterns):
            by_length.setdefault((code, len(text)), {})[text] = number
        return by_length


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of many subscriptions: at most one interval per axis each, then exclusions and patterns.

    Subscription i has the intervals ``starts[i]`` to ``starts[i + 1]``, by ascending axis.
    An extra with ``excluded`` requires a code other than ``what``; without, that pattern ``what`` of the axis holds.
    """

    axes: list[Axis]
    possible: Bools
    starts: Int64s
    axis: Int32s
    low: Int32s
    high: Int32s
    extra_owner: Int32s
    extra_axis: Int32s
    extra_what: Int32s
    excluded: Bools


def terms_of(predicates: Predicates) -> Terms:
    """Return the terms of subscriptions; a subscription that nothing can match is marked as not possible."""
    axes, axis, possible, low, high, extra_rows, extra_what = _lay_axes(predicates)
    owner = predicates.owner
    key = owner.astype(np.int64) * max(len(axes), 1) + axis
    extra_key, extra_owner, extra_axis = key[extra_rows], owner[extra_rows], axis[extra_rows]
    operator = predicates.operator[extra_rows]
    excluded = (operator == op.NEQ) | (operator == op.UNEQUAL)
    if not np.all(key[1:] > key[:-1]):
        order = np.argsort(key, kind="stable")
        key = key[order]
        firsts = np.flatnonzero(np.r_[True, key[1:] > key[:-1]])
        owner, axis, key = owner[order][firsts], axis[order][firsts], key[firsts]
        low = np.maximum.reduceat(low[order], firsts)
        high = np.minimum.reduceat(high[order], firsts)
    possible[owner[low > high]] = False
    _refuse_two_types(axes, owner, axis, possible)
    keep = _needed(key, low, high, extra_key, extra_what, excluded)
    point = low[np.searchsorted(key, extra_key)] == high[np.searchsorted(key, extra_key)]
    possible[extra_owner[keep & excluded & point]] = False  # only the excluded value is wanted
    chosen = np.flatnonzero(keep)
    if len(chosen):  # sorted and without duplicates, so that equal subscriptions have equal terms
        order = np.lexsort((extra_what[chosen], excluded[chosen], extra_key[chosen]))
        chosen = chosen[order]
        same = np.r_[
            False,
            (extra_key[chosen][1:] == extra_key[chosen][:-1])
            & (extra_what[chosen][1:] == extra_what[chosen][:-1])
            & (excluded[chosen][1:] == excluded[chosen][:-1]),
        ]
        chosen = chosen[~same]
    starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.bincount(owner, minlength=predicates.count))])
    return Terms(
        axes,
        possible,
        starts,
        axis,
        low,
        high,
        extra_owner[chosen],
        extra_axis[chosen],
        extra_what[chosen],
        excluded[chosen],
    )


def _needed(key: Int64s, low: Int32s, high: Int32s, extra_key: Int64s, what: Int32s, excluded: Bools) -> Bools:
    """Return which extras are needed: a value outside the interval need not be excluded."""
    term = np.searchsorted(key, extra_key)
    return ~excluded | ((low[term] <= what) & (what <= high[term]))


def _refuse_two_types(axes: list[Axis], owner: Int32s, axis: Int32s, possible: Bools) -> None:
    """Mark subscriptions that want both a string and a number in one attribute as not possible."""
    family = np.array([a.family for a in axes], dtype=np.int8)
    number_of = {name: i for i, name in enumerate(dict.fromkeys(a.attribute for a in axes))}
    attribute = np.array([number_of[a.attribute] for a in axes], dtype=np.int32)
    if len(number_of) == len(axes):
        return
    left, right = axis[:-1], axis[1:]
    both = (owner[:-1] == owner[1:]) & (attribute[left] == attribute[right])
    possible[owner[:-1][both & (family[left] == NUMBERS) & (family[right] == STRINGS)]] = False


def _lay_axes(
    predicates: Predicates,
) -> tuple[list[Axis], Int32s, Bools, Int32s, Int32s, Int64s, Int32s]:
    """Return the axes, each predicate's interval on its axis, and the exclusions and patterns as extras."""
    size = len(predicates.owner)
    flat = predicates.attribute * 3 + FAMILY[predicates.operator]  # keeps the types of an attribute next to each other
    used = np.flatnonzero(np.bincount(flat, minlength=1))
    number = np.zeros(3 * len(predicates.attributes) + 1, dtype=np.int32)
    number[used] = np.arange(len(used), dtype=np.int32)
    axis = number[flat]
    order = np.argsort(axis.astype(np.uint16) if len(used) < 1 << 16 else axis, kind="stable")
    bounds = np.searchsorted(axis[order], np.arange(len(used) + 1))
    low, high = np.zeros(size, dtype=np.int32), np.empty(size, dtype=np.int32)
    possible = np.ones(predicates.count, dtype=bool)
    axes: list[Axis] = []
    extra_rows: list[Int64s] = [np.zeros(0, dtype=np.int64)]
    extra_what: list[Int32s] = [np.zeros(0, dtype=np.int32)]
    for position, code in enumerate(used.tolist()):
        rows = order[bounds[position] : bounds[position + 1]]
        attribute, family = predicates.attributes[code // 3], code % 3
        if family == NUMBERS:
            laid = _lay_numbers(attribute, predicates, rows, possible)
        elif family == STRINGS:
            laid = _lay_strings(attribute, predicates, rows)
        else:
            nothing = np.zeros(0, dtype=np.int64)
            none = np.zeros(len(rows), dtype=np.int32)
            laid = Axis(attribute, family, np.zeros(0), None, {}, []), none, none, nothing, nothing.astype(np.int32)
        new_axis, low[rows], high[rows], extras, what = laid
        axes.append(new_axis)
        extra_rows.append(rows[extras])
        extra_what.append(what)
    return axes, axis, possible, low, high, np.concatenate(extra_rows), np.concatenate(extra_what)


def _lay_numbers(
    attribute: str, predicates: Predicates, rows: Int64s, possible: Bools
) -> tuple[Axis, Int32s, Int32s, Int64s, Int32s]:
    operator, number = predicates.operator[rows], predicates.number[rows]
    nan = np.isnan(number)
    possible[predicates.owner[rows[nan & (operator != op.UNEQUAL)]]] = False
    compared = np.flatnonzero((operator != op.NUMBER) & ~nan)
    rest = predicates.rest[rows[compared]]
    point = np.full(len(rows), -1, dtype=np.int32)
    if rest.any():
        both, inverse = np.unique(join_exact(number[compared], rest), return_inverse=True)
        axis = Axis(attribute, NUMBERS, both.real.copy(), both.imag.astype(np.int16), {}, [])
    else:
        points, inverse = np.unique(number[compared], return_inverse=True)
        axis = Axis(attribute, NUMBERS, points, None, {}, [])
    point[compared] = 2 * inverse + 1
    low = np.where((operator == op.EQUAL) | (operator == op.AT_LEAST), point, 0)
    low = np.where(operator == op.MORE, point + 1, low)
    high = np.where((operator == op.EQUAL) | (operator == op.AT_MOST), point, axis.top)
    high = np.where(operator == op.LESS, point - 1, high)
    extras = np.flatnonzero((operator == op.UNEQUAL) & ~nan)
    return axis, np.maximum(low, 0).astype(np.int32), high.astype(np.int32), extras, point[extras]


def _lay_strings(attribute: str, predicates: Predicates, rows: Int64s) -> tuple[Axis, Int32s, Int32s, Int64s, Int32s]:
    operator, text = predicates.operator[rows], predicates.text[rows]
    named = operator <= op.NEQ
    words = np.flatnonzero(np.bincount(text[named], minlength=1))
    number = np.zeros(len(predicates.texts) + 1, dtype=np.int32)
    number[words] = np.arange(len(words), dtype=np.int32)
    known = {predicates.texts[word]: i for i, word in enumerate(words.tolist())}
    patterned = (operator >= op.PREFIX) & (operator <= op.CONTAINS)
    pattern_keys = text[patterned].astype(np.int64) * 16 + operator[patterned]
    distinct, pattern = np.unique(pattern_keys, return_inverse=True)
    patterns = [(key % 16, predicates.texts[key // 16]) for key in distinct.tolist()]
    axis = Axis(attribute, STRINGS, np.zeros(0), None, known, patterns)
    what = np.full(len(rows), -1, dtype=np.int32)
    what[named] = 2 * number[text[named]] + 1
    what[patterned] = pattern
    equal = operator == op.EQ
    low = np.where(equal, what, 0).astype(np.int32)
    high = np.where(equal, what, axis.top).astype(np.int32)
    extras = np.flatnonzero((operator == op.NEQ) | patterned)
    return axis, low, high, extras, what[extras]
