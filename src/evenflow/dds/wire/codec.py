"""Messages and saved values as JSON: only the types named here can come out, whatever comes in."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from evenflow.dds.wire.fields import (
    LEAST_CAPACITY,
    MOST_LOAD,
    NUMBERS,
    PUBLISHERS,
    MalformedError,
    distinct,
    flag,
    name,
    pairs,
    real,
    shown,
    text,
    whole,
)
from evenflow.slices.balancer import Drain, Pause
from evenflow.slices.handoff import State
from evenflow.slices.ledger import Ledger
from evenflow.slices.messages import Action, ActionKind, Confirm, Leave, Notification, Receipt, Refused, SliceState
from evenflow.slices.session import ACTIONS

DEEPEST = 100  # levels of a saved value; deeper ones would end a process where Python's own limit is
MOST_SLICES = (1 << 31) - 1


def encode(value: Any, depth: int = 0) -> Any:
    """Return plain JSON data for a saved value.

    Examples
    --------
    >>> decode(encode({1: ("node-1", (2, 3)), "s": State.OWNING}))
    {1: ('node-1', (2, 3)), 's': <State.OWNING: 'owning'>}
    """
    kind = type(value)
    if kind is float and not math.isfinite(value):
        return {"float": str(value)}  # JSON has no word for it
    if value is None or kind in (bool, int, float, str):
        return value
    if depth > DEEPEST:
        msg = f"a value of more than {DEEPEST} levels can neither be saved nor travel"
        raise TypeError(msg)
    if kind is list:
        return [encode(part, depth + 1) for part in value]
    if kind is tuple:
        return {"tuple": [encode(part, depth + 1) for part in value]}
    if kind is dict:
        return {"dict": [[encode(key, depth + 1), encode(part, depth + 1)] for key, part in value.items()]}
    if kind is State:
        return {"state": value.value}
    if kind is Ledger:
        return {"ledger": ledger_to_json(value)}
    if kind is bytes:
        return {"bytes": base64.b64encode(value).decode("ascii")}
    msg = f"a value of type {kind.__name__} is not plain data: it can neither be saved nor travel"
    raise TypeError(msg)


def decode(value: Any, depth: int = 0) -> Any:
    """Return what :func:`encode` was given.

    Raises
    ------
    MalformedError
        When it is nothing that :func:`encode` makes.
    """
    if isinstance(value, str):
        return text(value, MOST_SLICES)
    if not isinstance(value, (list, dict)):
        return value
    if depth > DEEPEST:
        raise MalformedError(f"a value of more than {DEEPEST} levels")
    if isinstance(value, list):
        return [decode(part, depth + 1) for part in value]
    if len(value) != 1:
        raise MalformedError("an object with other than one tag")
    ((tag, content),) = value.items()
    try:
        return _decoded(tag, content, depth + 1)
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedError(f"{shown(tag)}: {error}") from error


def _decoded(tag: str, content: Any, depth: int) -> Any:
    if tag == "tuple":
        return tuple(decode(part, depth) for part in content)
    if tag == "dict":
        return {decode(key, depth): decode(part, depth) for key, part in content}
    return _LEAVES[tag](content)


def loads(data: str | bytes) -> Any:
    """Read JSON that holds nothing but finite numbers.

    Raises
    ------
    MalformedError
        When it is malformed or nested too deeply.
    """
    try:
        return json.loads(data, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:  # text that is no UTF-8 is a ValueError too
        raise MalformedError(f"{shown(data)}: {error}") from error


def _no_number(word: str) -> Any:
    raise MalformedError(f"{word} is no number")


def ledger_to_json(ledger: Ledger) -> dict[str, Any]:
    """Return a ledger as plain data."""
    return {"marks": sorted(ledger.marks.items()), "done": sorted(ledger.done)}


def ledger_from_json(content: Any) -> Ledger:
    """Read a ledger.

    Raises
    ------
    MalformedError
        When it is none, or speaks of ids that no item has.
    """
    if not isinstance(content, Mapping) or set(content) != {"marks", "done"} or not isinstance(content["done"], list):
        raise MalformedError(f"{shown(content)} is no ledger")
    marks = pairs(content["marks"], partial(whole, high=PUBLISHERS - 1), partial(whole, high=NUMBERS))
    return Ledger(marks, [whole(item) for item in content["done"]])


_LEAVES: Mapping[str, Callable[[Any], Any]] = {
    "state": State,
    "float": lambda word: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[word],
    "ledger": ledger_from_json,
    "bytes": lambda word: base64.b64decode(word, validate=True),
}


# -- control messages ---------------------------------------------------------------------------


def _optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


_number = partial(whole, low=1)  # of a session or a step
_slice = partial(whole, high=MOST_SLICES - 1)
_load = partial(real, low=0.0, high=MOST_LOAD)

_FIELDS: Mapping[type, tuple[Callable[[Any], Any], ...]] = {
    Action: (
        _number,
        _number,
        lambda value: ActionKind(whole(value)),
        lambda value: distinct(value, _slice),
        _optional(lambda value: SliceState(whole(value))),
        _optional(name),
        whole,
    ),
    Confirm: (_number, _number, text, text),
    Receipt: (_number,),
    Notification: (
        name,
        partial(whole, low=1, high=MOST_SLICES),
        lambda value: pairs(value, name, partial(real, low=-MOST_LOAD, high=MOST_LOAD)),
        lambda value: pairs(value, _slice, _load),
        partial(real, low=LEAST_CAPACITY, high=MOST_LOAD),
        text,
    ),
    Leave: (),
    Refused: (text,),
    Drain: (name,),
    Pause: (flag,),
}
_KINDS: Mapping[str, Callable[..., Any]] = {kind.__name__: kind for kind in _FIELDS}
_OUTCOMES = ("done", "refused", "shipped")
_INSTRUCTIONS = {(order.step, order.kind, order.state) for order in ACTIONS.values()}
_OF_THE_TRACE = {"kind", "at", "node", "load"}  # a sample's own words on the trace: no property may bear their names


def message_to_json(message: Any) -> str:
    """Return the JSON text of a control message.

    Examples
    --------
    >>> message_to_json(Receipt(7))
    '["Receipt", 7]'
    """
    parts = [sorted(part.items()) if isinstance(part, Mapping) else part for part in message]
    return json.dumps([type(message).__name__, *parts], allow_nan=False)


def message_from_json(body: str) -> Any:
    """Read a control message; every field is checked.

    Raises
    ------
    MalformedError
        When the text is none.
    """
    try:
        word, *parts = loads(body)
        kind = _KINDS[word]
        readers = _FIELDS[kind]  # type: ignore[index]  # the kinds are the keys
        message = kind(*(read(part) for read, part in zip(readers, parts, strict=True)))
    except (ValueError, TypeError, KeyError) as error:
        raise MalformedError(f"{shown(body)}: {error}") from error
    if isinstance(message, Confirm) and message.outcome not in _OUTCOMES:
        raise MalformedError(f"an outcome {shown(message.outcome)}")
    if isinstance(message, Action):
        _check_action(message)
    if isinstance(message, Notification):
        _check_notification(message)
    return message


def _check_action(action: Action) -> None:
    """Refuse an action that no session has: its step says what it is."""
    if (action.step, action.kind, action.state) not in _INSTRUCTIONS:
        raise MalformedError(f"{action.kind.name} to {action.state} as step {action.step}")
    if (action.kind is ActionKind.SEND_CACHE_TO_NODE) != (action.taker is not None):
        raise MalformedError(f"{action.kind.name} with the taker {action.taker!r}")
    if action.over > action.session:
        raise MalformedError(f"session {action.session}, although all below {action.over} have ended")


def _check_notification(heard: Notification) -> None:
    beyond = [s for s in heard.slice_loads if s >= heard.slice_count]
    if beyond:
        raise MalformedError(f"the load of slice {beyond[0]} of {heard.slice_count}")
    if "cpu" not in heard.properties or _OF_THE_TRACE & set(heard.properties):
        raise MalformedError(f"the properties {sorted(heard.properties)[:10]}")
