"""Whether the publishers of a topic write what a reader expects: without this a reader would wait in silence."""

from __future__ import annotations

import time
from typing import Any, get_type_hints

from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsPublication
from cyclonedds.core import DDSException
from cyclonedds.dynamic import get_types_for_typeid
from cyclonedds.util import duration

from evenflow.errors import BadInput

_LOOK_UP = duration(seconds=2)
_MATCHING_S = 1.0  # how long Cyclone may take to connect a publisher that it has heard of
_POLICIES = {2: "durability", 11: "reliability"}


class Publications:
    """Looks at every publisher of a topic once.

    Parameters
    ----------
    subscribed
        A reader of the topic: publishers that Cyclone connects with it are right, whatever they call their type.
    """

    def __init__(self, participant: Any, topic: str, kind: Any, subscribed: Any = None) -> None:
        self._subscribed = subscribed
        self._apart: list[tuple[float, Any]] = []
        self._participant = participant
        self._reader = BuiltinDataReader(participant, BuiltinTopicDcpsPublication)
        self._topic = topic
        self._kind = kind

    def check(self) -> None:
        """Refuse a publisher whose type is another.

        Raises
        ------
        BadInput
            Naming the first field that differs.
        """
        for found in self._reader.take(100):
            if getattr(found, "topic_name", None) == self._topic:
                if self._subscribed is None:
                    self._check(found)
                else:
                    self._apart.append((time.monotonic(), found))
        if self._subscribed is not None and self._apart:
            self._check_apart(time.monotonic())

    def check_quality(self) -> None:
        """Refuse a publisher that offers less than the reader asks for: Cyclone would keep the two apart in silence."""
        status = self._subscribed.get_requested_incompatible_qos_status()
        policy = _POLICIES.get(status.last_policy_id)
        if status.total_count and policy is not None:
            where = f"topic {self._topic!r}"
            raise BadInput(f"a publisher that offers less {policy}", f"the {policy} that the reader asks for", where)

    def _check_apart(self, now: float) -> None:
        known = map(self._subscribed.get_matched_publication_data, self._subscribed.get_matched_publications())
        connected = {found.key for found in known if found is not None}
        for _, found in (each for each in self._apart if each[0] < now - _MATCHING_S):
            if found.key not in connected:
                self._check(found)
        self._apart = [each for each in self._apart if each[0] >= now - _MATCHING_S]

    def _check(self, found: Any) -> None:
        name = self._kind.__idl__.idl_transformed_typename.replace("::", ".")
        theirs_name = found.type_name.replace("::", ".")
        where = f"topic {self._topic!r}"
        try:
            theirs, _ = get_types_for_typeid(self._participant, found.type_id, _LOOK_UP)
        except (DDSException, AttributeError, TypeError):
            if theirs_name == name:
                return  # nothing is known of it; Cyclone itself compares before it connects the two
            raise BadInput(f"a publisher of type {theirs_name}", name, where) from None
        difference = differing(fields_of(theirs), fields_of(self._kind))
        if difference is not None:
            field, given, allowed = difference
            raise BadInput(f"a publisher of type {theirs_name} whose field {field!r} is {given}", allowed, where)
        if theirs_name != name and self._subscribed is None:
            raise BadInput(f"a publisher of type {theirs_name}", name, where)


def fields_of(kind: Any) -> dict[str, str]:
    """Return the types of a struct's fields, as texts to compare."""
    return {name: _text(hint) for name, hint in get_type_hints(kind, include_extras=True).items() if name[:2] != "__"}


def differing(given: dict[str, str], allowed: dict[str, str]) -> tuple[str, str, str] | None:
    """Return the first field that differs, what it is and what it should be.

    Examples
    --------
    >>> differing({"a": "int64"}, {"a": "int64", "b": "str"})
    ('b', 'missing', 'str')
    """
    for name in [*allowed, *given]:
        one, other = given.get(name, "missing"), allowed.get(name, "missing")
        if one != other:
            return name, one, other
    return None


def _text(hint: Any) -> str:
    metadata = getattr(hint, "__metadata__", ())
    if metadata:
        part = metadata[0]
        inner = getattr(part, "subtype", None)
        return f"{type(part).__name__}[{_text(inner)}]" if inner is not None else str(part)
    return getattr(hint, "__name__", str(hint))
