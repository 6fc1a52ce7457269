"""PEER: roles follow from neighbours, clients from roles, in whatever order messages arrive (section 3.2)."""

from __future__ import annotations

import copy
import random

import pytest
from exact import exact

from evenflow.actor import Received, Send, Woken
from evenflow.brokers.peer import Attach, Attached, Client, Detach, Link, Peer, Redirect, Role, RoleIs, roles_of


def sent(commands):
    return [(c.to, c.message) for c in commands if isinstance(c, Send)]


def test_two_brokers_have_no_roles_and_the_third_makes_a_head():
    assert roles_of([("B1", "B0")]) == {"B1": Role.NONE, "B0": Role.NONE}
    assert roles_of([("B1", "B0"), ("B2", "B0")]) == {"B1": Role.EDGE, "B0": Role.HEAD, "B2": Role.EDGE}
    # A new broker connects to an edge broker, which becomes a head; the old head stays one.
    assert roles_of([("B1", "B0"), ("B2", "B0"), ("B3", "B1")])["B1"] is Role.HEAD


def test_a_new_head_sends_its_subscribers_to_edges_and_keeps_what_controls():
    head = Peer("B0", lambda names: names[-1])
    for client, kind in (("S1", "subscriber"), ("P1", "publisher"), ("C1", "control")):
        assert exact(sent(head.handle(Received(client, Attach(kind)), 0.0))) == exact([(client, Attached())])
    assert exact(head.handle(Received("B1", RoleIs(Role.NONE)), 0.0)) == exact([Send("B1", RoleIs(Role.NONE))])
    assert exact(sent(head.handle(Received("B2", RoleIs(Role.NONE)), 0.0))) == exact(
        [("B1", RoleIs(Role.HEAD)), ("B2", RoleIs(Role.HEAD))]
    )
    assert exact(sent(head.handle(Received("B1", RoleIs(Role.EDGE)), 0.0))) == exact([("S1", Redirect("B1"))])
    assert exact(sent(head.handle(Received("B2", RoleIs(Role.EDGE)), 0.0))) == exact([("S1", Redirect("B2"))])
    head.handle(Received("S1", Detach()), 0.0)
    assert head.clients == {"P1": "publisher", "C1": "control"}


def test_an_edge_sends_publishers_to_its_head_and_takes_subscribers():
    edge = Peer("B1", random.Random(1).choice)
    edge.handle(Received("P1", Attach("publisher")), 0.0)
    assert exact(sent(edge.handle(Received("B0", RoleIs(Role.HEAD)), 0.0))) == exact(
        [("B0", RoleIs(Role.EDGE)), ("P1", Redirect("B0"))]
    )
    assert exact(sent(edge.handle(Received("P2", Attach("publisher")), 0.0))) == exact([("P2", Redirect("B0"))])
    assert exact(sent(edge.handle(Received("S1", Attach("subscriber")), 0.0))) == exact([("S1", Attached())])


def test_a_client_that_asks_again_is_answered_again():
    edge = Peer("B1", random.Random(1).choice)
    edge.handle(Received("B0", RoleIs(Role.HEAD)), 0.0)
    for _ in range(2):
        assert exact(sent(edge.handle(Received("S1", Attach("subscriber")), 0.0))) == exact([("S1", Attached())])
        assert exact(sent(edge.handle(Received("P1", Attach("publisher")), 0.0))) == exact([("P1", Redirect("B0"))])
    assert edge.clients == {"S1": "subscriber"}


def test_overloaded_edges_are_avoided_while_there_is_another():
    full = {"B1"}
    head = Peer("B0", lambda names: names[0], full.__contains__)
    for name in ("B1", "B2"):
        head.handle(Received(name, RoleIs(Role.EDGE)), 0.0)
    assert exact(sent(head.handle(Received("S1", Attach("subscriber")), 0.0))) == exact([("S1", Redirect("B2"))])
    full.add("B2")
    assert exact(sent(head.handle(Received("S2", Attach("subscriber")), 0.0))) == exact([("S2", Redirect("B1"))])


class BrokerWorld:
    """Brokers that join at any moment, their clients, and what is under way."""

    def __init__(self, clients, links, losses=0):
        names = dict.fromkeys(name for link in links for name in link)
        self.actors = {name: Peer(name, lambda names: names[-1]) for name in names}
        self.letters, self.links, self.losses, self.rounds = [], list(links), losses, 3
        for name, (kind, to) in clients.items():
            self.actors[name] = Client(kind)
            self.hand(name, Link(to))

    def hand(self, name, event):
        self.letters += [(name, c.to, c.message) for c in self.actors[name].handle(event, 0.0) if isinstance(c, Send)]

    def choices(self):
        seen = set()
        for place, (sender, to, _) in enumerate(self.letters):
            connection = isinstance(self.actors[sender], Client) or isinstance(self.actors[to], Client)
            if connection and (sender, to) in seen:
                continue  # it keeps the order
            seen.add((sender, to))
            yield "deliver", place
            if self.losses and not connection:
                yield "lose", place
        if self.links:
            yield "link", 0
        elif not self.letters and self.rounds:
            yield "repeat", 0

    def after(self, what, place):
        world = copy.deepcopy(self)
        if what == "link":
            new, to = world.links.pop(0)
            world.hand(new, Link(to))
        elif what == "repeat":  # nothing is under way: everybody says what he is once more
            world.rounds -= 1
            for name, actor in world.actors.items():
                if isinstance(actor, Peer):
                    world.hand(name, Woken("peer"))
        else:
            sender, to, message = world.letters.pop(place)
            if what == "lose":
                world.losses -= 1
            else:
                world.hand(to, Received(sender, message))
        return world

    def print(self):
        parts = [sorted(map(repr, self.letters)), self.links, self.losses, self.rounds]
        for name, actor in self.actors.items():
            parts.append((name, sorted(vars(actor).items(), key=lambda item: item[0])))
        return repr([(p if not isinstance(p, tuple) else [q for q in p[1] if not callable(q[1])]) for p in parts])

    def faults(self):
        found = []
        for name, actor in self.actors.items():
            if isinstance(actor, Peer):
                continue
            homes = [b for b, a in self.actors.items() if isinstance(a, Peer) and name in a.clients]
            right = {"publisher": Role.HEAD, "subscriber": Role.EDGE}[actor.kind]
            if homes != [actor.home] or actor.going or self.actors[actor.home].role is not right:
                found.append(f"{name} lives at {actor.home}, goes to {actor.going}, is in the books of {homes}")
        return found


@pytest.mark.parametrize(
    ("clients", "links", "losses"),
    [
        ({"S1": ("subscriber", "B0"), "P1": ("publisher", "B1")}, [("B1", "B0"), ("B2", "B0")], 1),
        ({"S1": ("subscriber", "B1")}, [("B1", "B0"), ("B2", "B0"), ("B3", "B1")], 0),
    ],
)
def test_in_every_order_clients_end_where_they_belong(clients, links, losses):
    seen, open_worlds, ends = set(), [BrokerWorld(clients, links, losses)], 0
    while open_worlds:
        world = open_worlds.pop()
        served = [n for n, a in world.actors.items() if isinstance(a, Client) and a.home]
        for name in served:  # who was served once is served always
            assert any(name in a.clients for a in world.actors.values() if isinstance(a, Peer))
        choices = list(world.choices())
        if not choices:
            ends += 1
            assert world.faults() == []
        for choice in choices:
            following = world.after(*choice)
            if (text := following.print()) not in seen:
                seen.add(text)
                open_worlds.append(following)
    assert ends
    assert len(seen) > 100
