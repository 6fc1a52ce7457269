"""The partially ordered set of subscriptions: the direct covering pairs, updated by add and remove.

Subscriptions of equal meaning share one node, as in Cheung 2006, section 2.1.2; the lowest id represents them.
The nodes that nothing covers are the covering subscription set (CSS).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import TypeVar

from evenflow.subscriptions import ids
from evenflow.subscriptions.language import Subscription, Value
from evenflow.subscriptions.normal import Constraint, Normal, NumberConstraint, StringConstraint, form_covers, normalize

Token = tuple[str, Value | None]  # an attribute, and the single value it must have, or None
Shape = frozenset[tuple[str, bool]]  # the attributes of a node, and whether each must have a single value
_K = TypeVar("_K")


@dataclass(eq=False, slots=True)
class PosetNode:
    """Subscriptions of equal meaning."""

    form: Normal
    ids: set[str] = field(default_factory=set)
    parents: set[PosetNode] = field(default_factory=set)
    children: set[PosetNode] = field(default_factory=set)


class Poset:
    """Subscriptions by id, ordered by covering.

    Parameters
    ----------
    subscriptions
        Pairs of id and subscription to start with.

    Examples
    --------
    >>> from evenflow.subscriptions.language import parse_subscription
    >>> poset = Poset([("1", parse_subscription("[volume,>,5]"))])
    >>> poset.add("2", parse_subscription("[volume,>,9]"))
    >>> poset.css(), poset.edges()
    (['1'], [('1', '2')])
    >>> poset.remove("1")
    >>> poset.css()
    ['2']
    """

    def __init__(self, subscriptions: Iterable[tuple[str, Subscription]] = ()) -> None:
        self._node_of_id: dict[str, PosetNode | None] = {}  # None: a contradiction
        self._node_of_form: dict[frozenset[tuple[str, Constraint]], PosetNode] = {}
        self._roots: set[PosetNode] = set()
        self._contradictions: set[str] = set()
        self._words = 0  # how many ids are not integers, which decides the order of ids
        self._index = FormIndex()
        for name, subscription in subscriptions:
            self.add(name, subscription)

    def __len__(self) -> int:
        return len(self._node_of_id)

    def __contains__(self, name: str) -> bool:
        return name in self._node_of_id

    def add(self, name: str, subscription: Subscription) -> None:
        """Add a subscription.

        Raises
        ------
        ValueError
            If the id is taken.
        """
        if name in self._node_of_id:
            raise ValueError(f"the id {name!r} is taken")
        form = normalize(subscription)
        self._words += not ids.is_integer(name)
        if form is None:
            self._contradictions.add(name)
            self._node_of_id[name] = None
            return
        key = frozenset(form.items())
        node = self._node_of_form.get(key)
        if node is None:
            node = self._node_of_form[key] = PosetNode(form)
            self._insert(node)
        node.ids.add(name)
        self._node_of_id[name] = node

    def remove(self, name: str) -> None:
        """Remove a subscription; what only it covered directly becomes a child of what covered it.

        Raises
        ------
        KeyError
            If there is no such id.
        """
        node = self._node_of_id.pop(name)
        self._words -= not ids.is_integer(name)
        if node is None:
            self._contradictions.remove(name)
            return
        node.ids.remove(name)
        if not node.ids:
            del self._node_of_form[frozenset(node.form.items())]
            self._delete(node)

    def css(self) -> list[str]:
        """Return the covering subscription set, ids ascending, without contradictions."""
        return sorted((self._lowest(node.ids) for node in self._roots), key=self._key)

    def edges(self) -> list[tuple[str, str]]:
        """Return the direct covering pairs (a, b), ascending; a covers b and nothing lies between.

        The lowest of equal ids covers the others.
        The lowest contradiction lies below every subscription that covers no other and covers the other contradictions.
        """
        pairs = []
        bottom = self._lowest(self._contradictions) if self._contradictions else None
        for node in self._node_of_form.values():
            top = self._lowest(node.ids)
            pairs += [(top, name) for name in node.ids if name != top]
            pairs += [(top, self._lowest(child.ids)) for child in node.children]
            if bottom is not None and not node.children:
                pairs.append((top, bottom))
        if bottom is not None:
            pairs += [(bottom, name) for name in self._contradictions if name != bottom]
        return sorted(pairs, key=lambda pair: (self._key(pair[0]), self._key(pair[1])))

    def contradictions(self) -> list[str]:
        """Return the ids that match nothing, ascending."""
        return sorted(self._contradictions, key=self._key)

    @property
    def _key(self) -> ids.Key:
        return ids.by_code_point if self._words else ids.by_number

    def _lowest(self, names: Iterable[str]) -> str:
        return min(names, key=self._key)

    def _insert(self, node: PosetNode) -> None:
        above, below = self._index.above(node.form), self._index.below(node.form)
        node.parents = {one for one in above if above.isdisjoint(one.children)}
        node.children = {one for one in below if below.isdisjoint(one.parents)}
        for parent in node.parents:
            for child in parent.children & node.children:
                parent.children.remove(child)
                child.parents.remove(parent)
            parent.children.add(node)
        for child in node.children:
            child.parents.add(node)
        self._roots -= node.children
        if not node.parents:
            self._roots.add(node)
        self._index.add(node)

    def _delete(self, node: PosetNode) -> None:
        self._index.remove(node)
        self._roots.discard(node)
        for parent in node.parents:
            parent.children.remove(node)
        for child in node.children:
            child.parents.remove(node)
        for child in node.children:
            for parent in node.parents:
                if not any(form_covers(other.form, child.form) for other in parent.children):
                    parent.children.add(child)
                    child.parents.add(parent)
            if not child.parents:
                self._roots.add(child)


def css_of(subscriptions: Iterable[tuple[str, Subscription]]) -> list[str]:
    """Return only the covering subscription set, much faster than a poset because it needs no edges.

    Examples
    --------
    >>> from evenflow.subscriptions.language import parse_subscription
    >>> css_of([("1", parse_subscription("[volume,>,5]")), ("2", parse_subscription("[volume,>,9]"))])
    ['1']
    """
    nodes: dict[frozenset[tuple[str, Constraint]], PosetNode] = {}
    for name, subscription in subscriptions:
        if (form := normalize(subscription)) is not None:
            nodes.setdefault(frozenset(form.items()), PosetNode(form)).ids.add(name)
    index = FormIndex()  # the nodes that nothing covers so far
    for node in sorted(nodes.values(), key=lambda node: len(node.form)):
        if not index.above(node.form):
            for narrower in index.below(node.form):
                index.remove(narrower)
            index.add(node)
    key = ids.sort_key(name for node in nodes.values() for name in node.ids)
    return sorted((min(node.ids, key=key) for node in index.nodes()), key=key)


class FormIndex:
    """Finds the nodes above and below a form without testing all of them.

    A node that covers a form has a subset of its attributes, and where it requires a single value, the form requires the same.
    So the signatures of the nodes above consist of the form's *tokens*, and the nodes below have all tokens of its *signature*.
    """

    def __init__(self) -> None:
        self._shapes: dict[Shape, int] = {}  # with the number of nodes of that shape
        self._signatures: dict[frozenset[Token], set[PosetNode]] = {}
        self._holders: dict[Token, set[PosetNode]] = {}

    def add(self, node: PosetNode) -> None:
        """Add a node."""
        shape, signature = _shape(node.form), _signature(node.form)
        self._shapes[shape] = self._shapes.get(shape, 0) + 1
        self._signatures.setdefault(signature, set()).add(node)
        for token in _tokens(node.form):
            self._holders.setdefault(token, set()).add(node)

    def remove(self, node: PosetNode) -> None:
        """Remove a node."""
        shape, signature = _shape(node.form), _signature(node.form)
        self._shapes[shape] -= 1
        if not self._shapes[shape]:
            del self._shapes[shape]
        _drop(self._signatures, signature, node)
        for token in _tokens(node.form):
            _drop(self._holders, token, node)

    def nodes(self) -> Iterator[PosetNode]:
        """Return all nodes."""
        return chain.from_iterable(self._signatures.values())

    def above(self, form: Normal) -> set[PosetNode]:
        """Return the nodes that cover a form."""
        nodes: set[PosetNode] = set()
        for signature in self._signatures_within(form):
            nodes.update(node for node in self._signatures.get(signature, ()) if form_covers(node.form, form))
        return nodes

    def below(self, form: Normal) -> set[PosetNode]:
        """Return the nodes that a form covers."""
        held = sorted((self._holders.get(token, set()) for token in _signature(form)), key=len)
        return {node for node in set.intersection(*held) if form_covers(form, node.form)}

    def _signatures_within(self, form: Normal) -> Iterator[frozenset[Token]]:
        tokens = list(_tokens(form))
        if 2 ** len(tokens) <= len(self._shapes):
            for size in range(1, len(tokens) + 1):
                yield from map(frozenset, combinations(tokens, size))
            return
        values = {name: _point(constraint) for name, constraint in form.items()}
        for shape in self._shapes:
            if all(name in values and (not fixed or values[name] is not None) for name, fixed in shape):
                yield frozenset((name, values[name] if fixed else None) for name, fixed in shape)


def _point(constraint: Constraint) -> Value | None:
    """Return the single value that a constraint requires, if it does."""
    if isinstance(constraint, NumberConstraint):
        return constraint.low if constraint.low == constraint.high else None
    return constraint.equal if isinstance(constraint, StringConstraint) else None


def _shape(form: Normal) -> Shape:
    return frozenset((name, _point(constraint) is not None) for name, constraint in form.items())


def _signature(form: Normal) -> frozenset[Token]:
    return frozenset((name, _point(constraint)) for name, constraint in form.items())


def _tokens(form: Normal) -> set[Token]:
    """Return all tokens that a node above this form may have in its signature."""
    return {(name, None) for name in form} | _signature(form)


def _drop(groups: dict[_K, set[PosetNode]], key: _K, node: PosetNode) -> None:
    groups[key].remove(node)
    if not groups[key]:
        del groups[key]
