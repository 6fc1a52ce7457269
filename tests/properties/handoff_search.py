"""A bounded search over delivery orders: every order of a small hand-off, with a few faults, and the law at each state.

The world is the real balancer and the real nodes; time stands still, so any timer may fire at any moment.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from evenflow.actor import Note, Received, Save, Send, Started, Wake, Woken
from evenflow.slices.algorithm import Movement
from evenflow.slices.balancer import LoadBalancer
from evenflow.slices.custody import Held
from evenflow.slices.handoff import State
from evenflow.slices.ledger import item_id
from evenflow.slices.messages import Ack, Action, Cargo, Confirm, Item, Receipt
from evenflow.slices.node import ProcessingNode
from evenflow.slices.readers import Listen
from evenflow.slices.session import ACTIONS, Phase
from evenflow.slices.settings import BalancerSettings, NodeSettings
from evenflow.slices.topics import Topic

CONTROL = (Action, Confirm, Cargo, Receipt)
SLICE = 0


class Record:
    def on_data(self, item: Item, state: Any) -> Any:
        return [*(state or []), item.id]

    def on_correlating_data(self, item: Item) -> None:
        pass


class Once:
    """Moves the slice from A to B, one time."""

    def __init__(self) -> None:
        self.asked = False

    def on_new_node(self, node: Any) -> None:
        pass

    def analyze(self, nodes: Any, now: float) -> list[Movement]:
        if self.asked or len(nodes.usable(now)) < 2:
            return []
        self.asked = True
        return [Movement("A", "B", 1)]


@dataclass
class Budget:
    """How many faults of each kind one path may meet."""

    loss: int = 0
    duplication: int = 0
    crash: int = 0
    timeout: int = 0
    total: int = 0

    def spend(self, kind: str) -> None:
        setattr(self, kind, getattr(self, kind) - 1)
        self.total -= 1


def _settings(**changes: Any) -> NodeSettings:
    zero = {"slices": 1, "drain_s": 0.0, "overlap_s": 0.0, "resend_s": 0.0, "commit_s": 1.0, "monitor_s": 1.0}
    return NodeSettings(**{**zero, "speed": 1e9, **changes})


@dataclass
class World:
    """Two nodes, a balancer and one publisher with a few items."""

    budget: Budget
    items: int = 1
    actors: dict[str, Any] = field(default_factory=dict)
    saved: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[Any] = field(default_factory=list)
    flying: list[tuple[str, str, Any]] = field(default_factory=list)
    timers: list[tuple[str, Any]] = field(default_factory=list)
    faults: int = 0
    dead: frozenset[str] = frozenset()
    merged: bool = False  # B has had the cargo
    published: int = 0
    unacknowledged: dict[int, Item] = field(default_factory=dict)

    # -- the driver -----------------------------------------------------------------------------

    def start(self, name: str) -> None:
        if name == "balancer":
            settings = BalancerSettings(slices=1, resend_s=0.0, timeout_s=0.0)
            algorithm = Once()
            algorithm.asked = name in self.saved  # a balancer that starts again has its movement on the trace
            self.actors[name] = LoadBalancer(algorithm, settings, record=False)
            saved: dict[str, Any] = {"notes": self.notes}
        else:
            self.actors[name] = ProcessingNode(name, [Topic("data", Record())], _settings())
            saved = self.saved.setdefault(name, {})
        self.saved.setdefault(name, {})
        self.timers = [t for t in self.timers if t[0] != name]
        self.feed(name, Started(saved))

    def feed(self, name: str, event: Any) -> None:
        for command in self.actors[name].handle(event, 0.0):
            self.obey(name, command)

    def obey(self, name: str, command: Any) -> None:
        if isinstance(command, Send):
            self.flying.append((name, command.to, command.message))
        elif isinstance(command, Wake):
            if command.name != "monitor":
                self.timers.append((name, command.name))
        elif isinstance(command, Save):
            for key, value in pickle.loads(pickle.dumps(dict(command.values))).items():  # own, trusted bytes
                if value is None:
                    self.saved[name].pop(key, None)
                else:
                    self.saved[name][key] = value
        elif isinstance(command, Note):
            if name == "balancer":
                self.notes.append(command.record)
            self.merged |= command.record["kind"] == "merge"
        else:
            assert isinstance(command, Listen)

    def deliver(self, index: int, *, keep: bool = False) -> None:
        sender, to, message = self.flying[index]
        if not keep:
            del self.flying[index]
        if isinstance(message, Ack):
            for item in message.items:
                self.unacknowledged.pop(item, None)
        elif to in self.actors and to not in self.dead:
            # a real network copies: nobody shares memory
            self.feed(to, Received(sender, pickle.loads(pickle.dumps(message))))

    def publish(self) -> None:
        number = self.published
        self.published += 1
        settled = min((i & 0xFF for i in self.unacknowledged), default=number)
        item = Item(item_id(0, number), SLICE, settled=settled)
        self.unacknowledged[item.id] = item
        self.offer(item)

    def offer(self, item: Item) -> None:
        for node in ("A", "B"):
            if node in self.actors and node not in self.dead and self.actors[node].readers.copies(SLICE, 0.0):
                self.flying.append(("publisher-0", node, item))

    # -- what can happen next -------------------------------------------------------------------

    def choices(self) -> Iterator[tuple[Any, ...]]:
        seen = set()
        for index, letter in enumerate(self.flying):
            key = pickle.dumps(letter)
            if key in seen:
                continue
            seen.add(key)
            yield ("deliver", index)
            if self.budget.total:
                if self.budget.loss:
                    yield ("lose", index)
                if self.budget.duplication:
                    yield ("double", index)
        for timer in sorted(set(self.timers), key=repr):
            if timer[1] == "tick" or timer[1][0] == "drained":
                yield ("fire", timer)
            elif self.budget.total and self.budget.timeout:
                yield ("fault timer", timer)
        if self.published < self.items:
            yield ("publish",)
        if self.budget.total and self.budget.crash:
            yield from (("crash", name) for name in ("A", "B", "balancer"))

    def do(self, choice: tuple[Any, ...]) -> None:
        self.faults += choice[0] in ("lose", "double", "fault timer", "crash")
        match choice:
            case ("deliver", index):
                self.deliver(index)
            case ("lose", index):
                self.budget.spend("loss")
                del self.flying[index]
            case ("double", index):
                self.budget.spend("duplication")
                self.deliver(index, keep=True)
            case ("fire", timer):
                self.fire(timer)
            case ("fault timer", timer):
                self.budget.spend("timeout")
                self.fire(timer)
            case ("publish",):
                self.publish()
            case ("crash", name):
                self.budget.spend("crash")
                self.start(name)

    def fire(self, timer: tuple[str, Any]) -> None:
        self.timers = [t for t in self.timers if t != timer]
        self.feed(timer[0], Woken(timer[1]))

    def frozen(self) -> bytes:
        """Return the state as bytes; the order in which things wait does not matter, any may come next."""
        self.flying.sort(key=repr)
        self.timers = sorted(set(self.timers), key=repr)
        return pickle.dumps(self)

    # -- the law --------------------------------------------------------------------------------

    def broken(self) -> str | None:
        if len(self.owners()) > 1:
            return "two owners"
        for node in ("A", "B"):
            held = self.actors[node].held.get(SLICE)
            counts = Counter(held.state.get("data", ()) if held else ())
            if any(n > 1 for n in counts.values()):
                return "an item twice"
        return None

    def completed(self) -> str | None:
        """Go on fairly: deliver everything, fire every timer, offer every item again; say what is wrong at the end."""
        for _ in range(60):
            while self.flying:
                self.deliver(0)
                if (wrong := self.broken()) is not None:
                    return wrong
            if self._done():
                break
            while self.published < self.items:
                self.publish()
            for timer in list(dict.fromkeys(self.timers)):
                # a phase's timeout is a fault of its own: in fair weather only resends fire
                if timer in self.timers and timer[0] not in self.dead and (self.dead or timer[1][0] != "timeout"):
                    self.fire(timer)
            for item in list(self.unacknowledged.values()):
                self.offer(item)
        return self._judge()

    def _done(self) -> bool:
        return (
            self.published == self.items
            and (not self.unacknowledged or (bool(self.dead) and not self.owners()))
            and not self.actors["balancer"].sessions
            and (bool(self.dead) or not list(self.actors["balancer"].owed))
            and not any(t[1] == "tick" for t in self.timers if t[0] not in self.dead)
        )

    def owners(self) -> list[str]:
        living = [n for n in ("A", "B") if n in self.actors and n not in self.dead]
        return [n for n in living if (h := self.actors[n].held.get(SLICE)) and h.phase is State.OWNING]

    def _judge(self) -> str | None:
        owners = self.owners()
        if self.actors["balancer"].sessions:
            return "a session never ends"
        if self.dead and not owners:
            return self._with_the_dead()
        if list(self.actors["balancer"].owed) and not self.dead:
            return "a node never hears how its session ended"
        if len(owners) != 1:
            return f"{len(owners)} owners at the end"
        if not self.faults and owners != ["B"]:
            return "the slice did not move though nothing went wrong"
        if not self.dead and SLICE in self.actors["A" if owners == ["B"] else "B"].held:
            return "a remainder of the slice elsewhere"
        if self.actors["balancer"].map.owner[SLICE] != owners[0]:
            return "the balancer believes in another owner"
        ids = Counter(self.actors[owners[0]].held[SLICE].state.get("data", ()))
        wanted = {item_id(0, n): 1 for n in range(self.items)}
        return None if ids == wanted else f"items at the end: {dict(ids)}, published: {sorted(wanted)}"

    def _with_the_dead(self) -> str | None:
        """Say what is wrong when nobody living has the slice: only a dead node may, and only if nobody else could."""
        balancer = self.actors["balancer"]
        (living,) = {"A", "B"} - self.dead
        if SLICE in self.actors[living].held:
            return "a remainder of the slice on the living node"
        if balancer.map.owner[SLICE] not in self.dead or "slice/0" not in self.saved[balancer.map.owner[SLICE]]:
            return "nobody has the slice"
        if self.dead == {"B"} and "shipped" not in self.actors["A"].closed.values():
            return "A does not take the slice up again though B is dead"
        resumed = any(note.get("step") == "resume" for note in self.notes)
        if self.dead == {"A"} and self.merged and not resumed:
            return "B has the slice and does not open it though A is dead"
        return None

    def dies(self, name: str) -> str | None:
        """Let a node vanish, go on without it, then let it come back; say what is wrong at either end."""
        self.dead, self.faults = frozenset({name}), 1
        self.timers = [t for t in self.timers if t[0] != name]
        if (wrong := self.completed()) is not None:
            return f"without {name}: {wrong}"
        self.dead = frozenset()
        self.start(name)
        wrong = self.completed()
        return None if wrong is None else f"with {name} back: {wrong}"


def beginning(budget: Budget, items: int) -> World:
    """A owns the slice and has processed item 0, B has just joined, the session is ordered."""
    world = World(budget, items)
    world.start("balancer")
    world.start("A")
    while world.flying or world.timers:
        while world.flying:
            world.deliver(0)
        world.timers = [t for t in world.timers if t[1] == "tick"]
        for timer in list(world.timers):
            world.fire(timer)
        if not world.published:
            world.publish()
    world.start("B")
    return world


def search(budget: Budget, items: int = 2, limit: int = 10**9, *, dying: str = "") -> tuple[int, str | None]:
    """Visit every state that the choices reach, breadth first; return how many there are and what is wrong.

    At each state the world also goes on in fair weather to its end; ``dying`` is dead from there on, and comes back.
    """
    first = beginning(budget, items).frozen()
    seen = {first}
    queue = [first]
    for count, state in enumerate(queue):
        if count >= limit:
            break
        for choice in pickle.loads(state).choices():
            world = pickle.loads(state)
            world.do(choice)
            if (wrong := world.broken()) is not None:
                return count, wrong
            after = world.frozen()
            if after in seen:
                continue
            seen.add(after)
            queue.append(after)
            wrong = world.dies(dying) if dying else world.completed()
            if wrong is not None:
                return count, wrong
    return len(seen), None


def refused_by_giver() -> str | None:
    """The balancer wants the slice from B, which never had it."""
    world = beginning(Budget(), 1)
    world.actors["balancer"].algorithm.asked = True
    while world.flying:
        world.deliver(0)
    world.actors["balancer"].map.owner[SLICE] = "B"
    for command in world.actors["balancer"]._enqueue(Movement("B", "A", 1), 0.0):
        world.obey("balancer", command)
    world.faults = 1
    wrong = world.completed()
    return None if wrong == "the balancer believes in another owner" else wrong or "a refusal was overlooked"


def refused_by_taker() -> str | None:
    """B still has a remainder of the slice, for whatever reason, and refuses to take it."""
    world = beginning(Budget(), 1)
    world.actors["B"].held[SLICE] = Held(State.AWAITING, 99)
    world.faults = 1
    wrong = world.completed()
    return None if wrong == "a remainder of the slice elsewhere" and world.owners() == ["A"] else wrong or "overlooked"


def first_node_dies() -> str | None:
    """The first node dies before it answers its grant, and comes back."""
    world = World(Budget(), 0)
    world.start("balancer")
    world.start("A")
    world.deliver(0)
    for timer in list(world.timers):
        world.fire(timer)
    world.flying.clear()
    if world.actors["balancer"].sessions:
        return "a grant never ends"
    world.start("A")
    while world.flying:
        world.deliver(0)
    for timer in [t for t in world.timers if t[1][0] == "tell"]:
        world.fire(timer)
    while world.flying:
        world.deliver(0)
    return None if world.owners() == ["A"] else "a grant is forgotten"


def shipped_world() -> World:
    """A has sent the cargo, and it is under way."""
    world = beginning(Budget(), 1)
    while not any(isinstance(message, Cargo) for _, _, message in world.flying):
        if world.flying:
            world.deliver(0)
        else:
            for timer in [t for t in world.timers if t[1] == "tick" or t[1][0] == "drained"]:
                world.fire(timer)
    return world


def back_from_silence(back: str) -> str | None:
    """Both nodes fall silent with the cargo under way; one of them comes back, the other one is gone."""
    world = shipped_world()
    world.dead, world.faults = frozenset({"A", "B"}), 1
    for _ in range(5):  # the balancer asks one node, then the other, then the first again
        while world.flying:
            world.deliver(0)
        for timer in [t for t in world.timers if t[1][0] == "timeout"]:
            world.fire(timer)
    world.dead = frozenset({"A", "B"} - {back})
    world.start(back)
    wrong = world.completed()
    return wrong or (None if back == "B" or world.owners() == ["A"] else "A does not take the slice up again")


def readmitted_giver_dies() -> str | None:
    """A is readmitted though B has the cargo, but receipt and confirmation are lost and A dies."""
    world = shipped_world()
    world.deliver(next(i for i, letter in enumerate(world.flying) if isinstance(letter[2], Cargo)))
    world.flying.clear()
    for timer in [t for t in world.timers if t[1][0] == "timeout"]:
        world.fire(timer)
    while world.flying:
        world.deliver(0)
        world.flying = [letter for letter in world.flying if letter[0] == "balancer"]
    return world.dies("A")


def resuming_giver_dies() -> str | None:
    """B does not answer, A is readmitted, and dies before it hears that it may resume."""
    world = beginning(Budget(), 1)
    while world.flying:
        if world.flying[0][:2] == ("balancer", "B"):
            del world.flying[0]
            for timer in [t for t in world.timers if t[1][0] == "timeout"]:
                world.fire(timer)
        elif world.flying[0][1] == "A" and world.flying[0][2].step == ACTIONS[Phase.RESUMING].step:
            return world.dies("A")
        else:
            world.deliver(0)
    return "the session was not rolled back"
