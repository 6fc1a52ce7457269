"""Channels between workers: messages arrive exactly once and in order over a network that loses, repeats and reorders.

The sender numbers its messages and repeats each until it is acknowledged. The receiver passes them on in the order of
their numbers. Both sides are part of the workers' state: the number is saved with the effect of the message, so the
message cannot take effect twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from evenflow.actor import Send


class Packet(NamedTuple):
    """One numbered message."""

    number: int
    body: Any


class Ack(NamedTuple):
    """Acknowledgement: every message up to this number has arrived, and its effect is durable."""

    number: int


@dataclass(slots=True)
class Channels:
    """The channels of one worker, to and from every other.

    Without ``numbered`` the network is trusted: bodies are sent without numbers.
    """

    numbered: bool
    sent: dict[str, int] = field(default_factory=dict)
    unacknowledged: dict[str, dict[int, Any]] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=dict)
    early: dict[str, dict[int, Any]] = field(default_factory=dict)

    def send(self, to: str, body: Any) -> Send:
        """Return the command that sends one body."""
        if not self.numbered:
            return Send(to, body)
        number = self.sent.get(to, 0) + 1
        self.sent[to] = number
        self.unacknowledged.setdefault(to, {})[number] = body
        return Send(to, Packet(number, body))

    def receive(self, sender: str, packet: Packet) -> tuple[list[Any], Send]:
        """Return the bodies that are due now, in order, and the acknowledgement."""
        expected = self.received.get(sender, 0) + 1
        waiting = self.early.setdefault(sender, {})
        if packet.number >= expected:
            waiting[packet.number] = packet.body
        due = []
        while expected in waiting:
            due.append(waiting.pop(expected))
            expected += 1
        self.received[sender] = expected - 1
        return due, Send(sender, Ack(expected - 1))

    def acknowledged(self, sender: str, number: int) -> None:
        """Drop the messages up to this number, because they have arrived."""
        waiting = self.unacknowledged.get(sender, {})
        for n in [n for n in waiting if n <= number]:
            del waiting[n]

    def resend(self) -> list[Send]:
        """Return the commands that repeat every unacknowledged message."""
        return [Send(to, Packet(n, b)) for to, bodies in self.unacknowledged.items() for n, b in bodies.items()]

    @property
    def quiet(self) -> bool:
        """Whether every message is acknowledged."""
        return not any(self.unacknowledged.values())
