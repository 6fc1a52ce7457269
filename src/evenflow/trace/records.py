"""The records of a trace: one typed dictionary per kind, each with what it says and which fields it must have.

Every record has ``kind`` and ``at``, virtual or wall seconds.
One word per matter in all of them: ``node``, ``unit`` (``slice`` for slices), ``giver``, ``taker``, ``session``,
``step``, ``why``. A record may carry further fields, and a trace further kinds: readers pass over what they do not know.
"""

# No postponed annotations here: they would hide from Python which fields are NotRequired.

from collections.abc import Mapping, Sequence
from types import MappingProxyType, UnionType
from typing import Any, NotRequired, TypedDict, get_origin, get_type_hints

import numpy as np

Id = int | str


class Record(TypedDict):
    """What every record has."""

    kind: str
    at: float


class Sample(Record):
    """A node was measured: its load over its capacity, and any further property beside it (cpu, memory …).

    ``parts`` has what it uses of each dimension over what it has of it, ``limit`` where a node counts as overloaded.
    """

    node: str
    load: NotRequired[float]
    parts: NotRequired[Mapping[str, float]]
    limit: NotRequired[float]


class NodeStep(Record):
    """A node ``joined``, is ``draining``, ``surplus``, was ``let go`` or has ``left``."""

    node: str
    step: str
    capacity: NotRequired[float]
    parent: NotRequired[str | None]  # of a tree, or the head that a cluster's head is linked to
    cluster: NotRequired[str]
    head: NotRequired[bool]  # it leads its cluster, and carries no units
    why: NotRequired[str]


class PlanMade(Record):
    """A policy's offers became a plan."""

    policy: NotRequired[str]
    moves: NotRequired[Sequence[Any] | int]


class Refusal(Record):
    """Something was not done: ``name`` is the guard's name, ``why`` a sentence or the name itself."""

    why: str
    name: NotRequired[str]
    node: NotRequired[str]
    unit: NotRequired[Id]
    giver: NotRequired[str]
    taker: NotRequired[str]


class MoveDone(Record):
    """A unit belongs to its taker from now on; without a giver, it is given out for the first time.

    Work that has no ids, such as triggers that wait, is said in words: ``what``.
    """

    unit: NotRequired[Id]
    what: NotRequired[str]
    giver: str | None
    taker: str
    why: NotRequired[str]
    expects: NotRequired[Mapping[str, float]]  # node to the load that its balancer expects afterwards


class SessionStep(Record):
    """A session enters a step; ``done`` and ``rolled back`` end it.

    The units are ``units`` or ``slices``, never none; where they are too many to be named, ``what`` says them in words.
    """

    session: Id
    step: str
    giver: str
    taker: str
    slices: NotRequired[Sequence[Id]]
    units: NotRequired[Sequence[Id]]
    what: NotRequired[str]
    why: NotRequired[str]
    owes: NotRequired[str]  # the step that a silent node is told later
    expects: NotRequired[Mapping[str, float]]  # node to the load that it is expected to have afterwards


class Told(Record):
    """A node that was silent has confirmed how a session ended."""

    session: Id
    node: str


class Effect(Record):
    """What a session did to a node, measured once its load had settled; without it, the next sample tells."""

    session: Id
    node: str
    load: float


class Applied(Record):
    """What an execution of a trigger wrote took effect; ``read`` is the version of its row that it had read."""

    node: str
    trigger: str
    read: int


class Owner(Record):
    """A node begins (``owns``) or ceases to process a unit, as the node itself says it."""

    node: str
    owns: bool
    slice: NotRequired[Id]
    unit: NotRequired[Id]
    session: NotRequired[Id | None]


class Publish(Record):
    """A publisher wrote an item."""

    id: Id
    slice: NotRequired[Id]


class Commit(Record):
    """A node made effects durable: slice to the ids of its items."""

    node: str
    slices: Mapping[Any, Sequence[Id]]


class Merge(Record):
    """A taker merged both caches of a slice."""

    node: str
    session: Id
    items: int


