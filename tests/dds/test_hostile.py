"""Whatever arrives, a process stays alive, is as right as before, and can start again from its journal."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from mutations import mutated
from test_results import Alert, Reading, alerting, heard, sensors, write  # noqa: F401 - a fixture among them

from evenflow.dds.bus import ACKS, CACHES, CONTROL
from evenflow.dds.cargo import samples_of
from evenflow.dds.codec import message_to_json
from evenflow.dds.idl import Acks, CacheTopic, Control, item_type
from evenflow.slices.balancer import Drain, Pause
from evenflow.slices.ledger import Ledger
from evenflow.slices.messages import (
    Action,
    ActionKind,
    Cargo,
    Leave,
    Notification,
    Parcel,
    Receipt,
    Refused,
    SliceState,
)
from evenflow.slices.session import ACTIONS

KINDS = {CONTROL: Control, CACHES: CacheTopic, ACKS: Acks, "readings": item_type(Reading), "alerts": item_type(Alert)}
PER_SAMPLE = 8


def control(to, sender, message):
    body = message if isinstance(message, str) else message_to_json(message)
    return CONTROL, Control(to, sender, body).serialize()


def state_of(running):
    """Return what a process knows, as plain data."""
    actor = running.cell.actor
    if hasattr(actor, "held"):
        held = {
            s: (h.phase, h.session, repr(h.state), sorted(h.ledger.done), sorted(h.cache))
            for s, h in actor.held.items()
        }
        return held, dict(actor.steps), dict(actor.closed), actor.over, dict(actor.shipping), sorted(actor.pending)
    sessions = {s: (x.phase, x.giver, x.taker, x.slices) for s, x in actor.sessions.items()}
    return sessions, list(actor.map.owner), dict(actor.map.moving), sorted(actor.map.nodes), actor.paused


class Hostile:
    """Follows every sample on the wire with changed copies of it.

    A copy that a process drops must change nothing. One that passes for a message is kept for later: it may do what such a
    message does.
    """

    def __init__(self, domain, running, chance):
        self.domain, self.running, self.chance = domain, running, chance
        self.cases = Counter()
        self.passed = []
        self.at = 0

    def turn(self):
        for topic, data in self.domain.on_wire[self.at :]:
            for _ in range(PER_SAMPLE):
                self.follow(topic, mutated(KINDS[topic], data, self.chance))
        self.at = len(self.domain.on_wire)

    def follow(self, topic, data):
        for running in self.running():
            for reader, read in doors(running, topic):
                self.cases[topic] += 1
                before, dropped = state_of(running), running.bus.incoming.total
                saved = repr(running.journal.saved)
                taken = list(running.bus.incoming.admit(topic, [data], read))
                if taken and taken[0] is not None:
                    self.passed.append((reader, data))
                    continue
                assert running.bus.incoming.total == dropped + (not taken)
                assert (state_of(running), repr(running.journal.saved)) == (before, saved)


def doors(running, topic):
    """Return the readers of a process for a topic, and what reads a sample there."""
    from functools import partial

    from evenflow.dds.readers import read_item

    found = []
    port = running.port
    if topic == CONTROL:
        found.append((port._control, port._read.control))
    if topic == CACHES and port._caches is not None:
        found.append((port._caches, port._read.cargo))
    if hasattr(running, "readers"):
        read = partial(read_item, topic="readings", kind=Reading, slices=4)
        found += [(o.reader, read) for o in running.readers._live if o.topic == topic]
    return found


@pytest.fixture
def service(domain, tmp_path):
    """A balancer and two nodes, with slices that move while items flow."""
    running = {"balancer": domain.balancer(tmp_path)}
    for name in ("node-a", "node-b"):
        running[name] = alerting(domain, tmp_path, name)
    return running


def flow(domain, tmp_path, running):
    """Move slices to and fro while 120 items flow."""
    published = 0
    for _ in range(2):
        domain.pass_time(2)
        write(domain, range(published, published + 30))
        published += 30
        domain.pass_time(0.1)
        domain.inject(*control("balancer", "node-b", Drain("node-b")))
        for _ in range(30):
            write(domain, [published])
            published += 1
            domain.pass_time(0.1)
        domain.pass_time(3)
        if running["node-b"].process.stopping:
            domain.stop(running["node-b"])
            running["node-b"] = alerting(domain, tmp_path, "node-b")
    domain.pass_time(5)
    return published


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 20))])
def test_changed_copies_of_every_sample_change_nothing(domain, tmp_path, service, heard, seed):  # noqa: F811
    hostile = Hostile(domain, lambda: list(service.values()), random.Random(seed))
    domain.processes.append(hostile)
    published = flow(domain, tmp_path, service)
    assert hostile.cases.total() >= 1000
    assert min(hostile.cases[topic] for topic in (CONTROL, CACHES, "readings")) >= 100
    assert sensors(heard) == Counter(range(published))  # everything was processed once, and its result came once
    owners = [s for name in ("node-a", "node-b") for s in service[name].node.held]
    assert sorted(owners) == [0, 1, 2, 3]
    assert any("dropped" in line for line in service["node-a"].bus.told)
    assert len(service["node-a"].bus.told) <= 1 + domain.now / 10
    domain.processes.remove(hostile)
    live_through(domain, tmp_path, service, hostile)


def live_through(domain, tmp_path, service, hostile):
    """Hand over everything that passed for a message; the processes stay alive and start again from their journals."""
    copies = [data for _, data in hostile.passed]
    hostile.chance.shuffle(copies)
    topics = {id(reader): reader.topic for reader, _ in hostile.passed}
    by_data = {data: topics[id(reader)] for reader, data in hostile.passed}
    assert len(copies) >= 100
    for count, data in enumerate(copies):
        domain.inject(by_data[data], data)
        domain.pass_time(0.02)
        if count % 40 == 39:
            for name in list(service):
                running = service[name]
                if running.process.stopping:  # refused or let go, as the message said
                    domain.stop(running)
                else:
                    domain.kill(running)
                begin = domain.balancer if name == "balancer" else lambda path, n=name: alerting(domain, path, n)
                service[name] = begin(tmp_path)


BAD = {
    "400 digits": ("balancer", "n", f'["Notification", "n", 4, [["cpu", 1.0]], [[0, {10**400}]], 1.0, "sample"]'),
    "capacity 0": ("balancer", "n", Notification("n", 4, {"cpu": 1.0}, {}, 0.0)),
    "NaN": ("balancer", "n", '["Notification", "n", 4, [["cpu", NaN]], [], 1.0, "sample"]'),
    "infinite": ("balancer", "n", '["Notification", "n", 4, [["cpu", 1e999]], [], 1.0, "sample"]'),
    "slice 99 of 4": ("balancer", "n", Notification("n", 4, {"cpu": 1.0}, {99: 1.0})),
    "slice -1": ("balancer", "n", Notification("n", 4, {"cpu": 1.0}, {-1: 1.0})),
    "no cpu": ("balancer", "n", Notification("n", 4, {}, {})),
    "a property named kind": ("balancer", "n", Notification("n", 4, {"cpu": 1.0, "kind": 2.0}, {})),
    "half a character": ("balancer", "n", '["Notification", "\\ud800", 4, [["cpu", 1.0]], [], 1.0, "sample"]'),
    "no name": ("balancer", "", Notification("", 4, {"cpu": 1.0}, {})),
    "another's name": ("balancer", "m", Notification("n", 4, {"cpu": 1.0}, {})),
    "a receipt to the balancer": ("balancer", "n", Receipt(1)),
    "a stranger's leave": ("node-a", "stranger", Leave()),
    "a leave with slices": ("node-a", "balancer", Leave()),
    "a stranger's refusal": ("node-a", "stranger", Refused("go")),
    "a stranger's action": ("node-a", "stranger", Action(9, 1, ActionKind.UPDATE_SLICE_STATE, (0,), SliceState.IN_SESSION)),
    "an action of no phase": ("node-a", "balancer", Action(9, 1, ActionKind.REMOVE_SLICE, (0,), SliceState.AVAILABLE)),
    "a cache for nobody": ("node-a", "balancer", Action(9, 4, ActionKind.SEND_CACHE_TO_NODE, (0,))),
    "an action on slice 99": ("node-a", "balancer", Action(9, 1, ActionKind.UPDATE_SLICE_STATE, (99,), SliceState.IN_SESSION)),
    "an action on nothing": ("node-a", "balancer", Action(9, 1, ActionKind.UPDATE_SLICE_STATE, (), SliceState.IN_SESSION)),
    "sessions that end before they begin": (
        "node-a", "balancer", Action(9, 1, ActionKind.UPDATE_SLICE_STATE, (0,), SliceState.IN_SESSION, None, 10),
    ),
    "a pause to a node": ("node-a", "balancer", Pause(True)),
    "nothing": ("node-a", "balancer", ""),
    "nested": ("node-a", "balancer", "[" * 5000),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_dropped_and_counted(domain, tmp_path, name):
    service = {"balancer": domain.balancer(tmp_path), "node-a": alerting(domain, tmp_path, "node-a")}
    domain.pass_time(2)
    to, sender, message = BAD[name]
    running = service[to]
    before, nodes = state_of(running), sorted(service["balancer"].cell.actor.map.nodes)
    domain.inject(*control(to, sender, message))
    running.process.turn()
    assert running.bus.incoming.dropped == {CONTROL: 1}
    assert len(running.bus.told) == 1
    assert state_of(running) == before
    assert sorted(service["balancer"].cell.actor.map.nodes) == nodes
    assert not running.process.stopping


def well_formed(chance):
    """Return a message that could come from a balancer or a node, at any time and of any session."""
    session = chance.randrange(1, 8)
    slices = tuple(sorted(chance.sample(range(4), chance.randrange(1, 4))))
    way = chance.random()
    if way < 0.75:
        order = chance.choice(list(ACTIONS.values()))
        taker = "node-b" if order.kind is ActionKind.SEND_CACHE_TO_NODE else None
        over = chance.choice([0, 0, 0, 1, session - 1])
        action = Action(session, order.step, order.kind, slices, order.state, taker, over)
        yield control("node-a", "balancer", action)
    elif way < 0.85:
        yield control("node-a", "node-b", Receipt(session))
    else:
        parcel = Parcel({"readings": 1}, Ledger({1: 4}), ())
        for sample in samples_of("node-b", "node-a", Cargo(session, dict.fromkeys(slices, parcel))):
            yield CACHES, sample.serialize()


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 40))])
def test_well_formed_messages_in_any_order_leave_a_node_that_can_go_on(domain, tmp_path, seed):
    chance = random.Random(seed)
    for life in range(6):
        (tmp_path / str(life)).mkdir()
        node = alerting(domain, tmp_path / str(life), "node-a")
        for count in range(120):
            for topic, data in well_formed(chance):
                domain.inject(topic, data)
            write(domain, [1000 * life + count])
            domain.pass_time(chance.choice([0.02, 0.02, 0.3, 1.2]))
            if count % 30 == 29:
                domain.kill(node)
                node = alerting(domain, tmp_path / str(life), "node-a")
        domain.kill(node)


def test_a_receipt_of_a_stranger_does_not_make_a_giver_forget(domain, tmp_path, service):
    node = service["node-a"]
    while not node.node.shipping:
        domain.now += 0.02
        for process in domain.processes:
            process.turn()
            if node.node.shipping:
                break  # the taker has not seen the cargo yet
    (session, (taker, slices)) = next(iter(node.node.shipping.items()))
    domain.inject(*control("node-a", "stranger", Receipt(session)))
    node.process.turn()
    assert taker == "node-b"
    assert set(slices) <= set(node.node.held)
    assert node.bus.incoming.dropped[CONTROL] == 1
