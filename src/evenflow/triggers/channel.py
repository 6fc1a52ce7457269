"""One worker's messages to another arrive exactly once and in order, though the network loses, repeats and reorders.

The sender numbers its messages and sends each again until it is acknowledged; the receiver passes on the next number
only. Both sides belong to the workers' state: what was saved with an effect cannot bring about the effect again.
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
    """Everything up to this number has arrived, and its effect is durable."""

    number: int


@dataclass(slots=True)
class Channels:
    """The channels of one worker, to and from every other.

    With ``numbered`` off the network is trusted: bodies travel bare.
    """

    numbered: bool
    sent: dict[str, int] = field(default_factory=dict)
    unacknowledged: dict[str, dict[int, Any]] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=dict)
    early: dict[str, dict[int, Any]] = field(default_factory=dict)

    def send(self, to: str, body: Any) -> Send:
        """Send one body."""
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
        """Forget what has arrived."""
        waiting = self.unacknowledged.get(sender, {})
        for n in [n for n in waiting if n <= number]:
            del waiting[n]

    def resend(self) -> list[Send]:
        """Send everything again that is not acknowledged."""
        return [Send(to, Packet(n, b)) for to, bodies in self.unacknowledged.items() for n, b in bodies.items()]

    @property
    def quiet(self) -> bool:
        """Whether nothing waits for an acknowledgement."""
        return not any(self.unacknowledged.values())
