"""Settings of the balancer and of the workers, with their checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evenflow.errors import BadInput


@dataclass(frozen=True, slots=True)
class BalancerSettings:
    """Settings of the master and the local schedulers, in seconds.

    Parameters
    ----------
    heartbeat_s, tunder_s, trigroup_s
        As published; ``tunder_s`` must exceed a decision, a heartbeat and the transmission of a group together.
    decision_s
        Seconds that one decision of the master takes.
    latency_s, transfer_s
        Seconds per message, and seconds per trigger in it.
    """

    heartbeat_s: float = 5.0
    tunder_s: float = 5.5
    trigroup_s: float = 1.0
    decision_s: float = 0.01
    latency_s: float = 0.005
    transfer_s: float = 0.0005

    @property
    def asking_s(self) -> float:
        """Seconds from asking for work until a small group arrives."""
        return self.decision_s + 3 * self.latency_s

    @property
    def worth_s(self) -> float:
        """Seconds of work above the worker's own that make asking worthwhile; less is run faster than it is moved."""
        return 8 * self.asking_s

    def check_tunder(self, trigger_s: float, where: str = "--set tunder_s") -> None:
        """Refuse a ``tunder_s`` with which a low-load worker would be idle before its group arrives (section 2.2).

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
    """Settings of one worker.

    Parameters
    ----------
    coalesce
        Whether at most one trigger per row and type waits; otherwise every change event queues one.
    order, cost_power
        Whether triggers run in the order of their ``arrival``, or those with the largest ``gain`` first.
        The gain is the change that the application predicts, divided by the predicted seconds to this power.
        With a power of 1, large rows wait so long that only loops among them are left at the end.
    speed, slots
        Its relative speed, and how many triggers it runs at once.
    heartbeat_s
        Seconds between heartbeats; with 0 the driver decides when they are sent.
    trigroup_s
        Size of a trigger group in predicted seconds.
    estimate
        ``mean`` (published) or ``line``.
    reads
        Whether an execution reads its row when it starts or when it ends.
    asks, ask_below_s
        Whether it asks for work, and below which workload in seconds, so that a group arrives before it is idle.
    worth_s, patience_s
        It asks only while another worker is known to have more than ``worth_s`` seconds of work beyond twice its own.
        It asks again when no work has arrived for ``patience_s`` seconds.
    resend_s
        Seconds after which unacknowledged messages to other workers are sent again; with 0 the network is trusted.
    lease_s
        Seconds after which a group whose results are missing is taken back; with 0 never.
    direct
        Whether the borrower of a trigger fires its events itself, instead of the home. This saves the home most of the
        work. It needs coalescing, leases that are never taken back, and a driver in which messages never overtake each
        other, by any route.
    durable
        Whether its state survives a crash: the state is saved before any message is sent.
    record
        Whether every effect is written to the trace.
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
