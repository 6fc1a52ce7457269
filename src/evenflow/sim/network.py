"""The network promises nothing: a message may come late, twice, out of order, or never."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Partition:
    """Until ``until``, nothing passes between ``inside`` and everybody else."""

    inside: frozenset[str]
    until: float

    def cuts(self, sender: str, to: str) -> bool:
        """Say whether the two are on different sides."""
        return (sender in self.inside) != (to in self.inside)


@dataclass(slots=True)
class Network:
    """Decides when and how often a message arrives.

    Parameters
    ----------
    delay, jitter
        Seconds on the way: ``delay`` plus up to ``jitter`` more, uniformly.
        Jitter alone reorders messages that are sent close together.
    loss, duplication, reordering
        Probability of each per message; a reordered message waits up to ``late`` seconds longer.
    late
        The longest extra wait of a reordered message or a second copy.
    intercept
        Sees every message first and may decide its fate: a list of delays, or ``None`` for no opinion.
    on_fault
        Told about each fault: kind, sender, addressee, message, time.
    """

    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    late: float = 1.0
    intercept: Callable[[str, str, Any, float], list[float] | None] | None = None
    on_fault: Callable[[str, str, str, Any, float], object] | None = None
    partitions: list[Partition] = field(default_factory=list)
    _random: Callable[[], float] = field(default=random.random, init=False, repr=False)

    def bind(self, stream: random.Random) -> None:
        """Take chance from this stream."""
        self._random = stream.random

    def heal(self) -> None:
        """Stop every fault from now on; plain delay and jitter stay."""
        self.loss = self.duplication = self.reordering = 0.0
        self.intercept = None
        self.partitions.clear()

    def copies(self, sender: str, to: str, message: object, now: float) -> list[float]:
        """Return the delay of each copy that will arrive; an empty list is a lost message."""
        if self.partitions and self._parted(sender, to, now):
            self._fault("partition", sender, to, message, now)
            return []
        if self.intercept is not None:
            fate = self.intercept(sender, to, message, now)
            if fate is not None:
                return fate
        draw = self._random
        delay = self.delay + self.jitter * draw()
        if self.loss or self.duplication or self.reordering:
            luck = draw()
            if luck < self.loss:
                self._fault("loss", sender, to, message, now)
                return []
            luck -= self.loss
            if luck < self.duplication:
                self._fault("duplication", sender, to, message, now)
                return [delay, delay + self.late * draw()]
            luck -= self.duplication
            if luck < self.reordering:
                self._fault("reordering", sender, to, message, now)
                return [delay + self.late * draw()]
        return [delay]

    def _parted(self, sender: str, to: str, now: float) -> bool:
        self.partitions[:] = [p for p in self.partitions if p.until > now]
        return any(p.cuts(sender, to) for p in self.partitions)

    def _fault(self, kind: str, sender: str, to: str, message: object, now: float) -> None:
        if self.on_fault is not None:
            self.on_fault(kind, sender, to, message, now)
