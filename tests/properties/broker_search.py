"""All delivery orders of one session between two edge brokers and two subscribers, with lost messages and early time-outs.

What is searched begins when the giver has decided: everything from the announcement on may be delayed at will.
Messages of brokers may be lost; those of a subscriber to one broker stay in order, as on a connection, and arrive.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from evenflow.actor import Received, Send, Started, Wake, Woken
from evenflow.brokers import messages as m
from evenflow.brokers.catalogue import Catalogue
from evenflow.brokers.edge import EdgeBroker
from evenflow.brokers.load import Load
from evenflow.brokers.pie import Pie
from evenflow.brokers.settings import BrokerSettings
from evenflow.brokers.status import Status
from evenflow.brokers.subscriber import Connect, Depart, Subscriber
from evenflow.subscriptions.language import parse_subscription
from evenflow.subscriptions.press import Arrived

SETTINGS = BrokerSettings(press_samples=2)
TIMERS = ("given", "taken", "reply")


@dataclass
class World:
    """Two brokers, their subscribers, and what is under way."""

    actors: dict[str, Any]
    letters: list[tuple[str, str, Any]] = field(default_factory=list)
    timers: list[tuple[str, Any]] = field(default_factory=list)
    losses: int = 1
    early: int = 1  # time-outs that come although something is still under way
    now: float = 100.0

    def obey(self, name: str, commands: list[Any]) -> None:
        """Put what an actor does under way; other brokers and heads do not answer."""
        for command in commands:
            if isinstance(command, Send) and command.to in self.actors:
                self.letters.append((name, command.to, command.message))
            elif isinstance(command, Depart):
                self.letters.append((name, command.broker, m.Unsubscribe()))
            elif isinstance(command, Wake) and _matters(command.name):
                self.timers.append((name, command.name))

    def hand(self, name: str, event: Any) -> None:
        """Let an actor handle an event."""
        self.now += 1.0
        self.obey(name, self.actors[name].handle(event, self.now))

    def choices(self) -> Iterator[tuple[str, int]]:
        """List what may happen next."""
        seen = set()
        for place, (sender, to, _) in enumerate(self.letters):
            if sender.startswith("S"):  # a connection keeps the order
                if (sender, to) in seen:
                    continue
                seen.add((sender, to))
            elif self.losses:
                yield "lose", place
            yield "deliver", place
        if not self.letters or self.early:
            for place in range(len(self.timers)):
                yield "time out", place

    def after(self, choice: tuple[str, int]) -> World:
        """Let one thing happen, in a copy."""
        world = copy.deepcopy(self, {id(CATALOGUE): CATALOGUE, id(SETTINGS): SETTINGS})
        what, place = choice
        if what == "time out":
            world.early -= bool(world.letters)
            name, timer = world.timers.pop(place)
            world.hand(name, Woken(timer))
        else:
            sender, to, message = world.letters.pop(place)
            if what == "deliver":
                world.hand(to, Received(sender, message))
            else:
                world.losses -= 1
        return world

    def print(self) -> str:
        """Tell worlds apart; the time does not matter here."""
        parts: list[object] = [self.losses, self.early, sorted(map(repr, self.letters)), sorted(map(repr, self.timers))]
        for name, actor in self.actors.items():
            if isinstance(actor, Subscriber):
                parts.append((name, actor.home, actor.moving))
            else:
                giving, subscribers = actor.giving, actor.subscribers
                parts += [name, actor.status, giving and (giving.session, giving.moving, giving.asked), actor.taking]
                parts += [actor.outcomes, actor.verdicts, sorted(subscribers.key_of), sorted(subscribers.leaving)]
        return repr(parts)

    def faults(self) -> list[str]:
        """Say what is wrong when nothing is under way any more."""
        found = []
        for name, actor in self.actors.items():
            if isinstance(actor, Subscriber):
                homes = [b for b in ("B1", "B2") if name in self.actors[b].subscribers.key_of]
                if homes != [actor.home] or actor.moving:
                    found.append(f"{name} lives at {actor.home}, moves {actor.moving}, is in the books of {homes}")
            elif actor.giving or actor.taking or actor.subscribers.leaving.keys() - actor.subscribers.key_of.keys():
                found.append(f"{name} is still in a session")
        return found


def _matters(timer: Any) -> bool:
    """Tell the timers of the session from those of PIE and detection."""
    return timer != "pie" if isinstance(timer, str) else timer[0] in TIMERS


CATALOGUE = Catalogue()
KEY = CATALOGUE.key(parse_subscription("[class,eq,'A']"))


def begin(losses: int, early: int) -> World:
    """Bring a session to the moment of its decision: both subscribers are ordered to move."""

    def broker(name: str, load: Load) -> EdgeBroker:
        actor = EdgeBroker(name, "C", "B0", SETTINGS, CATALOGUE, lambda low, _high: low)
        actor.handle(Started({}), 0.0)
        actor.handle(m.Measured(load), 0.0)
        actor.status = Status.OK
        return actor

    giver = broker("B1", Load(20, 0.1, 12.0, 1000.0, 1e6, 1.0))
    taker = broker("B2", Load(20, 0.001, 1.0, 1000.0, 1e6, 0.001))
    world = World({"B1": giver, "B2": taker}, losses=losses, early=early)
    for name in ("S1", "S2"):
        world.actors[name] = Subscriber(KEY)
        world.hand(name, Connect("B1"))
    while world.letters:
        world = world.after(("deliver", 0))
    giver, taker = world.actors["B1"], world.actors["B2"]
    world.hand("B1", Received("B2", Pie("B2", "C", Status.OK, (0.001, 0.001, 0.001))))
    while world.letters:
        world = world.after(("deliver", 0))
    world.timers = [timer for timer in world.timers if timer[1][0] != "reply"]
    world.hand("B1", Arrived([(KEY,), (KEY,)]))
    return world


def search(losses: int = 1, early: int = 1, limit: int = 200_000) -> tuple[int, int, list[str]]:
    """Visit every world that can be reached; give their number, that of the ends, and what was wrong at an end."""
    start = begin(losses, early)
    stack, seen, ends, faults = [start], {start.print()}, 0, []
    while stack and len(seen) < limit:
        world = stack.pop()
        choices = list(world.choices())
        if not choices:
            ends += 1
            faults += world.faults()
        for choice in choices:
            following = world.after(choice)
            mark = following.print()
            if mark not in seen:
                seen.add(mark)
                stack.append(following)
    return len(seen), ends, faults
