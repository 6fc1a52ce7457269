"""What a process takes up after a restart: no more and no less than it had."""

from __future__ import annotations

import json

import pytest
from alerting import alerting, control, write

from evenflow.dds.bus import CACHES, CONTROL
from evenflow.dds.wire.cargo import Assembly, samples_of
from evenflow.dds.wire.codec import message_from_json
from evenflow.dds.wire.idl import CacheTopic, Control
from evenflow.errors import BadInput
from evenflow.slices.handoff import State
from evenflow.slices.ledger import Ledger
from evenflow.slices.messages import Action, ActionKind, Cargo, Confirm, Parcel, Receipt, SliceState

GRANT = (1, ActionKind.ADD_SLICE, (0, 1), SliceState.AVAILABLE)
STOP = (1, ActionKind.UPDATE_SLICE_STATE, (0, 1), SliceState.IN_SESSION)
EXPECT = (2, ActionKind.ADD_SLICE, (0, 1), SliceState.IN_SESSION)


def order(domain, session, what, over=0):
    domain.inject(*control("node-a", "balancer", Action(session, *what, None, over)))
    domain.pass_time(0.2)


def ship(domain, session, slices=(0, 1), state=5):
    cargo = Cargo(session, {s: Parcel({"readings": state}, Ledger(), ()) for s in slices})
    for sample in samples_of("node-b", "node-a", cargo):
        domain.inject(CACHES, sample.serialize())
    domain.pass_time(0.2)


def said(domain, kind):
    messages = [Control.deserialize(data) for topic, data in domain.on_wire if topic == CONTROL]
    found = [message_from_json(m.body) for m in messages if m.sender == "node-a"]
    return [message for message in found if isinstance(message, kind)]


def test_a_cargo_of_another_session_is_not_taken(domain, tmp_path):
    node = alerting(domain, tmp_path, "node-a")
    order(domain, 5, EXPECT)
    assert {h.phase for h in node.node.held.values()} == {State.AWAITING}
    for session in (4, 6):  # a straggler, and one that was not announced
        ship(domain, session, state=99)
    assert {(h.phase, str(h.state)) for h in node.node.held.values()} == {(State.AWAITING, "{}")}
    assert not said(domain, Receipt)
    ship(domain, 5)
    assert {(h.phase, h.state["readings"]) for h in node.node.held.values()} == {(State.INSTALLED, 5)}
    assert said(domain, Receipt) == [Receipt(5)]
    domain.kill(node)
    again = alerting(domain, tmp_path, "node-a")
    assert {(h.phase, h.state["readings"]) for h in again.node.held.values()} == {(State.INSTALLED, 5)}


def test_the_parts_of_two_sessions_are_not_put_together():
    assembly = Assembly("node-a")
    old, new = ([*samples_of("node-b", "node-a", cargo(session, (0, 1)))] for session in (4, 5))
    assert assembly.add(old[0]) is None
    assert assembly.add(new[1]) is None
    assert assembly.add(new[0])[1].session == 5
    other = [*samples_of("node-b", "node-a", cargo(4, (1, 2)))]  # the same session, and other slices
    assert assembly.add(other[0]) is None
    assert assembly.add(old[1])[1].session == 4


def test_the_parts_of_two_senders_are_not_put_together():
    assembly = Assembly("node-a")
    (first, _), (_, second) = (samples_of(name, "node-a", cargo(4, (0, 1))) for name in ("node-b", "node-c"))
    assert assembly.add(first) is None
    assert assembly.add(second) is None
    second.mostSignificantBitsSenderId = first.mostSignificantBitsSenderId
    second.leastSignificantBitsSenderId = first.leastSignificantBitsSenderId
    from evenflow.dds.wire.fields import MalformedError

    with pytest.raises(MalformedError, match="another's UUID"):
        assembly.add(CacheTopic.deserialize(second.serialize()))


def cargo(session, slices):
    return Cargo(session, {s: Parcel({"readings": session}, Ledger(), ()) for s in slices})


