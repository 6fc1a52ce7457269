"""An item's value: plain data on this side, fields of IDL on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from cyclonedds.idl import IdlStruct, types

from evenflow.dds.wire.columns import hints_of, part_of, stripped
from evenflow.dds.wire.fields import MalformedError, envelope, flag, shown, text, whole
from evenflow.dds.wire.idl import ENVELOPE, item_type, value_names
from evenflow.slices.messages import Item

_LONGEST = 1 << 31  # of a text or a sequence
_RANGES = {f"int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)}
_RANGES |= {f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)}
_RANGES |= {"byte": _RANGES["uint8"], "wchar": _RANGES["int16"]}


def to_sample(item: Item, kind: type) -> Any:
    """Return the sample of an item; its value is a mapping or an object of ``kind``."""
    value = item.value
    names = value_names(kind)
    fields = [value[n] for n in names] if isinstance(value, Mapping) else [getattr(value, n) for n in names]
    return item_type(kind)(item.id, item.settled, item.slice, item.cost, *fields)


def to_item(sample: Any, topic: str, kind: type, slices: int | None = None) -> Item:
    """Return the item of a sample; its value is a mapping of plain data.

    Raises
    ------
    MalformedError
        When its id, slice or cost cannot be; ``slices`` is how many slices there are, if that is known.
    """
    envelope(sample.item_id, sample.settled, sample.slice, sample.cost, slices)
    value = {name: plain(getattr(sample, name)) for name in value_names(kind)}
    return Item(sample.item_id, sample.slice, topic, sample.settled, sample.cost, value)


def plain(value: Any) -> Any:
    """Return the plain data of a field: mappings for structs, names for enums."""
    if isinstance(value, IdlStruct):
        return {name: plain(getattr(value, name)) for name in hints_of(type(value))}
    if isinstance(value, Enum):
        return value.name
    return [plain(part) for part in value] if isinstance(value, list) else value


def check_value(value: Any, kind: type) -> None:
    """Check that plain data is the value of an item of ``kind``, as :func:`to_item` makes it.

    Raises
    ------
    MalformedError
        Naming the field.
    """
    hints = {name: hint for name, hint in hints_of(item_type(kind)).items() if name not in ENVELOPE}
    _check_struct(value, hints, kind.__name__)


def _check_struct(value: Any, hints: Mapping[str, Any], where: str) -> None:
    if not isinstance(value, dict) or set(value) != set(hints):
        raise MalformedError(f"{where}: {shown(value)} has other fields than {', '.join(hints)}")
    for name, hint in hints.items():
        _check(value[name], hint, f"{where}.{name}")


def _check(value: Any, given: Any, where: str) -> None:
    hint, optional = stripped(given)
    if optional and value is None:
        return
    part = part_of(hint)
    try:
        if isinstance(hint, type) and issubclass(hint, IdlStruct):
            _check_struct(value, hints_of(hint), where)
        elif isinstance(hint, type) and issubclass(hint, Enum):
            _check_enum(value, hint)
        elif isinstance(part, (types.sequence, types.array)):
            _check_elements(value, part, where)
        else:
            _check_leaf(value, hint, part)
    except (MalformedError, TypeError) as error:
        raise MalformedError(str(error) if str(error).startswith(where) else f"{where}: {error}") from error


def _check_enum(value: Any, hint: type[Enum]) -> None:
    if value not in hint.__members__:
        raise MalformedError(f"{shown(value)} is none of {', '.join(hint.__members__)}")


def _check_elements(value: Any, part: Any, where: str) -> None:
    if not isinstance(value, list) or (isinstance(part, types.array) and len(value) != part.length):
        raise MalformedError(f"{shown(value)} is no list of the right length")
    for each in value:
        _check(each, part.subtype, f"{where}[]")


def _check_leaf(value: Any, hint: Any, part: Any) -> None:
    if hint is bool:
        flag(value)
    elif part in _RANGES or hint is int:
        whole(value, *_RANGES[part if part in _RANGES else "int64"])
    elif part in ("float32", "float64") or hint is float:
        if type(value) is not float:
            raise MalformedError(f"{shown(value)} is no number")  # NaN and infinity are numbers of IDL
    else:
        bound = getattr(part, "max_length", _LONGEST)
        text(value, 1 if part == "char" else bound)
