"""Messages between workers, the master and the driver."""

from __future__ import annotations

from typing import Any, NamedTuple

from evenflow.triggers.app import Key, Row, Write
from evenflow.triggers.waiting import Invocation

Number = tuple[float, int]
"""Number of an instruction: when its master started, and a count; so it also grows across restarts of the master."""
NO_NUMBER: Number = (-1.0, 0)

# -- from worker to worker: events and groups; a channel delivers each exactly once and in order -------


class Events(NamedTuple):
    """Writes to rows whose home is the receiver; if workers ask for work, the sender's heartbeat is attached."""

    writes: tuple[Write, ...]
    beat: Heartbeat | None = None


class Lend(NamedTuple):
    """A trigger group for the receiver to run, with the rows it reads and the number of the instruction."""

    number: Number
    invocations: tuple[Invocation, ...]
    rows: dict[tuple[str, Key], Row]


class Refresh(NamedTuple):
    """A change, at its home, of a row that was lent."""

    table: str
    key: Key
    column: str
    entry: Any
    value: Any
    version: int


class Result(NamedTuple):
    """The writes of a borrowed trigger, and the version of the row that it read. The home fires the events."""

    lease: int
    read: int
    writes: tuple[Write, ...]


class Return(NamedTuple):
    """Leases of borrowed triggers that go on to another worker; the home lends them to it."""

    number: Number
    leases: tuple[int, ...]
    taker: str


# -- to and from the master: only the newest message counts, so any may be lost -------------------------


class Heartbeat(NamedTuple):
    """A worker's workload in predicted seconds at ``at``.

    ``asking`` is set when it has little work and wants more now. ``gave`` is the last instruction that it carried out
    and the seconds that it really gave. ``took`` is the last instruction from which it got a group.
    ``heard`` are the newest heartbeats of other workers that were attached to their events.
    """

    load_s: float
    waiting: int
    trigroup_s: float
    speed: float
    at: float
    asking: bool = False
    gave: tuple[Number, float] = (NO_NUMBER, 0.0)
    took: Number = NO_NUMBER
    heard: tuple[tuple[str, Heartbeat], ...] = ()


class Instruct(NamedTuple):
    """Instruction to give the taker ``groups`` groups, or with 0 as many as hold ``seconds`` of work.

    With ``share`` it is that share of the work behind the first part ``after`` of the queue, measured on arrival.
    """

    number: Number
    taker: str
    seconds: float
    groups: int = 0
    share: float = 0.0
    after: float = 0.0


# -- between a worker and its driver --------------------------------------------------------------------


class Execute(NamedTuple):
    """Request to the driver to run one trigger; it answers with ``Executed`` when the execution ends."""

    ticket: int
    trigger: str
    size: float


class Executed(NamedTuple):
    """End of an execution; ``seconds`` is ``None`` if the time is known only afterwards, and then ``Took`` follows."""

    ticket: int
    seconds: float | None


class Took(NamedTuple):
    """The seconds that an execution took, for drivers that measure."""

    trigger: str
    size: float
    seconds: float