def test_sessions_that_have_ended_are_known_after_a_restart(domain, tmp_path):
    node = alerting(domain, tmp_path, "node-a")
    order(domain, 1, GRANT)
    order(domain, 9, (1, ActionKind.ADD_SLICE, (2,), SliceState.AVAILABLE), over=8)
    for life in range(2):
        before = len(said(domain, Confirm))
        order(domain, 3, STOP)  # a straggler of a session that has ended everywhere
        assert {h.phase for h in node.node.held.values()} == {State.OWNING}, life
        assert len(said(domain, Confirm)) == before
        assert node.node.over == 8
        domain.kill(node)
        node = alerting(domain, tmp_path, "node-a")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("slice/99", ["owning", 1, {}, {"marks": [], "done": []}]),
        ("slice/x", ["owning", 1, {}, {"marks": [], "done": []}]),
        ("slice/0", ["owning", -1, {}, {"marks": [], "done": []}]),
        ("slice/0", ["owning", 1, [], {"marks": [], "done": []}]),
        ("slice/0", ["owning", 1, {"other": 3}, {"marks": [], "done": []}]),
        ("over", "many"),
        ("steps", [1]),
        ("closed", {1: 2}),
        ("shipping", {1: ("node-b", (0,))}),
        ("shipping", {1: "node-b"}),
        ("results", (1 << 30, 0)),
        ("result/5", ("other", b"")),
        ("result/5", ("alerts", b"\x00\x01\x00\x00")),
    ],
)
def test_a_node_s_journal_that_does_not_fit_is_one_sentence(domain, tmp_path, key, value):
    from evenflow.dds.wire.codec import encode

    directory = tmp_path / "node-a"
    directory.mkdir()
    if key.startswith("slice/"):
        phase, session, state, ledger = value
        encoded = {"tuple": [{"state": phase}, session, encode(state), {"ledger": ledger}]}
    else:
        encoded = encode(value)
    line = {"saved": {key: encoded}, "remembered": []}
    (directory / "segment-00000001.jsonl").write_text(json.dumps(line) + "\n")
    for _ in range(2):
        with pytest.raises(BadInput, match=r"state '.*a journal that evenflow wrote with 4 slices"):
            alerting(domain, tmp_path, "node-a")


@pytest.mark.parametrize(
    "change",
    [
        {"slices": [0, 99]},
        {"slices": []},
        {"slices": 3},
        {"step": "dancing"},
        {"session": 0},
        {"session": 1 << 70},
        {"taker": ""},
        {"giver": 4},
        {"at": None},
    ],
)
def test_a_balancer_s_journal_that_does_not_fit_is_one_sentence(domain, tmp_path, change):
    directory = tmp_path / "balancer"
    directory.mkdir()
    note = {
        "kind": "session",
        "at": 1.0,
        "session": 1,
        "step": "done",
        "giver": "",
        "taker": "n",
        "slices": [0, 1],
        "why": "",
    }
    line = {"saved": {}, "remembered": [{**note, **change}]}
    (directory / "segment-00000001.jsonl").write_text(json.dumps(line) + "\n")
    for _ in range(2):
        with pytest.raises(BadInput, match=r"state '.*a journal that evenflow wrote with 4 slices"):
            domain.balancer(tmp_path)


def test_another_number_of_slices_than_the_journal_s_is_one_sentence(domain, tmp_path):
    running = [domain.balancer(tmp_path), alerting(domain, tmp_path, "node-a")]
    domain.pass_time(2)
    write(domain, range(8))
    domain.pass_time(1)
    for each in running:
        domain.stop(each)
    with pytest.raises(BadInput, match="with 2 slices"):
        domain.balancer(tmp_path, slices=2)
    with pytest.raises(BadInput, match="with 2 slices"):
        alerting(domain, tmp_path, "node-a", slices=2)
    running = [domain.balancer(tmp_path), alerting(domain, tmp_path, "node-a")]
    assert sorted(running[1].node.held) == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["", "balancer", "a\nb", "x" * 300])
def test_a_node_has_a_name_of_its_own(domain, tmp_path, name):
    with pytest.raises(BadInput, match="--name"):
        alerting(domain, tmp_path, name)
