"""A user's listener, found by name: which topic it reads, of which type, and what it publishes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from evenflow.dds.wire.idl import item_type
from evenflow.errors import BadInput
from evenflow.slices.topics import Topic


@dataclasses.dataclass(frozen=True, slots=True)
class Application:
    """One listener and its topics.

    The class that ``--app module:Class`` names has ``on_data(item, state)`` and ``on_correlating_data(item)``,
    the attributes ``topic`` (a name) and ``type`` (a dataclass), and if it likes
    ``balance`` (false: every node sees every item), ``filter`` and ``parameters`` (a condition over the value's fields),
    and ``results`` (a dataclass per topic that it publishes to with ``self.publish(topic, value)``).
    """

    topic: Topic
    kind: type
    results: Mapping[str, type]
    listener: Any


def load(name: str, where: str = "--app") -> Application:
    """Find, make and check a listener.

    Raises
    ------
    BadInput
        When it cannot be imported or lacks something.
    """
    module, _, attribute = name.partition(":")
    try:
        listener = getattr(import_module(module), attribute)()
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise BadInput(f"{name!r} ({error})", "module:Class of a class that needs no arguments", where) from error
    for method in ("on_data", "on_correlating_data"):
        if not callable(getattr(listener, method, None)):
            raise BadInput(f"{name!r} without {method}", "a class with on_data and on_correlating_data", where)
    topic = getattr(listener, "topic", None)
    if not isinstance(topic, str) or not topic:
        raise BadInput(f"{name!r} with the topic {topic!r}", "a class whose attribute topic is a name", where)
    kind: Any = getattr(listener, "type", None)
    results = dict(getattr(listener, "results", {}))
    for each in (kind, *results.values()):
        item_type(each)  # refuses what cannot travel
    balance = bool(getattr(listener, "balance", True))
    expression = getattr(listener, "filter", None)
    if expression is None:
        return Application(Topic(topic, listener, balance), kind, results, listener)
    parameters = tuple(getattr(listener, "parameters", ()))
    return Application(
        Topic.filtered(topic, listener, expression, parameters, balance=balance), kind, results, listener
    )
