"""Numbers for all distinct subscriptions, and which subscriptions cover which."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from evenflow.subscriptions.language import Subscription
from evenflow.subscriptions.normal import Constraint, Normal, forms_intersect, normalize
from evenflow.subscriptions.poset import FormIndex, PosetNode

Form = frozenset[tuple[str, Constraint]]


class Catalogue:
    """Gives subscriptions of equal meaning the same number, and knows which covers which.

    A subscription covers another one if it matches every publication that the other one matches.

    Examples
    --------
    >>> from evenflow.subscriptions.language import parse_subscription
    >>> catalogue = Catalogue()
    >>> wide, narrow = (catalogue.key(parse_subscription(t)) for t in ("[x,>,1]", "[x,>,5]"))
    >>> catalogue.above(narrow) == {wide}
    True
    """

    def __init__(self) -> None:
        self._keys: dict[Form | None, int] = {}
        self._forms: list[Normal | None] = []
        self._texts: list[Subscription] = []
        self._above: list[set[int]] = []
        self._index = FormIndex()
        self._nodes: dict[PosetNode, int] = {}
        self._meets: dict[tuple[int, int], bool] = {}

    def __len__(self) -> int:
        return len(self._forms)

    def key(self, subscription: Subscription) -> int:
        """Return the number of a subscription; subscriptions of equal meaning share one."""
        form = normalize(subscription)
        name = None if form is None else frozenset(form.items())
        key = self._keys.get(name)
        if key is None:
            key = self._keys[name] = len(self._forms)
            self._forms.append(form)
            self._texts.append(subscription)
            self._relate(key, form)
        return key

    def subscription(self, key: int) -> Subscription:
        """Return a subscription with this number."""
        return self._texts[key]

    def above(self, key: int) -> AbstractSet[int]:
        """Return the numbers of the other subscriptions that cover this one."""
        return self._above[key]

    def covers_any(self, keys: set[int] | frozenset[int] | dict[int, int], key: int) -> bool:
        """Tell whether one of ``keys`` is this subscription or covers it."""
        return key in keys or any(wide in keys for wide in self._above[key])

    def meets(self, key: int, advertisement: int) -> bool:
        """Tell whether some publication matches both a subscription and an advertisement."""
        pair = (key, advertisement)
        known = self._meets.get(pair)
        if known is None:
            known = self._meets[pair] = forms_intersect(self._forms[key], self._forms[advertisement])
        return known

    def _relate(self, key: int, form: Normal | None) -> None:
        """Relate a new subscription to the known ones; one that can match nothing (no form) relates to none."""
        self._above.append(set())
        if form is None:
            return
        node = PosetNode(form)
        self._above[key].update(self._nodes[wide] for wide in self._index.above(form))
        for narrow in self._index.below(form):
            self._above[self._nodes[narrow]].add(key)
        self._index.add(node)
        self._nodes[node] = key
