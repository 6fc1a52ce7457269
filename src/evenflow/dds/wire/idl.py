"""The types of the topics; an item's type is the user's dataclass behind the four fields that DPSLB needs.

Annotations are values here, not texts: Cyclone looks at them.
"""

import dataclasses
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from cyclonedds.idl import IdlStruct, make_idl_struct
from cyclonedds.idl.annotations import key
from cyclonedds.idl.types import byte, float64, int32, int64, sequence, uint8

from evenflow.errors import BadInput

ENVELOPE: dict[str, Any] = {"item_id": int64, "settled": int64, "slice": int32, "cost": float64}
SLICE_OFFSET = 20  # of ``slice`` in a serialised item: 4 octets of header, two 64-bit integers
_SEQUENCE: Any = sequence
_PLAIN: dict[Any, Any] = {int: int64, float: float64, str: str, bool: bool, bytes: _SEQUENCE[uint8]}


@dataclass
class Control(IdlStruct, typename="evenflow.Control"):
    """One message between a node and the balancer, or between two nodes; ``body`` is JSON."""

    to: str
    sender: str
    body: str


@dataclass
class Acks(IdlStruct, typename="evenflow.Acks"):
    """Items that a node has committed, for their publishers."""

    sender: str
    items: sequence[int64]  # type: ignore[type-arg]  # generic at run time alone


@dataclass
class CacheTopic(IdlStruct, typename="CacheTopic"):
    """The cache of one slice on its way from giver to taker: the type of Figure 21, its name, key and fields.

    IDL's ``octet`` is ``byte`` here; Cyclone does not connect it with a sequence of ``uint8``.
    What the thesis leaves out (the session, the slice's state, its ledger) travels in the metadata of the Arrow schema,
    so that the type stays the published one.
    """

    sliceId: int32  # noqa: N815 - the published name
    key("sliceId")
    leastSignificantBitsSenderId: int64  # noqa: N815
    mostSignificantBitsSenderId: int64  # noqa: N815
    leastSignificantBitsReceiverId: int64  # noqa: N815
    mostSignificantBitsReceiverId: int64  # noqa: N815
    dataItemCollection: sequence[byte]  # type: ignore[type-arg]  # noqa: N815


@cache
def item_type(kind: Any) -> Any:
    """Return the topic type of items whose values are of the dataclass ``kind``.

    Raises
    ------
    BadInput
        When ``kind`` is no dataclass, or a field has a name or a type that cannot travel.
    """
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise BadInput(repr(kind), "a dataclass", "type of a topic")
    fields = dict(ENVELOPE)
    for name, hint in _hints(kind).items():
        if name in ENVELOPE:
            raise BadInput(f"a field {name!r}", f"other names than {', '.join(ENVELOPE)}", kind.__name__)
        fields[name] = _idl(hint, f"{kind.__name__}.{name}")
    return make_idl_struct(f"{kind.__name__}Item", f"evenflow.item.{kind.__name__}", fields)


@cache
def value_names(kind: type) -> tuple[str, ...]:
    """Return the names of a value's fields."""
    return tuple(field.name for field in dataclasses.fields(kind))


def _hints(kind: type) -> dict[str, Any]:
    try:
        hints = get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise BadInput(str(error), "types that can be found", kind.__name__) from error
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _idl(hint: Any, where: str) -> Any:
    """Return the IDL type of a Python type; what is an IDL type already stays."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, IdlStruct):
        return hint
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        inner = {name: _idl(part, f"{where}.{name}") for name, part in _hints(hint).items()}
        return make_idl_struct(hint.__name__, f"evenflow.value.{hint.__name__}", inner)
    if get_origin(hint) is list:
        return _SEQUENCE[_idl(get_args(hint)[0], f"{where}[]")]
    if hasattr(hint, "__metadata__") or getattr(hint, "__module__", "").startswith("cyclonedds.idl"):
        return hint  # int32, float32, array[…] and the like
    raise BadInput(f"the type {hint!r}", "int, float, bool, str, bytes, list, a dataclass or a type of IDL", where)
