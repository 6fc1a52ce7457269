"""Every distinct subscription of a federation by number, and which of them cover which."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from evenflow.subscriptions.language import Publication, Subscription, matches
from evenflow.subscriptions.normal import Constraint, Normal, forms_intersect, normalize
from evenflow.subscriptions.poset import FormIndex, PosetNode

Form = frozenset[tuple[str, Constraint]]


class Catalogue:
    """Numbers subscriptions of equal meaning alike, and remembers how they relate.

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
        """Give the number of a subscription; equal ones share it."""
        form = normalize(subscription)
        name = None if form is None else frozenset(form.items())
        found = self._keys.get(name)
        if found is None:
            found = self._keys[name] = len(self._forms)
            self._forms.append(form)
            self._texts.append(subscription)
            self._relate(found, form)
        return found

    def subscription(self, key: int) -> Subscription:
        """Give a subscription of this number."""
        return self._texts[key]

    def above(self, key: int) -> AbstractSet[int]:
        """Give the numbers of the other subscriptions that cover this one."""
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

    def matching(self, publication: Publication) -> list[int]:
        """Find the subscriptions that a publication matches, one by one; for the few publications that control."""
        return [key for key, one in enumerate(self._texts) if matches(one, publication)]

    def _relate(self, key: int, form: Normal | None) -> None:
        """Find what covers a new subscription and what it covers; a contradiction stays alone."""
        self._above.append(set())
        if form is None:
            return
        node = PosetNode(form)
        self._above[key].update(self._nodes[wide] for wide in self._index.above(form))
        for narrow in self._index.below(form):
            self._above[self._nodes[narrow]].add(key)
        self._index.add(node)
        self._nodes[node] = key
