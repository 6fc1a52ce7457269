"""Between the types of IDL and those of Arrow: a topic's type says what columns its samples have, and the other way round.

Unsigned numbers become the next larger signed ones, because Spark has no others; ``uint64`` becomes a decimal.
"""

from __future__ import annotations

import dataclasses
import re
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa
from cyclonedds.idl import IdlStruct, IdlUnion, make_idl_struct, types

from evenflow.dds.wire.idl import ENVELOPE, item_type
from evenflow.errors import BadInput, nearest

WIDE = pa.decimal128(20, 0)  # what holds every uint64
_SEQUENCE: Any = types.sequence
_NUMBERS: dict[str, Any] = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "byte": pa.int16(),
    "uint8": pa.int16(),
    "uint16": pa.int32(),
    "uint32": pa.int64(),
    "uint64": WIDE,
    "float32": pa.float32(),
    "float64": pa.float64(),
    "wchar": pa.int16(),
    "char": pa.string(),
}
_PLAIN: dict[Any, Any] = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
_BACK: dict[Any, Any] = {
    pa.int8(): types.int8,
    pa.int16(): types.int16,
    pa.int32(): types.int32,
    pa.int64(): types.int64,
    pa.float32(): types.float32,
    pa.float64(): types.float64,
    pa.bool_(): bool,
    pa.string(): str,
    pa.binary(): _SEQUENCE[types.uint8],
    WIDE: types.uint64,
}
_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def is_name(text: str) -> bool:
    """Say whether a text has the form ``module:Class``.

    Examples
    --------
    >>> is_name("shop.types:Order"), is_name("id bigint, place struct<room:string>")
    (True, False)
    """
    return _NAME.fullmatch(text.strip()) is not None


def load_type(name: str, where: str = "type") -> Any:
    """Find a topic's type: a class of IDL is the type itself, another dataclass gets the fields of an item before its own.

    Raises
    ------
    BadInput
        When it cannot be imported, is no dataclass, or has a field that cannot travel.
    """
    module_name, _, attribute = name.strip().partition(":")
    try:
        module = import_module(module_name)
    except (ImportError, ValueError, TypeError) as error:
        raise BadInput(f"{name!r} ({error})", "module:Class of a module that can be imported", where) from error
    kind: Any = getattr(module, attribute, None)
    if kind is None:
        classes = [n for n, value in vars(module).items() if dataclasses.is_dataclass(value)]
        raise BadInput(f"{name!r}, which {module_name} does not have", nearest(attribute, classes), where)
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise BadInput(f"{name!r}, which is no dataclass", "a dataclass, or a struct of IDL", where)
    struct = kind if issubclass(kind, IdlStruct) else item_type(kind)
    schema_of(struct)
    return struct


def is_item(struct: Any) -> bool:
    """Say whether the samples of a type begin with the four fields of an item."""
    hints = list(hints_of(struct).items())[: len(ENVELOPE)]
    return hints == list(ENVELOPE.items())


@cache
def hints_of(struct: Any) -> dict[str, Any]:
    """Return the types of a struct's fields, in order."""
    try:
        hints = get_type_hints(struct, include_extras=True)
    except NameError as error:
        raise BadInput(str(error), "types that can be found", struct.__name__) from error
    return {field.name: hints[field.name] for field in dataclasses.fields(struct)}


@cache
def schema_of(struct: Any) -> Any:
    """Return the Arrow schema of a type's samples.

    Raises
    ------
    BadInput
        Naming the field whose type has no column.
    """
    return pa.schema([(name, arrow_of(hint, f"{struct.__name__}.{name}")) for name, hint in hints_of(struct).items()])


def arrow_of(hint: Any, where: str) -> Any:
    """Return the Arrow type of a field."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    hint, optional = stripped(hint)
    if optional:
        return arrow_of(hint, where)
    if isinstance(hint, type):
        if issubclass(hint, Enum):
            return pa.string()
        if issubclass(hint, IdlStruct):
            return pa.struct([(name, arrow_of(part, f"{where}.{name}")) for name, part in hints_of(hint).items()])
        if issubclass(hint, IdlUnion):
            raise BadInput("a union", "struct, sequence, array, string, enum, bool or a number", where)
    part = part_of(hint)
    if isinstance(part, str) and part in _NUMBERS:
        return _NUMBERS[part]
    if isinstance(part, types.bounded_str):
        return pa.string()
    if isinstance(part, (types.sequence, types.array)):
        if is_octet(part.subtype):
            return pa.binary()
        return pa.list_(pa.field("element", arrow_of(part.subtype, f"{where}[]")))
    raise BadInput(f"the type {hint!r}", "struct, sequence, array, string, enum, bool or a number", where)


def part_of(hint: Any) -> Any:
    """Return what IDL wrote into an annotation: the name of a number, a sequence, an array, a bound."""
    if isinstance(hint, (str, types.sequence, types.array, types.bounded_str, types.typedef)):
        return hint  # Cyclone takes the annotation off an element once it has used the type
    return getattr(hint, "__metadata__", (None,))[0]


def is_octet(hint: Any) -> bool:
    """Say whether a sequence of these is plain bytes."""
    return part_of(hint) in ("uint8", "byte")


def stripped(hint: Any) -> tuple[Any, bool]:
    """Take typedefs and ``Optional`` off; say whether the latter was there."""
    while True:
        part = part_of(hint)
        if isinstance(part, types.typedef):
            hint = part.subtype
        elif get_origin(hint) is not None and type(None) in get_args(hint):
            (hint,) = (a for a in get_args(hint) if a is not type(None))
            return hint, True
        else:
            return hint, False


def struct_of(schema: Any, name: str, where: str = "type") -> Any:
    """Return the type of IDL for an Arrow schema; Cyclone compares fields, not the names of types.

    Examples
    --------
    >>> struct = struct_of(pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))]), "Order")
    >>> schema_of(struct).names
    ['id', 'tags']
    """
    fields = {
        field.name: _idl_of(field.type, f"{name}_{field.name}", f"{where}, field {field.name!r}") for field in schema
    }
    if not fields:
        raise BadInput("no fields", "at least one field", where)
    return make_idl_struct(name, name, fields)


def _idl_of(kind: Any, name: str, where: str) -> Any:
    if kind in _BACK:
        return _BACK[kind]
    if pa.types.is_list(kind):
        return _SEQUENCE[_idl_of(kind.value_type, name, f"{where}[]")]
    if pa.types.is_struct(kind):
        return struct_of(pa.schema(list(kind)), name, where)
    allowed = "tinyint, smallint, int, bigint, float, double, boolean, string, binary, decimal(20,0), array or struct"
    raise BadInput(f"the type {kind}", allowed, where)
