"""What workers and the master tell each other."""

from __future__ import annotations

from typing import Any, NamedTuple

from evenflow.triggers.app import Key, Row, Write
from evenflow.triggers.waiting import Invocation

Number = tuple[float, int]
"""Of an instruction: when its master began, and a count; so it grows over the master's restarts too."""
NO_NUMBER: Number = (-1.0, 0)

# -- from worker to worker: events and groups; over a channel, each exactly once and in order ----------


class Events(NamedTuple):
    """Writes to rows whose home is the receiver; where workers ask for work, the sender's heartbeat rides along."""

    writes: tuple[Write, ...]
    beat: Heartbeat | None = None


class Lend(NamedTuple):
    """A trigger group with the rows it reads; it is to be run by the receiver, as an instruction wants it."""

    number: Number
    invocations: tuple[Invocation, ...]
    rows: dict[tuple[str, Key], Row]


class Refresh(NamedTuple):
    """A row that was lent has changed at its home."""

    table: str
    key: Key
    column: str
    entry: Any
    value: Any
    version: int


class Result(NamedTuple):
    """What a borrowed trigger wrote, and the version of the row that it read. Its events are fired at home."""

    lease: int
    read: int
    writes: tuple[Write, ...]


class Return(NamedTuple):
    """Borrowed triggers that go on to another worker; their home lends them anew."""

    number: Number
    leases: tuple[int, ...]
    taker: str


# -- to and from the master: only the newest counts, so any may be lost ---------------------------------


class Heartbeat(NamedTuple):
    """A worker's workload in predicted seconds at ``at``.

    ``asking`` when it runs low and wants work now; ``gave`` is the last instruction it carried out and the seconds
    that it really gave, ``took`` the last instruction from which it got a group. ``heard`` are the newest heartbeats
    of others that rode along with their events.
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
    """Transfer instruction: give the taker so many groups, or with 0 as many as hold so many seconds of work.

    With ``share`` it is that part of whatever waits when the instruction arrives, behind the first ``after`` of it.
    """

    number: Number
    taker: str
    seconds: float
    groups: int = 0
    share: float = 0.0
    after: float = 0.0


# -- between a worker and its driver --------------------------------------------------------------------


class Execute(NamedTuple):
    """Ask the driver to run one trigger; it answers with ``Executed`` when its time is over."""

    ticket: int
    trigger: str
    size: float


class Executed(NamedTuple):
    """The time of an execution is over; ``None`` when it is only known afterwards, then ``Took`` follows."""

    ticket: int
    seconds: float | None


class Took(NamedTuple):
    """How long an execution took, for drivers that measure."""

    trigger: str
    size: float
    seconds: float
