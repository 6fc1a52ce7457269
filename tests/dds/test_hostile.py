"""Whatever arrives, a process stays alive, is as right as before, and can start again from its journal."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest
from alerting import Alert, Reading, alerting, control, sensors, write
from mutations import mutated

from evenflow.dds.bus import ACKS, CACHES, CONTROL
from evenflow.dds.wire.cargo import samples_of
from evenflow.dds.wire.idl import Acks, CacheTopic, Control, item_type
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
from evenflow.slices.session import ACTIONS, Phase

KINDS = {CONTROL: Control, CACHES: CacheTopic, ACKS: Acks, "readings": item_type(Reading), "alerts": item_type(Alert)}
PER_SAMPLE = 8


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
def test_changed_copies_of_every_sample_change_nothing(domain, tmp_path, service, heard, seed):
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
    "a cache without a taker": ("node-a", "balancer", Action(9, 4, ActionKind.SEND_CACHE_TO_NODE, (0,))),
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


def well_formed(chance, node):
    """Return a message that could come from a balancer or a node, at any time and of any session.

    Every other one is the next of a session that the node is in, or differs from that in its session or its slices.
    """
    session = chance.randrange(1, 8)
    slices = tuple(sorted(chance.sample(range(4), chance.randrange(1, 4))))
    way = chance.random()
    steps = list(ACTIONS.values())
    inside = [h.session for h in node.held.values() if h.phase is not State.OWNING]
    if inside and chance.random() < 0.5:
        current = chance.choice(inside)
        steps = [order for order in steps if order.step == node.steps.get(current, 0) + 1] or steps
        session = current if chance.random() < 0.7 else session
        if chance.random() < 0.7:
            slices = tuple(s for s, h in node.held.items() if h.session == current)
    elif chance.random() < 0.5:
        slices = tuple(s for s, h in node.held.items() if h.phase is State.OWNING) or slices
    if way < 0.75:
        order = chance.choice(steps)
        taker = "node-b" if order.kind is ActionKind.SEND_CACHE_TO_NODE else None
        over = chance.choice([0, 0, 0, 1, session - 1])
        action = Action(session, order.step, order.kind, slices, order.state, taker, over)
        yield control("node-a", "balancer", action)
    elif way < 0.85:
        yield control("node-a", "node-b", Receipt(session))
    else:
        content = Parcel({"readings": 1}, Ledger({1: 4}), ())
        for sample in samples_of("node-b", "node-a", Cargo(session, dict.fromkeys(slices, content))):
            yield CACHES, sample.serialize()


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 40))])
def test_well_formed_messages_in_any_order_leave_a_node_that_can_go_on(domain, tmp_path, seed):
    chance = random.Random(seed)
    for life in range(6):
        (tmp_path / str(life)).mkdir()
        node = alerting(domain, tmp_path / str(life), "node-a")
        for count in range(120):
            for topic, data in well_formed(chance, node.node):
                domain.inject(topic, data)
            write(domain, [1000 * life + count])
            domain.pass_time(chance.choice([0.02, 0.02, 0.3, 1.2]))
            if count % 30 == 29:
                domain.kill(node)
                node = alerting(domain, tmp_path / str(life), "node-a")
        domain.kill(node)


STOP, EXPECT, REMOVE, SHIP = (
    ACTIONS[phase] for phase in (Phase.STOPPING, Phase.EXPECTING, Phase.REMOVING, Phase.SHIPPING)
)


def test_an_action_on_slices_of_another_session_is_dropped(domain, tmp_path):
    """Its own session's timer would find the slices in a state in which nothing can be shipped, at every restart again."""
    node = alerting(domain, tmp_path, "node-a")
    grant = ACTIONS[Phase.GRANTING]
    orders = [(1, grant, (0, 1, 2)), (2, STOP, (0, 1)), (2, REMOVE, (0, 1)), (2, SHIP, (0, 1))]
    for session, order, slices in orders:
        taker = "node-b" if order is SHIP else None
        action = Action(session, order.step, order.kind, slices, order.state, taker, 0)
        domain.inject(*control("node-a", "balancer", action))
        domain.pass_time(0.3)
    before = state_of(node)
    for session, slices in ((3, (0, 1)), (3, (1, 2)), (2, (0,))):
        action = Action(session, EXPECT.step, EXPECT.kind, slices, EXPECT.state)
        if session == 2:
            readmit = ACTIONS[Phase.READMITTING]
            action = Action(session, readmit.step, readmit.kind, slices, readmit.state)
        domain.inject(*control("node-a", "balancer", action))
        domain.pass_time(1.5)
    assert node.bus.incoming.dropped == {CONTROL: 3}
    assert state_of(node) == before
    domain.kill(node)
    node = alerting(domain, tmp_path, "node-a")
    domain.pass_time(3)
    assert state_of(node)[0] == before[0]


def parcel(state=None, value=None, **changes):
    value = {"sensor": 1, "temperature": 2.0} if value is None else value
    item = Item(7, 0, "readings", 0, 1.0, value)
    return Parcel({"readings": 3} if state is None else state, Ledger(), (item._replace(**changes),))


