"""Routing tables against a plain comparison: who should get a publication gets it, nobody else, and nothing is resent."""

from __future__ import annotations

import random
from collections import deque

import pytest

from evenflow.brokers.catalogue import Catalogue
from evenflow.brokers.routing import Forward, Routing
from evenflow.subscriptions.language import matches, parse_subscription

LINKS = [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e"), ("d", "f")]
ADVERTS = ["[x,isPresent,0]", "[x,>,3]", "[y,isPresent,0]", "[x,<,8],[y,>,0]"]
SUBS = ["[x,>,1]", "[x,>,5]", "[x,>,5],[x,<,7]", "[y,<,4]", "[x,=,6]", "[x,<,2]", "[z,=,1]", "[x,>,1],[y,>,1]"]
PUBS = [{"x": x, "y": y} for x in range(0, 10, 2) for y in (0, 2, 5)]


class Net:
    """A tree of brokers whose messages arrive in order."""

    def __init__(self) -> None:
        self.catalogue = Catalogue()
        self.near: dict[str, list[str]] = {}
        for one, other in LINKS:
            self.near.setdefault(one, []).append(other)
            self.near.setdefault(other, []).append(one)
        self.at = {name: Routing(self.catalogue, near) for name, near in self.near.items()}
        self.sent = 0

    def key(self, text: str) -> int:
        return self.catalogue.key(parse_subscription(text))

    def settle(self, source: str, forwards: list[Forward]) -> None:
        waiting = deque((source, forward) for forward in forwards)
        while waiting:
            source, (to, verb, what) = waiting.popleft()
            self.sent += 1
            routing = self.at[to]
            if verb == "advertise":
                found = routing.advertise(*what, source)
            elif verb == "unadvertise":
                found = routing.unadvertise(what[0])
            else:
                found = getattr(routing, verb)(what, source)
            waiting.extend((to, forward) for forward in found)

    def reached(self, start: str, publication: dict[str, int]) -> set[str]:
        keys = [key for key in range(len(self.catalogue)) if matches(self.catalogue.subscription(key), publication)]
        found, waiting = set(), [(start, "publisher")]
        while waiting:
            here, source = waiting.pop()
            for hop in self.at[here].hops(keys, source):
                if hop in self.near:
                    waiting.append((hop, here))
                else:
                    found.add(here)
        return found


@pytest.mark.parametrize("seed", range(25))
def test_publications_reach_exactly_those_who_want_them(seed):
    chance, net = random.Random(seed), Net()
    adverts: dict[str, tuple[str, str]] = {}
    subs: list[tuple[str, str]] = []
    for step in range(40):
        broker = chance.choice(list(net.near))
        kind = chance.random()
        if kind < 0.2 or not adverts:
            text = chance.choice(ADVERTS)
            adverts[f"p{step}"] = (broker, text)
            net.settle(broker, net.at[broker].advertise(f"p{step}", net.key(text), "clients"))
        elif kind < 0.27:
            name = chance.choice(list(adverts))
            broker, _ = adverts.pop(name)
            net.settle(broker, net.at[broker].unadvertise(name))
        elif kind < 0.7 or not subs:
            text = chance.choice(SUBS)
            subs.append((broker, text))
            net.settle(broker, net.at[broker].subscribe(net.key(text), "clients"))
        else:
            broker, text = subs.pop(chance.randrange(len(subs)))
            net.settle(broker, net.at[broker].unsubscribe(net.key(text), "clients"))
        for start, text in adverts.values():
            for publication in PUBS:
                if matches(parse_subscription(text), publication):
                    wanted = {b for b, s in subs if matches(parse_subscription(s), publication)}
                    assert net.reached(start, publication) == wanted


def test_a_covered_subscription_is_not_forwarded():
    net = Net()
    net.settle("a", net.at["a"].advertise("p", net.key("[x,isPresent,0]"), "clients"))
    net.settle("e", net.at["e"].subscribe(net.key("[x,>,1]"), "clients"))
    before = net.sent
    net.settle("f", net.at["f"].subscribe(net.key("[x,>,5]"), "clients"))
    assert net.sent - before == 1  # to d, which needs to know, and no further


def test_what_was_covered_is_forwarded_before_the_withdrawal():
    net = Net()
    net.settle("a", net.at["a"].advertise("p", net.key("[x,isPresent,0]"), "clients"))
    for text in ("[x,>,1]", "[x,>,5]"):
        net.settle("e", net.at["e"].subscribe(net.key(text), "clients"))
    forwards = net.at["e"].unsubscribe(net.key("[x,>,1]"), "clients")
    assert [(f.verb, f.what) for f in forwards] == [
        ("subscribe", net.key("[x,>,5]")),
        ("unsubscribe", net.key("[x,>,1]")),
    ]


def test_covered_advertisements_are_not_flooded():
    net = Net()
    net.settle("a", net.at["a"].advertise("p", net.key("[x,isPresent,0]"), "clients"))
    assert net.at["a"].advertise("q", net.key("[x,>,3]"), "clients") == []


def test_a_lost_neighbour_is_forgotten_and_told_again():
    net = Net()
    net.settle("a", net.at["a"].advertise("p", net.key("[x,isPresent,0]"), "clients"))
    net.settle("f", net.at["f"].subscribe(net.key("[x,>,1]"), "clients"))
    net.settle("d", net.at["d"].unlink("f"))
    assert net.reached("a", {"x": 6}) == set()
    net.at["f"] = Routing(net.catalogue, ["d"])
    net.settle("d", net.at["d"].link("f"))
    net.settle("f", net.at["f"].subscribe(net.key("[x,>,1]"), "clients"))
    assert net.reached("a", {"x": 6}) == {"f"}
