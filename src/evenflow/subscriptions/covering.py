"""Covering: one subscription covers another if it matches every publication that the other matches.

Decided attribute by attribute on normal forms, which is exact: each predicate of the one must be implied
by the conjunction of the other's predicates on the same attribute (the table is in `docs/subscriptions.md`).
A contradictory subscription matches nothing and is covered by every other.
"""

from __future__ import annotations

from typing import Literal

from evenflow.subscriptions.language import Subscription
from evenflow.subscriptions.normal import Normal, conjunction, implies, normalize

Relation = Literal["equal", "covers", "covered", "intersects", "disjoint"]


def covers(a: Subscription, b: Subscription) -> bool:
    """Tell whether ``a`` matches every publication that ``b`` matches.

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
    """Tell whether some publication matches both."""
    return forms_intersect(normalize(a), normalize(b))


def relation(a: Subscription, b: Subscription) -> Relation:
    """Say how the publications that ``a`` matches relate to those that ``b`` matches.

    Examples
    --------
    >>> from evenflow.subscriptions.language import parse_subscription
    >>> relation(parse_subscription("[volume,>,10]"), parse_subscription("[volume,<,20]"))
    'intersects'
    """
    one, other = normalize(a), normalize(b)
    if one == other:
        return "equal"
    if form_covers(one, other):
        return "covers"
    if form_covers(other, one):
        return "covered"
    return "intersects" if forms_intersect(one, other) else "disjoint"


def form_covers(a: Normal | None, b: Normal | None) -> bool:
    """Tell whether one normal form covers another; None is a contradiction."""
    if b is None:
        return True
    if a is None or len(a) > len(b):
        return False
    return all(name in b and implies(b[name], constraint) for name, constraint in a.items())


def forms_intersect(a: Normal | None, b: Normal | None) -> bool:
    """Tell whether some publication matches both of two normal forms."""
    if a is None or b is None:
        return False
    return all(name not in b or conjunction(constraint, b[name]) is not None for name, constraint in a.items())
