"""Settings are a frozen dataclass; words like ``nodes=8`` become its fields or are refused by name."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from evenflow.errors import BadInput, nearest

T = TypeVar("T")


def setting(default: Any, help: str = "", *, low: float | None = None, high: float | None = None) -> Any:  # noqa: A002 - typer's word
    """Declare one field of a settings class, with the range it may have.

    Examples
    --------
    >>> @dataclasses.dataclass(frozen=True)
    ... class Settings:
    ...     nodes: int = setting(8, "processing nodes at the start", low=1)
    >>> parse_settings(Settings, ["nodes=12"])
    Settings(nodes=12)
    """
    return dataclasses.field(default=default, metadata={"help": help, "low": low, "high": high})


def parse_settings(kind: type[T], words: Iterable[str], where: str = "--set") -> T:
    """Build ``kind`` from ``key=value`` words; what is not named keeps its default.

    Raises
    ------
    BadInput
        For an unknown key, a key given twice, a value of the wrong type or outside its range.
    """
    given: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise BadInput(repr(word), "key=value", where)
        if key in given:
            raise BadInput(f"'{key}' twice", "one value per key", where)
        given[key] = value
    return build_settings(kind, given, where)


def build_settings(kind: type[T], given: Mapping[str, str], where: str = "--set") -> T:
    """Build ``kind`` from texts by key, as :func:`parse_settings` does."""
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]  # T is a dataclass by contract
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for key, text in given.items():
        if key not in fields:
            raise BadInput(f"unknown key '{key}'", nearest(key, fields), where)
        place = f"{where} {key}"
        values[key] = parse_value(hints[key], text, place)
        _check_range(fields[key].metadata, values[key], place)
    return kind(**values)


def parse_value(kind: Any, text: str, where: str) -> Any:
    """Read one text as ``kind``: bool, int, float, str, a Literal, or one of these or None.

    Examples
    --------
    >>> parse_value(Literal["jump", "slow"], "slow", "--set drift")
    'slow'
    >>> parse_value(int | None, "none", "--set rounds") is None
    True
    """
    if get_origin(kind) in (types.UnionType, typing.Union):
        return _parse_optional(kind, text, where)
    if get_origin(kind) is Literal:
        return _parse_literal(kind, text, where)
    if kind is bool:
        return _parse_bool(text, where)
    if kind is int:
        return _parse_int(text, where)
    if kind is float:
        return _parse_float(text, where)
    if kind is str:
        return text
    raise TypeError(f"settings of type {kind!r} cannot be read from a text")


def describe_type(kind: Any) -> str:
    """Say in plain words what a setting of this type may be."""
    if get_origin(kind) in (types.UnionType, typing.Union):
        return " or ".join(describe_type(k) for k in get_args(kind))
    if get_origin(kind) is Literal:
        return "|".join(str(choice) for choice in get_args(kind))
    words = {bool: "true|false", int: "whole number", float: "number", str: "text", type(None): "none"}
    return words[kind]


@dataclasses.dataclass(frozen=True, slots=True)
class SettingHelp:
    """What a help page says about one setting."""

    name: str
    default: Any
    allowed: str
    help: str


def settings_help(kind: type[Any]) -> list[SettingHelp]:
    """Describe every setting of a settings class, in the order of its fields."""
    hints = get_type_hints(kind)
    return [
        SettingHelp(f.name, f.default, describe_type(hints[f.name]), f.metadata.get("help", ""))
        for f in dataclasses.fields(kind)
    ]


def _parse_optional(kind: Any, text: str, where: str) -> Any:
    inner = [k for k in get_args(kind) if k is not type(None)]
    if len(inner) != 1:
        raise TypeError(f"settings of type {kind!r} cannot be read from a text")
    return None if text.lower() == "none" else parse_value(inner[0], text, where)


def _parse_literal(kind: Any, text: str, where: str) -> Any:
    choices = {str(choice): choice for choice in get_args(kind)}
    if text not in choices:
        raise BadInput(repr(text), nearest(text, choices), where)
    return choices[text]


def _parse_bool(text: str, where: str) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.lower() not in words:
        raise BadInput(repr(text), "true or false", where)
    return words[text.lower()]


def _parse_int(text: str, where: str) -> int:
    try:
        if "_" not in text:  # Python's own 1_000 is no number elsewhere
            return int(text)
    except ValueError:
        pass
    raise BadInput(repr(text), "a whole number", where)


def _parse_float(text: str, where: str) -> float:
    try:
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadInput(repr(text), "a finite number", where)
    return value


def _check_range(metadata: Mapping[str, Any], value: Any, where: str) -> None:
    low, high = metadata.get("low"), metadata.get("high")
    if value is None or ((low is None or value >= low) and (high is None or value <= high)):
        return
    if low is not None and high is not None:
        raise BadInput(str(value), f"a value from {low} to {high}", where)
    raise BadInput(str(value), f"a value of at least {low}" if low is not None else f"a value of at most {high}", where)
