"""Copies of a sample with something wrong in them: every field of every type, the JSON and Arrow inside, the octets."""

from __future__ import annotations

import copy
import dataclasses
import json
import struct

import pyarrow as pa

from evenflow.dds.wire.cargo import halves, uuid_of
from evenflow.dds.wire.idl import CacheTopic, Control

NESTED = "[" * 300 + "]" * 300
ODD = [
    None, True, False, -1, 0, 1, 3, 4, 7, 99, 2**31, 2**40, 2**62, 2**63 - 1, 2**63, 10**400, 0.0, -0.5, 1e9, 1e16, 1e308,
    -1e308, float("nan"), float("inf"), float("-inf"), "", "x", "balancer", "node-a", "node-b", "x" * 300, "\ud800", "\x00",
    "a\nb", [], [[]], [0], [0, 0], [99], [None], [["cpu", 1.0]], [["kind", 1.0]], [[0, 1.0], [0, 2.0]], {}, {"dict": [[1, 2]]},
    {"tuple": 3}, {"ledger": {}}, {"ledger": {"marks": [[1, -1]], "done": ["x"]}}, {"bytes": "!"}, {"state": "owning"},
    {"float": "nan"}, {"marks": [[0, 2**50]], "done": []}, {"marks": [], "done": [-5]}, json.loads(NESTED),
]  # fmt: skip


def mutated(kind, data, chance):
    """Return the octets of a sample that differs in one place."""
    way = chance.random()
    if way < 0.25:
        return of_octets(data, chance)
    sample = kind.deserialize(data)
    if kind is Control and way < 0.85:
        sample.body = of_json(sample.body, chance)
    elif kind is CacheTopic and way < 0.85:
        sample.dataItemCollection = list(of_arrow(bytes(sample.dataItemCollection), chance))
    else:
        field = chance.choice(dataclasses.fields(sample)).name
        setattr(sample, field, odd_like(getattr(sample, field), chance))
    try:
        return sample.serialize()
    except Exception:  # noqa: BLE001 - the value cannot even be written: so it never arrives
        return of_octets(data, chance)


def odd_like(value, chance):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return chance.choice([-1, 0, 1, 2, 99, value + 1, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63)])
    if isinstance(value, float):
        return chance.choice([float("nan"), float("inf"), -1.0, 1e308, 1e16, -0.0])
    if isinstance(value, str):
        return chance.choice(["", "x", "balancer", "node-a", "node-b", "stranger", "x" * 300, "a\x00b", "[" * 5000])
    if isinstance(value, list):
        return chance.choice([[], value[:-1], value + value, [0] * 50, [2**62] * 3])
    return value


def of_octets(data, chance):
    """Cut, lengthen or change octets."""
    way = chance.randrange(5)
    if way == 0:
        return data[: chance.randrange(len(data))]
    if way == 1:
        return data + bytes(chance.randrange(256) for _ in range(chance.randrange(1, 9)))
    changed = bytearray(data)
    for _ in range(1 if way == 2 else 4):
        at = chance.randrange(len(changed))
        changed[at] = 0xFF if way == 3 else chance.randrange(256)
    if way == 4 and len(changed) > 8:
        at = 4 * chance.randrange(1, len(changed) // 4)
        changed[at : at + 4] = struct.pack("<I", chance.choice([0, 0xFFFFFFFF, 0x7FFFFFFF, len(data) + 1]))[
            : len(changed) - at
        ]
    return bytes(changed)


def of_json(text, chance):
    """Change one part of a JSON text, or the text."""
    if chance.random() < 0.1:
        return chance.choice(
            ["", "[", "{}", "NaN", "[" * 5000, '["Leave"]', '["Refused", "no"]', '["Pause", 1]', text[:-3]]
        )
    whole = json.loads(text)
    places = list(_places(whole))
    if not places:
        return chance.choice(["[]", '["Leave", 1]'])
    holder, key = chance.choice(places)
    holder[key] = copy.deepcopy(chance.choice(ODD))
    return json.dumps(whole)


def _places(value):
    pairs = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    for key, part in pairs:
        yield value, key
        yield from _places(part)


def of_arrow(content, chance):
    """Change one part of a cargo's Arrow stream: its metadata, an item, or its octets."""
    if chance.random() < 0.2:
        return of_octets(content, chance)
    with pa.ipc.open_stream(content) as reader:
        table = reader.read_all()
    meta = table.schema.metadata[b"evenflow"].decode()
    rows = table.to_pylist()
    schema = table.schema
    if not rows or chance.random() < 0.6:
        meta = of_json(meta, chance)
    else:
        row, name = chance.choice(rows), chance.choice(schema.names)
        old = row[name]
        row[name] = of_json(old, chance) if name == "value" else chance.choice([None, odd_like(old, chance)])
    if chance.random() < 0.05:
        schema = pa.schema([pa.field("id", pa.string()), *list(schema)[1:]])
        rows = [{**row, "id": str(row["id"])} for row in rows]
    out = pa.BufferOutputStream()
    try:
        schema = schema.with_metadata({b"evenflow": meta.encode("utf-8", "surrogatepass")})
        table = pa.Table.from_pylist(rows, schema=schema)
    except (pa.ArrowException, OverflowError, TypeError):
        return content[: chance.randrange(len(content))]
    with pa.ipc.new_stream(out, schema) as writer:
        writer.write_table(table)
    return out.getvalue().to_pybytes()


def cache_sample(sender, receiver, slice_id, content):
    from_most, from_least = halves(uuid_of(sender))
    to_most, to_least = halves(uuid_of(receiver))
    return CacheTopic(slice_id, from_least, from_most, to_least, to_most, list(content))