CARGOES = {
    "a state without topics": Cargo(5, {0: parcel(state=[1])}),
    "a state of another topic": Cargo(5, {0: parcel(state={"other": 1})}),
    "an item of another topic": Cargo(5, {0: parcel(topic="other")}),
    "an item of another slice": Cargo(5, {0: parcel(slice=1)}),
    "a value without a field": Cargo(5, {0: parcel(value={"sensor": 1})}),
    "a value with one more": Cargo(5, {0: parcel(value={"sensor": 1, "temperature": 2.0, "more": 3})}),
    "a value of another type": Cargo(5, {0: parcel(value={"sensor": "one", "temperature": 2.0})}),
    "a value out of range": Cargo(5, {0: parcel(value={"sensor": 1 << 70, "temperature": 2.0})}),
    "no value": Cargo(5, {0: parcel(value=[])}),
    "a cost that is none": Cargo(5, {0: parcel(cost=float("nan"))}),
    "an id that is none": Cargo(5, {0: parcel(id=-1)}),
    "slice 99": Cargo(5, {99: Parcel({}, Ledger(), ())}),
    "session 0": Cargo(0, {0: parcel()}),
    "a session of 400 digits": Cargo(10**400, {0: parcel()}),
    "a publisher that cannot be": Cargo(5, {0: Parcel({}, Ledger({1 << 30: 1}), ())}),
}


@pytest.mark.parametrize("name", CARGOES)
def test_a_cargo_that_does_not_fit_is_dropped_and_the_right_one_taken(domain, tmp_path, name):
    node = alerting(domain, tmp_path, "node-a")
    expect = Action(5, EXPECT.step, EXPECT.kind, (0,), EXPECT.state)
    domain.inject(*control("node-a", "balancer", expect))
    domain.pass_time(0.1)
    for sample in samples_of("node-b", "node-a", CARGOES[name]):
        domain.inject(CACHES, sample.serialize())
    domain.pass_time(0.1)
    assert node.bus.incoming.dropped == {CACHES: 1}
    for sample in samples_of("node-b", "node-a", Cargo(5, {0: parcel()})):
        domain.inject(CACHES, sample.serialize())
    domain.pass_time(0.1)
    assert (node.node.held[0].phase, node.node.held[0].state) == (State.INSTALLED, {"readings": 3})
    assert sorted(node.node.held[0].cache) == [7]


def deep(levels):
    """Return the samples of a cargo whose state has this number of levels; our own sender would refuse to write it."""
    (sample,) = samples_of("node-b", "node-a", Cargo(5, {0: Parcel({"readings": "STATE"}, Ledger(), ())}))
    with pa.ipc.open_stream(bytes(sample.dataItemCollection)) as reader:
        table = reader.read_all()
    meta = table.schema.metadata[b"evenflow"].replace(b'"STATE"', b"[" * levels + b"]" * levels)
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema.with_metadata({b"evenflow": meta})) as writer:
        writer.write_table(table)
    sample.dataItemCollection = list(out.getvalue().to_pybytes())
    return sample


@pytest.mark.parametrize("levels", [90, 120, 330, 900, 5000, 100_000])
def test_a_deeply_nested_state_is_taken_and_saved_or_dropped(domain, tmp_path, levels):
    node = alerting(domain, tmp_path, "node-a")
    expect = Action(5, EXPECT.step, EXPECT.kind, (0,), EXPECT.state)
    domain.inject(*control("node-a", "balancer", expect))
    domain.inject(CACHES, deep(levels).serialize())
    domain.pass_time(0.1)
    assert (node.node.held[0].phase is State.INSTALLED) == (levels == 90)
    assert node.bus.incoming.total == (levels != 90)
    domain.kill(node)
    alerting(domain, tmp_path, "node-a")


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


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 10))])
def test_well_formed_messages_in_any_order_leave_a_balancer_that_can_go_on(domain, tmp_path, seed):
    chance = random.Random(seed)
    balancer = domain.balancer(tmp_path)
    names = ["node-a", "node-b", "node-c", "other"]
    for count in range(600):
        sender, actor = chance.choice(names), balancer.cell.actor
        number, step = chance.choice([*actor.sessions, chance.randrange(1, 20)]), chance.randrange(1, 9)
        if number in actor.sessions and chance.random() < 0.8:  # what the balancer waits for
            sender, awaited = actor.sessions[number].action(0)
            step = awaited.step
        loads = {s: chance.choice([0.0, 1.0, 1e15]) for s in chance.sample(range(4), chance.randrange(5))}
        properties = {"cpu": chance.choice([0.0, 100.0, -1e15, 1e15])}
        message = chance.choice(
            [
                Notification(sender, chance.choice([4, 4, 4, 5]), properties, loads, chance.choice([1e-6, 1.0, 1e15])),
                Notification(sender, 4, properties, loads, 1.0, "joined"),
                Confirm(number, step, chance.choice(["done", "done", "refused", "shipped"]), "why"),
                Drain(chance.choice(names)),
                Pause(chance.choice([True, False, False])),
            ]
        )
        domain.inject(*control("balancer", sender, message))
        domain.pass_time(chance.choice([0.02, 0.3, 2.0]), step=0.1)
        if count % 60 == 59:
            domain.kill(balancer)
            balancer = domain.balancer(tmp_path)
    assert balancer.cell.actor._next > 2  # there were sessions
