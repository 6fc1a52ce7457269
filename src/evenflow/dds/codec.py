"""Messages and saved values as JSON: only the types named here can come out, whatever comes in."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

from evenflow.slices.balancer import Drain, Pause
from evenflow.slices.handoff import State
from evenflow.slices.ledger import Ledger
from evenflow.slices.messages import Action, ActionKind, Confirm, Leave, Notification, Receipt, Refused, SliceState


class MalformedError(ValueError):
    """What arrived is not a message of this protocol."""


def encode(value: Any) -> Any:
    """Return plain JSON data for a saved value.

    Examples
    --------
    >>> decode(encode({1: ("node-1", (2, 3)), "s": State.OWNING}))
    {1: ('node-1', (2, 3)), 's': <State.OWNING: 'owning'>}
    """
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [encode(part) for part in value]
    if kind is tuple:
        return {"tuple": [encode(part) for part in value]}
    if kind is dict:
        return {"dict": [[encode(key), encode(part)] for key, part in value.items()]}
    if kind is State:
        return {"state": value.value}
    if kind is Ledger:
        return {"ledger": ledger_to_json(value)}
    if kind is bytes:
        return {"bytes": base64.b64encode(value).decode("ascii")}
    msg = f"a value of type {kind.__name__} is not plain data: it can neither be saved nor travel"
    raise TypeError(msg)


def decode(value: Any) -> Any:
    """Return what :func:`encode` was given."""
    if isinstance(value, list):
        return [decode(part) for part in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise MalformedError("an object with other than one tag")
    ((tag, content),) = value.items()
    try:
        return _DECODERS[tag](content)
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedError(f"{tag!r}: {error}") from error


def ledger_to_json(ledger: Ledger) -> dict[str, Any]:
    """Return a ledger as plain data."""
    return {"marks": sorted(ledger.marks.items()), "done": sorted(ledger.done)}


def ledger_from_json(content: Mapping[str, Any]) -> Ledger:
    """Read a ledger."""
    return Ledger({_int(p): _int(m) for p, m in content["marks"]}, [_int(i) for i in content["done"]])


_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    "tuple": lambda parts: tuple(decode(part) for part in parts),
    "dict": lambda pairs: {decode(key): decode(part) for key, part in pairs},
    "state": State,
    "ledger": ledger_from_json,
    "bytes": lambda text: base64.b64decode(text, validate=True),
}


# -- control messages ---------------------------------------------------------------------------


def _int(value: Any) -> int:
    if type(value) is not int:
        raise MalformedError(f"{value!r} is no whole number")
    return value


def _str(value: Any) -> str:
    if type(value) is not str:
        raise MalformedError(f"{value!r} is no text")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise MalformedError(f"{value!r} is no number")
    return float(value)


def _bool(value: Any) -> bool:
    if type(value) is not bool:
        raise MalformedError(f"{value!r} is neither true nor false")
    return value


def _optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _ints(value: Any) -> tuple[int, ...]:
    return tuple(_int(part) for part in value)


def _properties(pairs: Any) -> dict[str, float]:
    return {_str(name): _number(value) for name, value in pairs}


def _loads(pairs: Any) -> dict[int, float]:
    return {_int(s): _number(load) for s, load in pairs}


_FIELDS: Mapping[type, tuple[Callable[[Any], Any], ...]] = {
    Action: (_int, _int, ActionKind, _ints, _optional(SliceState), _optional(_str), _int),
    Confirm: (_int, _int, _str, _str),
    Receipt: (_int,),
    Notification: (_str, _int, _properties, _loads, _number, _str),
    Leave: (),
    Refused: (_str,),
    Drain: (_str,),
    Pause: (_bool,),
}
_KINDS: Mapping[str, Callable[..., Any]] = {kind.__name__: kind for kind in _FIELDS}
_OUTCOMES = ("done", "refused", "shipped")


def message_to_json(message: Any) -> str:
    """Return the JSON text of a control message.

    Examples
    --------
    >>> message_to_json(Receipt(7))
    '["Receipt", 7]'
    """
    parts = [sorted(part.items()) if isinstance(part, Mapping) else part for part in message]
    return json.dumps([type(message).__name__, *parts], allow_nan=False)


def message_from_json(text: str) -> Any:
    """Read a control message; every field is checked.

    Raises
    ------
    MalformedError
        When the text is none.
    """
    try:
        name, *parts = json.loads(text)
        kind = _KINDS[name]
        readers = _FIELDS[kind]  # type: ignore[index]  # the kinds are the keys
        message = kind(*(read(part) for read, part in zip(readers, parts, strict=True)))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MalformedError(f"{text[:80]!r}: {error}") from error
    if isinstance(message, Confirm) and message.outcome not in _OUTCOMES:
        raise MalformedError(f"an outcome {message.outcome!r}")
    return message
