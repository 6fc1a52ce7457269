"""The covering subscription set and the direct edges of many subscriptions at once.

Small sets, and all sets where numba is not installed, go through `poset`; large ones through compiled kernels.
Both give the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

import numpy as np

from evenflow.errors import BadInput
from evenflow.subscriptions.columns import Int32s, Int64s, Predicates
from evenflow.subscriptions.ids import ranks
from evenflow.subscriptions.poset import Poset, css_of
from evenflow.subscriptions.rows import subscriptions_of

if TYPE_CHECKING:
    from evenflow.subscriptions.forms import FormsOf

Engine = Literal["auto", "python", "numba"]
_COMPILED_FROM = 5000  # below this, loading the compiled kernels costs more than they save


@dataclass(frozen=True, slots=True)
class Covering:
    """What covers what among many subscriptions.

    Parameters
    ----------
    css
        The ids that nothing covers, ascending; of equal subscriptions the lowest, contradictions never.
    edges
        The direct covering pairs, ascending.
    contradictions
        The ids that match nothing, ascending.
    """

    css: list[str]
    edges: list[tuple[str, str]]
    contradictions: list[str]


def covering_set(ids: Sequence[str], predicates: Predicates, *, engine: Engine = "auto") -> list[str]:
    """Find the covering subscription set of many subscriptions.

    Parameters
    ----------
    ids
        One id for each subscription.
    predicates
        The subscriptions in columns.

    Examples
    --------
    >>> from evenflow.subscriptions.language import parse_subscription
    >>> texts = ["[class,eq,'STOCK'],[volume,>,1000]", "[class,eq,'STOCK']", "[class,eq,'SPORTS']"]
    >>> covering_set(["1", "2", "3"], Predicates.of(map(parse_subscription, texts)))
    ['2', '3']
    """
    if not _compiled(engine, len(ids)):
        return css_of(zip(ids, subscriptions_of(predicates), strict=True))
    from evenflow.subscriptions import covering_kernels as kernels  # noqa: PLC0415 - numba is optional, and slow to load
    from evenflow.subscriptions.forms import forms_of  # noqa: PLC0415

    found = forms_of(predicates)
    covered = np.zeros(len(found.forms.starts) - 1, dtype=np.bool_)
    kernels.covered_forms(found.forms, found.extras, covered)
    rank = ranks(ids)
    lowest = _lowest(found, rank)[~covered]
    return [ids[number] for number in lowest[np.argsort(rank[lowest])].tolist()]


def covering(ids: Sequence[str], predicates: Predicates, *, engine: Engine = "auto") -> Covering:
    """Find the covering subscription set, all direct edges and the contradictions of many subscriptions.

    Parameters
    ----------
    ids
        One id for each subscription.
    predicates
        The subscriptions in columns.
    """
    if not _compiled(engine, len(ids)):
        poset = Poset(zip(ids, subscriptions_of(predicates), strict=True))
        return Covering(poset.css(), poset.edges(), poset.contradictions())
    from evenflow.subscriptions import covering_kernels as kernels  # noqa: PLC0415 - numba is optional, and slow to load
    from evenflow.subscriptions.forms import forms_of  # noqa: PLC0415

    found = forms_of(predicates)
    rank = ranks(ids)
    lowest = _lowest(found, rank)
    pairs = kernels.direct_edges(found.forms, found.extras)
    top = np.ones(len(lowest), dtype=bool)
    top[pairs[:, 1]] = False
    roots = lowest[top]
    nothing = np.flatnonzero(found.form < 0)
    nothing = nothing[np.argsort(rank[nothing])]
    edges = _all_edges(found.form, lowest, pairs, nothing)
    edges = edges[np.lexsort((rank[edges[:, 1]], rank[edges[:, 0]]))]
    return Covering(
        [ids[number] for number in roots[np.argsort(rank[roots])].tolist()],
        [(ids[a], ids[b]) for a, b in edges.tolist()],
        [ids[number] for number in nothing.tolist()],
    )


def _compiled(engine: Engine, size: int) -> bool:
    if engine not in ("auto", "python", "numba"):
        raise BadInput(repr(engine), "'auto', 'python' or 'numba'", "engine")
    return engine == "numba" or (engine == "auto" and size >= _COMPILED_FROM and find_spec("numba") is not None)


def _lowest(found: FormsOf, rank: Int64s) -> Int64s:
    """Give for each form the subscription with the lowest id."""
    there = np.flatnonzero(found.form >= 0)
    there = there[np.argsort(-rank[there])]
    lowest = np.empty(len(found.forms.starts) - 1, dtype=np.int64)
    lowest[found.form[there]] = there  # the last one written stays, and that is the lowest
    return lowest


def _all_edges(form: Int32s, lowest: Int64s, pairs: Int32s, nothing: Int64s) -> Int64s:
    """Add to the pairs of forms what lies below a form of its own: equal subscriptions and contradictions."""
    there = np.flatnonzero(form >= 0)
    others = there[lowest[form[there]] != there]
    parts = [np.stack([lowest[pairs[:, 0]], lowest[pairs[:, 1]]], axis=1), _stack(lowest[form[others]], others)]
    if len(nothing):
        narrowest = np.ones(len(lowest), dtype=bool)
        narrowest[pairs[:, 0]] = False
        parts.append(_stack(lowest[narrowest], np.full(int(narrowest.sum()), nothing[0])))
        parts.append(_stack(np.full(len(nothing) - 1, nothing[0]), nothing[1:]))
    return np.concatenate(parts)


def _stack(a: Int64s, b: Int64s) -> Int64s:
    return np.stack([a, b], axis=1)
