"""Covering: which subscriptions match every publication that another one matches.

Covering is decided attribute by attribute on normal forms, which is exact: each predicate of the one must be implied
by the conjunction of the other's predicates on the same attribute (`docs/subscriptions.md` has the table).
A contradictory subscription matches nothing and is covered by every other.
Small sets, and all sets if numba is not installed, go through `poset`; large sets go through compiled kernels.
Both give the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from evenflow.errors import BadInput
from evenflow.subscriptions.columns import Int32s, Int64s, Predicates, subscriptions_of
from evenflow.subscriptions.ids import ascending_order
from evenflow.subscriptions.language import Subscription
from evenflow.subscriptions.normal import form_covers, forms_intersect, normalize
from evenflow.subscriptions.poset import Poset, css_of

if TYPE_CHECKING:
    from evenflow.subscriptions.forms import FormsOf

Relation = Literal["equal", "covers", "covered", "intersects", "disjoint"]
Engine = Literal["auto", "python", "numba"]
_COMPILED_FROM = 5000  # below this, loading the compiled kernels costs more than they save


def covers(a: Subscription, b: Subscription) -> bool:
    """Return whether ``a`` matches every publication that ``b`` matches.

    Examples
    --------
    >>> from evenflow.subscriptions.language import parse_subscription
    >>> wide = parse_subscription("[class,eq,'STOCK']")
    >>> narrow = parse_subscription("[class,eq,'STOCK'],[volume,>,1000]")
    >>> covers(wide, narrow), covers(narrow, wide)
    (True, False)
    """
    return form_covers(normalize(a), normalize(b))


def intersects(a: Subscription, b: Subscription) -> bool:
    """Return whether some publication matches both."""
    return forms_intersect(normalize(a), normalize(b))


def relation(a: Subscription, b: Subscription) -> Relation:
    """Return how the publications that ``a`` matches relate to those that ``b`` matches.

    Examples
    --------
    >>> from evenflow.subscriptions.language import parse_subscription
    >>> relation(parse_subscription("[volume,>,10]"), parse_subscription("[volume,<,20]"))
    'intersects'
    """
    form_a, form_b = normalize(a), normalize(b)
    if form_a == form_b:
        return "equal"
    if form_covers(form_a, form_b):
        return "covers"
    if form_covers(form_b, form_a):
        return "covered"
    return "intersects" if forms_intersect(form_a, form_b) else "disjoint"


@dataclass(frozen=True, slots=True)
class Covering:
    """Which of many subscriptions cover which.

    Parameters
    ----------
    css
        The covering subscription set: the ids that nothing covers, ascending.
        Of equal subscriptions it has the lowest id; it has no contradictions.
    edges
        The direct covering pairs, ascending.
    contradictions
        The ids that match nothing, ascending.
    """

    css: list[str]
    edges: list[tuple[str, str]]
    contradictions: list[str]


def covering_set(ids: Sequence[str], predicates: Predicates, *, engine: Engine = "auto") -> list[str]:
    """Return the covering subscription set of many subscriptions, one id each, given as columns.

    Examples
    --------
    >>> from evenflow.subscriptions.language import parse_subscription
    >>> texts = ["[class,eq,'STOCK'],[volume,>,1000]", "[class,eq,'STOCK']", "[class,eq,'SPORTS']"]
    >>> covering_set(["1", "2", "3"], Predicates.of(map(parse_subscription, texts)))
    ['2', '3']
    """
    if not _is_compiled(engine, len(ids)):
        return css_of(zip(ids, subscriptions_of(predicates), strict=True))
    from evenflow.subscriptions import covering_kernels as kernels  # noqa: PLC0415 - numba is optional, and slow to load
    from evenflow.subscriptions.forms import forms_of  # noqa: PLC0415

    table = forms_of(predicates)
    covered = np.zeros(len(table.forms.starts) - 1, dtype=np.bool_)
    kernels.covered_forms(table.forms, table.extras, covered)
    rank = _ranks(ids)
    return _names(ids, _lowest(table, rank)[~covered], rank)


def covering(ids: Sequence[str], predicates: Predicates, *, engine: Engine = "auto") -> Covering:
    """Return the covering subscription set, all direct edges and the contradictions of many subscriptions."""
    if not _is_compiled(engine, len(ids)):
        poset = Poset(zip(ids, subscriptions_of(predicates), strict=True))
        return Covering(poset.css(), poset.edges(), poset.contradictions())
    from evenflow.subscriptions import covering_kernels as kernels  # noqa: PLC0415 - numba is optional, and slow to load
    from evenflow.subscriptions.forms import forms_of  # noqa: PLC0415

    table = forms_of(predicates)
    rank = _ranks(ids)
    lowest = _lowest(table, rank)
    pairs = kernels.direct_edges(table.forms, table.extras)
    is_root = np.ones(len(lowest), dtype=bool)
    is_root[pairs[:, 1]] = False
    contradictions = np.flatnonzero(table.form < 0)
    contradictions = contradictions[np.argsort(rank[contradictions])]
    edges = _all_edges(table.form, lowest, pairs, contradictions)
    edges = edges[np.lexsort((rank[edges[:, 1]], rank[edges[:, 0]]))]
    return Covering(
        _names(ids, lowest[is_root], rank),
        [(ids[a], ids[b]) for a, b in edges.tolist()],
        [ids[number] for number in contradictions.tolist()],
    )


def _is_compiled(engine: Engine, size: int) -> bool:
    if engine not in ("auto", "python", "numba"):
        raise BadInput(repr(engine), "'auto', 'python' or 'numba'", "engine")
    return engine == "numba" or (engine == "auto" and size >= _COMPILED_FROM and find_spec("numba") is not None)


def _ranks(ids: Sequence[str]) -> Int64s:
    """Return the place of each id in ascending order."""
    ranks = np.empty(len(ids), dtype=np.int64)
    ranks[ascending_order(pa.array(ids, pa.string()))] = np.arange(len(ids))
    return ranks


def _names(ids: Sequence[str], numbers: Int64s, rank: Int64s) -> list[str]:
    return [ids[number] for number in numbers[np.argsort(rank[numbers])].tolist()]


def _lowest(table: FormsOf, rank: Int64s) -> Int64s:
    """Return for each form the subscription with the lowest id."""
    possible = np.flatnonzero(table.form >= 0)
    possible = possible[np.argsort(-rank[possible])]
    lowest = np.empty(len(table.forms.starts) - 1, dtype=np.int64)
    lowest[table.form[possible]] = possible  # the last assignment wins, and that is the lowest
    return lowest


def _all_edges(form: Int32s, lowest: Int64s, pairs: Int32s, contradictions: Int64s) -> Int64s:
    """Return the edges between forms, and those to equal subscriptions and to contradictions."""
    possible = np.flatnonzero(form >= 0)
    others = possible[lowest[form[possible]] != possible]
    parts = [lowest[pairs], np.column_stack([lowest[form[others]], others])]
    if len(contradictions):
        is_narrowest = np.ones(len(lowest), dtype=bool)
        is_narrowest[pairs[:, 0]] = False
        first, rest = contradictions[0], contradictions[1:]
        parts += [np.column_stack(np.broadcast_arrays(lowest[is_narrowest], first))]
        parts += [np.column_stack(np.broadcast_arrays(first, rest))]
    return np.concatenate(parts)
