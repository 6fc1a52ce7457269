"""The state of a worker."""

from __future__ import annotations

from dataclasses import dataclass, field

from evenflow.triggers.app import Key, RowView
from evenflow.triggers.channel import Channels
from evenflow.triggers.estimate import WorkloadEstimator
from evenflow.triggers.leases import Copies, Leases
from evenflow.triggers.messages import NO_NUMBER, Number
from evenflow.triggers.store import Rows
from evenflow.triggers.waiting import Invocation, Waiting


@dataclass(slots=True)
class WorkerState:
    """The whole state of a worker; it can be pickled, saved and sent."""

    rows: Rows
    waiting: Waiting
    estimate: WorkloadEstimator
    channels: Channels
    running: dict[int, tuple[Invocation, RowView, int]] = field(default_factory=dict)
    ticket: int = 0
    applied: dict[tuple[str, Key], int] = field(default_factory=dict)  # row version that the last applied effect read
    leases: Leases = field(default_factory=Leases)
    copies: Copies = field(default_factory=Copies)
    missed: dict[tuple[str, Key], int] = field(default_factory=dict)  # row version of the last postponed event
    gave: tuple[Number, float] = (NO_NUMBER, 0.0)
    took: Number = NO_NUMBER
    counts: dict[str, int] = field(default_factory=dict)
    busy_s: float = 0.0
    last_done: float = 0.0
