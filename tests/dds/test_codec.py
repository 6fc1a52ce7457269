from __future__ import annotations

import json
from uuid import UUID

import pytest

from evenflow.dds.wire.cargo import Assembly, halves, joined, samples_of, uuid_of
from evenflow.dds.wire.codec import decode, encode, message_from_json, message_to_json
from evenflow.dds.wire.fields import MalformedError
from evenflow.dds.wire.idl import CacheTopic
from evenflow.slices.balancer import Drain, Pause
from evenflow.slices.handoff import State
from evenflow.slices.ledger import Ledger
from evenflow.slices.messages import (
    Action,
    ActionKind,
    Cargo,
    Confirm,
    Item,
    Leave,
    Notification,
    Parcel,
    Receipt,
    Refused,
    SliceState,
)

MESSAGES = [
    Action(3, 2, ActionKind.ADD_SLICE, (1, 2), SliceState.IN_SESSION, None, 1),
    Action(3, 4, ActionKind.SEND_CACHE_TO_NODE, (1,), None, "node-2", 0),
    Confirm(3, 2, "refused", "why"),
    Receipt(9),
    Notification("n", 10, {"cpu": 3.5}, {4: 2.0}, 1000.0, "sample"),
    Leave(),
    Refused("no"),
    Drain("n"),
    Pause(True),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_messages_come_back(message):
    back = message_from_json(message_to_json(message))
    assert back == message
    assert type(back) is type(message)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '["Receipt"]',
        '["Receipt", "7"]',
        '["Receipt", true]',
        '["Receipt", 7, 8]',
        '["Action", 1, 1, 9, [1], null, null, 0]',
        '["Confirm", 1, 1, "perhaps", ""]',
        '["Popen", "true"]',
        '["__class__"]',
        "[" * 5000,
        json.dumps(["Notification", "n", 10, [["cpu", "x"]], [], 1.0, "sample"]),
    ],
)
def test_what_is_no_message_is_refused(text):
    with pytest.raises(MalformedError):
        message_from_json(text)


def test_saved_values_come_back():
    value = {
        "slice/3": (State.OWNING, 4, {"data": [1, {"a": b"\x00"}]}, Ledger({1: 5}, [7])),
        "shipping": {3: ("n", (1, 2))},
        "over": 2,
    }
    back = decode(json.loads(json.dumps(encode(value))))
    ledger = back["slice/3"][3]
    assert back["slice/3"][:3] == value["slice/3"][:3]
    assert (ledger.marks, ledger.done) == ({1: 5}, {7})
    assert back["shipping"] == value["shipping"]


def test_what_is_not_plain_data_is_named():
    with pytest.raises(TypeError, match="complex"):
        encode({"state": 1j})


def test_a_uuid_is_two_signed_integers():
    for number in (0, 1, (1 << 128) - 1, 1 << 127, (1 << 63) | (1 << 64)):
        parts = halves(UUID(int=number))
        assert all(-(1 << 63) <= part < 1 << 63 for part in parts)
        assert joined(*parts) == UUID(int=number)


def cargo() -> Cargo:
    cache = (Item(5, 1, "data", 2, 1.5, {"a": 1}), Item(6, 1, "data", 2, 1.0, None))
    return Cargo(3, {1: Parcel({"data": 5}, Ledger({1: 4}, [9]), cache), 2: Parcel({}, Ledger(), ())})


def test_a_cargo_arrives_whole_for_its_receiver_alone():
    samples = [CacheTopic.deserialize(s.serialize()) for s in samples_of("a", "b", cargo())]
    assert (samples[0].mostSignificantBitsReceiverId, samples[0].leastSignificantBitsReceiverId) == halves(uuid_of("b"))
    assembly, other = Assembly("b"), Assembly("c")
    assert assembly.add(samples[1]) is None
    assert assembly.add(samples[1]) is None  # sent again
    sender, back = assembly.add(samples[0])
    assert [other.add(s) for s in samples] == [None, None]
    assert sender == "a"
    assert back.session == 3
    assert list(back.parcels) == [1, 2]
    assert back.parcels[1].cache == cargo().parcels[1].cache
    assert back.parcels[1].state == {"data": 5}
    assert back.parcels[1].ledger.done == {9}


@pytest.mark.parametrize("content", [b"", b"ARROW1", bytes(100)])
def test_a_cache_that_is_no_arrow_is_refused(content):
    (sample, _) = samples_of("a", "b", cargo())
    sample.dataItemCollection = list(content)
    with pytest.raises(MalformedError):
        Assembly("b").add(sample)
