"""What the balancer can be told, and what it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evenflow.errors import BadInput


@dataclass(frozen=True, slots=True)
class BalancerSettings:
    """Of the master and the local schedulers.

    Parameters
    ----------
    heartbeat_s, tunder_s, trigroup_s
        As published; ``tunder_s`` must exceed a decision, a heartbeat and the transmission of a group together.
    decision_s
        What one decision of the master takes.
    latency_s, transfer_s
        One message, and each trigger that it carries.
    """

    heartbeat_s: float = 5.0
    tunder_s: float = 5.5
    trigroup_s: float = 1.0
    decision_s: float = 0.01
    latency_s: float = 0.005
    transfer_s: float = 0.0005

    @property
    def asking_s(self) -> float:
        """How long it takes from asking for work until a small group is there."""
        return self.decision_s + 3 * self.latency_s

    @property
    def worth_s(self) -> float:
        """How much more work than its own makes it worth asking: less is run sooner than it is moved and told."""
        return 8 * self.asking_s

    def check_tunder(self, trigger_s: float, where: str = "--set tunder_s") -> None:
        """Refuse a ``tunder_s`` with which a low-load worker would run dry before its group arrives (section 2.2).

        Examples
        --------
        >>> BalancerSettings().check_tunder(0.1)
        >>> BalancerSettings(tunder_s=4).check_tunder(0.1)
        Traceback (most recent call last):
        evenflow.errors.BadInput: --set tunder_s: given 4, allowed is more than 5.02 (decision 0.01 s + heartbeat 5 s + transmission of a group 0.01 s).
        """
        group_s = self.latency_s + self.transfer_s * max(1.0, self.trigroup_s / trigger_s)
        least = self.decision_s + self.heartbeat_s + group_s
        if self.tunder_s <= least:
            parts = f"decision {self.decision_s:g} s + heartbeat {self.heartbeat_s:g} s"
            allowed = f"more than {least:.6g} ({parts} + transmission of a group {group_s:g} s)"
            raise BadInput(f"{self.tunder_s:g}", allowed, where)


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Of one worker.

    Parameters
    ----------
    coalesce
        Whether at most one trigger per row and type waits; otherwise every change event queues one.
    order, cost_power
        Whether triggers run in the order of their ``arrival``, or first those with the largest ``gain``: what their
        application says they would change, over the predicted seconds to this power. With a power of 1 large rows wait
        so long that loops among them are all that is left at the end.
    speed, slots
        How fast it runs triggers, and how many at once.
    heartbeat_s
        Seconds between heartbeats; 0 leaves them to the driver.
    trigroup_s
        Size of a trigger group in predicted seconds.
    estimate
        ``mean`` (published) or ``line``.
    reads
        Whether an execution reads its row when it starts or when it ends.
    asks, ask_below_s
        Whether it asks for work, and below which workload: early enough for a group to arrive before it is idle.
    worth_s, patience_s
        It asks while somebody has more work than this, as far as it has heard, and again when nothing has come for
        this long.
    resend_s
        Seconds after which unacknowledged messages to other workers are sent again; 0 trusts the network.
    lease_s
        Seconds after which a group whose results are missing is taken back; 0 waits for ever.
    direct
        Whether a borrowed trigger fires its events itself, instead of its home. It saves the home most of the work,
        but needs a driver whose messages never overtake each other on any way, coalescing, and leases that are kept.
    durable
        Whether its state survives it: everything is saved before anything is told to others.
    record
        Whether every effect goes on the trace.
    """

    coalesce: bool = True
    order: Literal["arrival", "gain"] = "arrival"
    cost_power: float = 0.7
    speed: float = 1.0
    slots: int = 1
    heartbeat_s: float = 5.0
    trigroup_s: float = 1.0
    estimate: str = "mean"
    first_s: float = 0.1
    reads: Literal["start", "end"] = "start"
    asks: bool = False
    ask_below_s: float = 0.0
    worth_s: float = 0.0
    patience_s: float = 0.1
    resend_s: float = 0.0
    lease_s: float = 0.0
    direct: bool = False
    durable: bool = False
    record: bool = False

    def __post_init__(self) -> None:
        if self.direct and (self.lease_s > 0 or not self.coalesce):
            raise BadInput("direct with lease_s or without coalesce", "direct with coalesce and lease_s 0", "direct")
