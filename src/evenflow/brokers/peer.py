"""PEER assigns roles to brokers and redirects clients to brokers of the right role (Cheung 2006, section 3.2).

A broker with more than one neighbour is a cluster head; a broker whose only neighbour is a head is an edge broker.
With one or two brokers there are no roles. Heads serve publishers, edge brokers serve subscribers.
Roles only rise and are repeated, so messages about them may be late, repeated or lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any, Literal, NamedTuple

from evenflow.actor import Received, Send, Started, Wake, Woken

Kind = Literal["publisher", "subscriber", "control"]
REPEAT_S = 10.0  # how often a broker repeats its role and its redirects


class Role(IntEnum):
    """A broker's role; it never falls, because links are not removed."""

    NONE = 0
    EDGE = 1
    HEAD = 2


class Link(NamedTuple):
    """An event: this broker connects to that one."""

    to: str


class RoleIs(NamedTuple):
    """To a neighbour: my role. The first one also makes the sender a neighbour."""

    role: Role


class Attach(NamedTuple):
    """From a client: serve me."""

    kind: Kind


class Attached(NamedTuple):
    """To a client: I serve you now."""


class Redirect(NamedTuple):
    """To a client: go to that broker."""

    to: str


class Detach(NamedTuple):
    """From a client: another broker serves me."""


class Peer:
    """One broker's part in PEER.

    Parameters
    ----------
    name
        The broker.
    choose
        Chooses one of several brokers.
    overloaded
        Returns whether a broker is overloaded; subscribers are redirected to others if possible.
    """

    def __init__(
        self, name: str, choose: Callable[[Sequence[str]], str], overloaded: Callable[[str], bool] = lambda _: False
    ) -> None:
        self.name, self.choose, self.overloaded = name, choose, overloaded
        self.neighbours: dict[str, Role] = {}
        self.clients: dict[str, Kind] = {}
        self.role = Role.NONE

    def handle(self, event: Any, now: float) -> list[Any]:
        """Handle one event."""
        if isinstance(event, Link):
            self.neighbours.setdefault(event.to, Role.NONE)
            return self._settle(tell=True)
        if isinstance(event, Started | Woken):
            return [Wake(now + REPEAT_S, "peer"), *self._settle(tell=True)]
        if not isinstance(event, Received):
            return []
        match event.message:
            case RoleIs(role):
                known = self.neighbours.get(event.sender)
                self.neighbours[event.sender] = max(role, known or Role.NONE)
                return self._settle(tell=known is None)
            case Attach(kind):
                to = self._redirect_target(kind)
                if to is not None:
                    return [Send(event.sender, Redirect(to))]
                self.clients[event.sender] = kind
                return [Send(event.sender, Attached())]
            case Detach():
                self.clients.pop(event.sender, None)
        return []

    def _settle(self, *, tell: bool) -> list[Any]:
        """Update the role, tell the neighbours if it changed, and redirect clients that belong elsewhere."""
        before = self.role
        if len(self.neighbours) > 1:
            self.role = Role.HEAD
        elif Role.HEAD in self.neighbours.values():
            self.role = Role.EDGE
        said = [Send(near, RoleIs(self.role)) for near in self.neighbours] if tell or self.role is not before else []
        moves = ((client, self._redirect_target(kind)) for client, kind in self.clients.items())
        return [*said, *(Send(client, Redirect(to)) for client, to in moves if to is not None)]

    def _redirect_target(self, kind: Kind) -> str | None:
        """Return the broker where a client of this kind belongs, or None if here; control clients stay."""
        if kind == "publisher" and self.role is Role.EDGE:
            return next(iter(self.neighbours))
        if kind == "subscriber" and self.role is Role.HEAD:
            edges = [near for near, role in self.neighbours.items() if role is Role.EDGE]
            able = [near for near in edges if not self.overloaded(near)] or edges
            return self.choose(able) if able else None
        return None


class Client:
    """A publisher or subscriber with one broker; while it is redirected it also knows the next one.

    Messages between a client and a broker stay in order, as on a connection.
    """

    def __init__(self, kind: Kind) -> None:
        self.kind: Kind = kind
        self.home: str | None = None
        self.going: str | None = None

    def handle(self, event: Any, _now: float) -> list[Any]:
        """Handle one event; the client leaves its broker only when another one serves it."""
        if isinstance(event, Link):
            self.going = event.to
            return [Send(event.to, Attach(self.kind))]
        if not isinstance(event, Received):
            return []
        match event.message:
            case Redirect(to) if event.sender == (self.going or self.home):
                if to == self.home:  # redirected to the broker that serves it already
                    self.going = None
                    return []
                self.going = to
                return [Send(to, Attach(self.kind))]
            case Attached() if event.sender == self.going:
                old, self.home, self.going = self.home, self.going, None
                return [] if old is None else [Send(old, Detach())]
        return []


def roles_of(links: Iterable[tuple[str, str]]) -> dict[str, Role]:
    """Return the roles after brokers have joined in this order, each linked to an earlier one.

    Examples
    --------
    >>> {name: role.name for name, role in roles_of([("B1", "B0"), ("B2", "B0"), ("B3", "B2")]).items()}
    {'B1': 'EDGE', 'B0': 'HEAD', 'B2': 'HEAD', 'B3': 'EDGE'}
    """
    peers: dict[str, Peer] = {}
    for new, to in links:
        for name in (new, to):
            peers.setdefault(name, Peer(name, lambda names: names[0]))
        messages = [(new, command) for command in peers[new].handle(Link(to), 0.0)]
        while messages:
            sender, send = messages.pop(0)
            answers = peers[send.to].handle(Received(sender, send.message), 0.0)
            messages += [(send.to, answer) for answer in answers]
    return {name: peer.role for name, peer in peers.items()}
