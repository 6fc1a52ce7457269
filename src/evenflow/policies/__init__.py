"""Policies of the planner, which `evenflow plan` and the slice balancers use; a policy sees only units and nodes."""

from __future__ import annotations

import dataclasses
from importlib import import_module
from typing import Any

from evenflow.errors import BadInput, nearest
from evenflow.planner import Policy
from evenflow.policies.even_counts import EvenCounts
from evenflow.policies.least_moves import LeastMoves
from evenflow.policies.load_classes import LoadClasses

__all__ = ["NAMES", "EvenCounts", "LeastMoves", "LoadClasses", "named"]

NAMES: dict[str, type[Policy]] = {
    "even_counts": EvenCounts,
    "least_moves": LeastMoves,
    "load_classes": LoadClasses,
}


def named(name: str, /, **settings: Any) -> Policy:
    """Return the policy of that name, or of a user's class given as ``module:Class``.

    Examples
    --------
    >>> named("load_classes", overloaded=1.1)
    LoadClasses(overloaded=1.1, underloaded=0.8)
    """
    kind = kind_of(name)
    known = settings_of(kind)
    for key in settings:
        if known is not None and key not in known:
            allowed = nearest(key, known) if known else "no setting"
            raise BadInput(f"the setting {key!r} of policy {name!r}", allowed, "policy settings")
    try:
        policy: Policy = kind(**settings)
    except (TypeError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{settings!r} ({error})", f"what {name!r} takes", "policy settings") from error
    return policy


def kind_of(name: str) -> type[Policy]:
    """Return the class of the policy with this name."""
    if ":" not in name:
        if name not in NAMES:
            raise BadInput(repr(name), f"{nearest(name, NAMES)} or module:Class of your own", "policy")
        return NAMES[name]
    module, _, attribute = name.partition(":")
    try:
        kind = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, TypeError, ValueError) as error:  # TypeError: a module that starts with a dot
        raise BadInput(f"{name!r} ({error})", "module:Class of a class that can be imported", "policy") from error
    if not callable(getattr(kind, "propose", None)):
        raise BadInput(repr(name), "a class with a method propose(draft)", "policy")
    policy: type[Policy] = kind
    return policy


def settings_of(kind: type[Any]) -> frozenset[str] | None:
    """Return the names of a policy's settings; ``None`` if the class is not a dataclass."""
    return frozenset(f.name for f in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None