class Final(Record):
    """At the end of a run: the items whose effect is in a slice's state."""

    ids: Sequence[Id]
    stranded: NotRequired[bool]  # only a node that vanished for good has this state


class Waiting(Record):
    """At the end of a run: the items that are still kept, queued, cached or in flight at a place."""

    ids: Sequence[Id]
    node: NotRequired[str]


class Fault(Record):
    """Something was broken on purpose."""

    fault: str
    node: NotRequired[str]
    session: NotRequired[Id | None]
    step: NotRequired[str]


class Request(Record):
    """An operator asked for something."""

    what: str


class Remark(Record):
    """Anything else a reader of the run should know."""

    why: NotRequired[str]


RECORDS: Mapping[str, Any] = {
    "sample": Sample,
    "node": NodeStep,
    "plan": PlanMade,
    "refusal": Refusal,
    "move": MoveDone,
    "session": SessionStep,
    "told": Told,
    "effect": Effect,
    "applied": Applied,
    "owner": Owner,
    "publish": Publish,
    "commit": Commit,
    "merge": Merge,
    "final": Final,
    "waiting": Waiting,
    "fault": Fault,
    "request": Request,
    "note": Remark,
}
"""Every kind that has a meaning of its own."""

# A record is checked when it is written and when it is read: so beside what JSON has there is what becomes that in a file.
_PLAIN: Mapping[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a string"),
    bool: ((bool, np.bool_), "true or false"),
    int: ((int, np.integer), "an integer"),
    float: ((int, float, np.integer, np.floating), "a number"),
    type(None): ((type(None),), "null"),
    Sequence: ((list, tuple, set, frozenset, np.ndarray), "a list"),
    Mapping: ((dict, MappingProxyType), "an object"),
}


def _checks(record: Any) -> list[tuple[str, bool, tuple[type, ...], str]]:
    """Return name, whether it is required, types and their names for every field of a kind."""
    checks = []
    for name, hint in get_type_hints(record).items():
        choices = hint.__args__ if isinstance(hint, UnionType) else (hint,)
        found = [_PLAIN[get_origin(choice) or choice] for choice in choices]
        types = tuple(kind for kinds, _ in found for kind in kinds)
        checks.append((name, name in record.__required_keys__, types, " or ".join(words for _, words in found)))
    return checks


_CHECKS = {kind: _checks(record) for kind, record in RECORDS.items()}
_ANY_KIND = _checks(Record)
_EITHER = {"owner": ("unit", "slice"), "move": ("unit", "what"), "session": ("units", "slices", "what")}


def fault_in(record: Mapping[str, Any]) -> tuple[str, str] | None:
    """Say what is wrong with a record, as what was given and what is allowed; ``None`` when it is right.

    Examples
    --------
    >>> fault_in({"kind": "sample", "at": 1.5, "node": "a", "load": 0.7, "cpu": 70})
    >>> fault_in({"kind": "sample", "at": "now", "node": "a"})
    ("field 'at' = 'now'", 'a number')
    >>> fault_in({"kind": "move", "at": 2, "giver": "a", "taker": "b"})
    ("a record of kind 'move' without its units", "'unit' or 'what'")
    """
    kind = record.get("kind")
    for name, required, types, words in _CHECKS.get(kind, _ANY_KIND) if isinstance(kind, str) else _ANY_KIND:
        if name not in record:
            if required:
                of_kind = f" of kind {kind!r}" if isinstance(kind, str) else ""
                return f"a record{of_kind} without {name!r}", f"{name!r} with {words}"
            continue
        value = record[name]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            return f"field {name!r} = {str(value)[:40]!r}", words
    either = _EITHER.get(kind, ()) if isinstance(kind, str) else ()
    if either and not any(name in record and _says(record[name]) for name in either):
        return f"a record of kind {kind!r} without its units", " or ".join(repr(name) for name in either)
    return None


def _says(value: Any) -> bool:
    """Say whether a field names something: an empty list of units names none."""
    return not hasattr(value, "__len__") or len(value) > 0
