"""A cargo on the cache topic: one sample per slice, put together again where it arrives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import pyarrow as pa

from evenflow.dds.wire.codec import decode, encode, ledger_from_json, ledger_to_json, loads
from evenflow.dds.wire.fields import MalformedError, distinct, envelope, name, text, whole
from evenflow.dds.wire.idl import CacheTopic
from evenflow.slices.ledger import Ledger
from evenflow.slices.messages import Cargo, Item, Parcel

_SIGN = 1 << 63
_ALL = (1 << 64) - 1
_META = b"evenflow"
_SCHEMA = [
    ("id", pa.int64()),
    ("slice", pa.int32()),
    ("topic", pa.string()),
    ("settled", pa.int64()),
    ("cost", pa.float64()),
    ("value", pa.string()),
]
MOST_UNFINISHED = 64  # cargoes of which parts are missing; more are of no session that lives


def uuid_of(name: str) -> UUID:
    """Return the UUID of a node's name; the same after a restart."""
    return uuid5(NAMESPACE_URL, f"evenflow/node/{name}")


def halves(uuid: UUID) -> tuple[int, int]:
    """Split a UUID into two signed 64-bit integers, the most significant first (section 4.3.2).

    Examples
    --------
    >>> joined(*halves(UUID(int=1 << 127 | 5))) == UUID(int=1 << 127 | 5)
    True
    """
    return _signed(uuid.int >> 64), _signed(uuid.int & _ALL)


def joined(most: int, least: int) -> UUID:
    """Put the halves of a UUID together."""
    return UUID(int=(most & _ALL) << 64 | (least & _ALL))


def _signed(half: int) -> int:
    return half - 2 * _SIGN if half >= _SIGN else half


def samples_of(sender: str, receiver: str, cargo: Cargo) -> Iterator[CacheTopic]:
    """Return the samples that carry a cargo."""
    from_most, from_least = halves(uuid_of(sender))
    to_most, to_least = halves(uuid_of(receiver))
    for slice_id, parcel in cargo.parcels.items():
        content: Any = list(_to_arrow(sender, cargo, parcel))
        yield CacheTopic(slice_id, from_least, from_most, to_least, to_most, content)


class Assembly:
    """Collects the samples of cargoes for one receiver."""

    def __init__(self, receiver: str) -> None:
        self._me = halves(uuid_of(receiver))
        self._parts: dict[tuple[str, int, tuple[int, ...]], dict[int, Parcel]] = {}

    def add(self, sample: CacheTopic) -> tuple[str, Cargo] | None:
        """Take one sample; return sender and cargo when the last part is here.

        Raises
        ------
        MalformedError
            When the sample is not of this protocol.
        """
        if (sample.mostSignificantBitsReceiverId, sample.leastSignificantBitsReceiverId) != self._me:
            return None
        content: Any = sample.dataItemCollection
        sender, session, slices, parcel = _from_arrow(bytes(content))
        if halves(uuid_of(sender)) != (sample.mostSignificantBitsSenderId, sample.leastSignificantBitsSenderId):
            raise MalformedError(f"a cargo of {sender!r} under another's UUID")
        if sample.sliceId not in slices or any(item.slice != sample.sliceId for item in parcel.cache):
            raise MalformedError(f"slice {sample.sliceId} in a cargo of {slices}, or items of another slice")
        key = (sender, session, slices)  # parts that name other slices are of another cargo
        parts = self._parts.setdefault(key, {})
        parts[sample.sliceId] = parcel
        if len(parts) < len(slices):
            if len(self._parts) > MOST_UNFINISHED:
                del self._parts[next(iter(self._parts))]
            return None
        del self._parts[key]
        return sender, Cargo(session, {s: parts[s] for s in slices})


def warm_up() -> None:
    """Pack and unpack a cargo: what Arrow loads on first use takes a second, which no session should wait for."""
    cargo = Cargo(1, {0: Parcel({}, Ledger(), (Item(0, 0),))})
    for sample in samples_of("a", "b", cargo):
        Assembly("b").add(sample)


def _to_arrow(sender: str, cargo: Cargo, parcel: Parcel) -> bytes:
    meta = {
        "sender": sender,
        "session": cargo.session,
        "slices": list(cargo.parcels),
        "state": encode(parcel.state),
        "ledger": ledger_to_json(parcel.ledger),
    }
    rows = [item._replace(value=json.dumps(encode(item.value), allow_nan=False)) for item in parcel.cache]
    columns = [pa.array([getattr(row, name) for row in rows], kind) for name, kind in _SCHEMA]
    schema = pa.schema(_SCHEMA, metadata={_META: json.dumps(meta, allow_nan=False)})
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))
    content: bytes = out.getvalue().to_pybytes()
    return content


def _from_arrow(content: bytes) -> tuple[str, int, tuple[int, ...], Parcel]:
    try:
        table = _table(content)
        meta = loads((table.schema.metadata or {})[_META])
        sender, session = name(meta["sender"]), whole(meta["session"], 1)
        slices = distinct(meta["slices"], whole)
        parcel = Parcel(_state(decode(meta["state"])), ledger_from_json(meta["ledger"]), _items(table.to_pylist()))
    except Exception as error:  # Arrow alone raises OSError, MemoryError, KeyError and half a dozen of its own
        raise MalformedError(f"a cache of {len(content)} octets: {error}") from error
    return sender, session, slices, parcel


def _table(content: bytes) -> Any:
    with pa.ipc.open_stream(content) as reader:
        if not reader.schema.equals(pa.schema(_SCHEMA)):
            raise MalformedError("other columns than those of items")
        table = reader.read_all()
    table.validate(full=True)
    return table


def _state(state: Any) -> dict[str, Any]:
    """Return what a slice's listeners know, by topic."""
    if not isinstance(state, dict):
        raise MalformedError("a state that is not by topic")
    return {text(topic): part for topic, part in state.items()}


def _items(rows: list[dict[str, Any]]) -> tuple[Item, ...]:
    items = tuple(Item(**{**row, "value": decode(loads(row["value"]))}) for row in rows)
    for item in items:
        envelope(item.id, item.settled, item.slice, item.cost)
        text(item.topic)
    return items
