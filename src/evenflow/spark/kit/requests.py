"""Requests to a running query: one function checks them, both when they are made and when they are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from evenflow.errors import BadInput, nearest

FOLDER: Final = "requests"
REFUSED: Final = "requests/refused"  # rejected requests, each with its reason
MOST_BYTES: Final = 16 << 20
MOST_TEXT: Final = 1000  # characters in a reason or a name

WHERE: Final = "request"
MOVE: Final = "move"


@dataclass(frozen=True, slots=True)
class Askable:
    """The limits that requests are checked against, as far as the caller knows them.

    Parameters
    ----------
    slices, lanes
        Number of slices and lanes; ``None`` for any number.
    policies
        Policies that the query may be switched to; ``None`` for any.
    resting
        Lanes that are out of use.
    """

    slices: int | None = None
    lanes: int | None = None
    policies: Collection[str] | None = None
    resting: Collection[int] = ()


def parsed(content: bytes, askable: Askable) -> dict[str, Any]:
    """Parse and check the content of a request file; return the request.

    Raises
    ------
    BadInput
        When the content is not a request that can be carried out.
    """
    try:
        request = json.loads(content.decode())
    except UnicodeDecodeError as error:
        raise BadInput(f"bytes that are not UTF-8 ({error.reason})", "a JSON object", WHERE) from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{_short(content.decode())} ({error})", "a JSON object", WHERE) from None
    return checked(request, askable)


def checked(request: Any, askable: Askable) -> dict[str, Any]:
    """Check a request; return it if it can be carried out.

    Raises
    ------
    BadInput
        For an unknown kind or field, a value of the wrong type, or a slice, lane or policy that does not exist.

    Examples
    --------
    >>> checked({"what": "pin", "value": [3, 1]}, Askable(slices=8, lanes=2))
    {'what': 'pin', 'value': [3, 1]}
    >>> checked({"what": "pin", "value": [5000, 1]}, Askable(slices=8, lanes=2))
    Traceback (most recent call last):
    evenflow.errors.BadInput: request 'pin', slice: given 5000, allowed is 0 to 7.
    """
    if not isinstance(request, dict):
        raise BadInput(_short(request), "a JSON object", WHERE)
    what = request.get("what")
    if not isinstance(what, str) or what not in _CHECKS:
        raise BadInput(f"what = {_short(what)}", nearest(str(what)[:MOST_TEXT], _CHECKS), WHERE)
    where = f"{WHERE} '{what}'"
    value = "moves" if what == MOVE else "value"
    if value not in request:
        raise BadInput("nothing", f"a field '{value}'", where)
    for name in request:
        if name not in ("what", value, "by"):
            raise BadInput(f"the field {_short(name)}", f"'what', '{value}' and 'by'", where)
    _text(request.get("by", ""), f"{where}, by")
    _CHECKS[what](request[value], askable, where)
    return request


def fault_of(name: str, value: Any, slices: int, lanes: int) -> str | None:
    """Return why a log entry is not a valid setting for this number of slices and lanes, or ``None`` if it is."""
    if name == MOVE:
        return f"'{MOVE}' is not a setting"
    try:
        checked({"what": name, "value": value}, Askable(slices, lanes))
    except BadInput as error:
        return str(error)
    return None


def _number(value: Any, count: int | None, where: str) -> None:
    if type(value) is not int or value < 0 or (count is not None and value >= count):  # a bool is not a number
        raise BadInput(_short(value), "a whole number" if count is None else f"0 to {count - 1}", where)


def _text(value: Any, where: str) -> None:
    if not isinstance(value, str) or len(value) > MOST_TEXT:
        raise BadInput(_short(value), f"a text of at most {MOST_TEXT} characters", where)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadInput(_short(value), "a text that can be written as UTF-8", where) from None


def _listed(value: Any, length: int | None, words: str, where: str) -> None:
    if not isinstance(value, list) or (length is not None and len(value) != length):
        raise BadInput(_short(value), words, where)


def _moves(value: Any, askable: Askable, where: str) -> None:
    _listed(value, None, "a list of [slice, lane, why]", where)
    for move in value:
        _listed(move, 3, "[slice, lane, why]", where)
        _pin(move[:2], askable, where)
        _text(move[2], f"{where}, why")


def _lanes(value: Any, askable: Askable, where: str) -> None:
    _listed(value, None, "a list of lanes", where)
    for lane in value:
        _number(lane, askable.lanes, f"{where}, lane")


def _rest(value: Any, askable: Askable, where: str) -> None:
    _lanes(value, askable, where)
    if value and askable.lanes is not None and {*askable.resting, *value} >= set(range(askable.lanes)):
        raise BadInput(f"{_short(value)}, which leaves no lane in use", "some of several lanes", where)


def _pin(value: Any, askable: Askable, where: str) -> None:
    _listed(value, 2, "[slice, lane]", where)
    _number(value[0], askable.slices, f"{where}, slice")
    _number(value[1], askable.lanes, f"{where}, lane")


def _unpin(value: Any, askable: Askable, where: str) -> None:
    _number(value, askable.slices, f"{where}, slice")


def _policy(value: Any, askable: Askable, where: str) -> None:
    _text(value, where)
    if askable.policies is not None and value not in askable.policies:
        allowed = f"{nearest(value, askable.policies)}; a policy of your own is named in Balancing(policies=…)"
        raise BadInput(_short(value), allowed, where)


def _paused(value: Any, _: Askable, where: str) -> None:
    if not isinstance(value, bool):
        raise BadInput(_short(value), "true or false", where)


def _short(value: Any) -> str:
    """Return a value as readable text of at most 80 characters."""
    try:
        text = ascii(value)  # a text may hold characters that a terminal cannot show
    except (ValueError, RecursionError):  # an integer of thousands of digits, or deeply nested lists
        return f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:79]}…"


_CHECKS: Mapping[str, Callable[[Any, Askable, str], None]] = {
    MOVE: _moves,
    "rest": _rest,
    "use": _lanes,
    "pin": _pin,
    "unpin": _unpin,
    "policy": _policy,
    "paused": _paused,
}
