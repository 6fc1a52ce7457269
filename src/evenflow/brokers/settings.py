"""The brokers' balancing parameters: Table 5.2 of Cheung 2006, and our own where the text leaves something open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evenflow.brokers.offload import Limits
from evenflow.errors import BadInput


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The parameters of the brokers' balancer; times are in seconds.

    Parameters
    ----------
    pie_ratio, pie_delay
        An index is published again if it changed by more than this.
    local_pie_s, global_pie_s, refresh
        Periods of load information within and between clusters; it is refreshed every ``refresh`` periods and expires one
        period later.
    press_samples, press_timeout_s
        How many publications PRESS, the traffic sampler, takes, and how long it waits for them.
    lower, higher
        Overload thresholds: above the lower one a broker accepts nothing, above the higher one it offloads.
    local_ratio, local_delay, global_ratio, global_delay
        A session starts if an index differs by more than this, within a cluster and between clusters.
    stable_s, stable_change
        How long to wait after a session, and below what change over ``stable_window_s`` the load counts as settled.
    normalization_s
        The N_f of Eq. 3.5.
    local_detect_s, global_detect_s
        The shortest and the longest time between two detections.
    balance, alpha, global_requests, migration_timeout_s
        Balance percentage, the alpha of Eq. 3.4, calls for help that end a global session, time per moving subscriber.
    inert
        What a broker between the overload thresholds does: run step 2 of the detection, or nothing (``literal``).
    stable_rule
        Whether the load must have settled before a broker is OK again; otherwise only ``stable_s`` counts.
    count_leavers
        Whether a broker's load includes the subscribers that are about to leave.
    empty_backoff_s
        How long a broker does not ask another one again after a session without moves.
    by_headroom
        Whether an overloaded broker first asks the broker with the most free capacity, not the one with the lowest ratio.
    joint
        Whether all three indices are balanced at once (see `offload_even`).
    calm_s, fine, calm_samples
        After ``calm_s`` seconds without a session, brokers and clusters act on differences above ``fine``,
        and PRESS takes ``calm_samples`` publications; 0 seconds means never.
    far
        Whether every head passes on the load information of other clusters, so that any two clusters can balance;
        as published, only an overloaded head does.
    reply_timeout_s, quiet_s
        When an unanswered request counts as refused, and when a global session without moves ends.
    """

    pie_ratio: float = 0.025
    pie_delay: float = 0.025
    local_pie_s: float = 30.0
    global_pie_s: float = 60.0
    refresh: int = 2
    press_samples: int = 50
    press_timeout_s: float = 30.0
    lower: float = 0.9
    higher: float = 0.95
    local_ratio: float = 0.1
    local_delay: float = 0.1
    global_ratio: float = 0.15
    global_delay: float = 0.15
    stable_s: float = 30.0
    stable_change: float = 0.05
    stable_window_s: float = 60.0
    normalization_s: float = 0.1
    local_detect_s: tuple[float, float] = (20.0, 40.0)
    global_detect_s: tuple[float, float] = (50.0, 70.0)
    balance: float = 0.005
    alpha: float = 0.75
    global_requests: int = 3
    migration_timeout_s: float = 10.0
    inert: Literal["step2", "literal"] = "step2"
    stable_rule: bool = True
    count_leavers: bool = True
    empty_backoff_s: float = 0.0
    by_headroom: bool = False
    joint: bool = False
    calm_s: float = 0.0
    fine: float = 0.05
    calm_samples: int = 200
    far: bool = False
    reply_timeout_s: float = 10.0
    quiet_s: float = 300.0

    def __post_init__(self) -> None:
        if self.global_ratio < self.local_ratio or self.global_delay < self.local_delay:
            raise BadInput(
                f"global thresholds {self.global_ratio} and {self.global_delay}",
                f"values of at least the local ones, {self.local_ratio} and {self.local_delay}",
                "global_threshold",
            )
        if self.higher < self.lower:
            raise BadInput(f"a higher threshold of {self.higher}", f"at least the lower one, {self.lower}", "higher")

    def limits(self) -> Limits:
        """Return the settings that the offload algorithms use."""
        return Limits(self.balance, self.lower, self.local_ratio, self.normalization_s)


EVEN: Mapping[str, Any] = {  # ours, for ``balancer=even``
    "stable_rule": False,
    "count_leavers": False,
    "empty_backoff_s": 300.0,
    "by_headroom": True,
    "joint": True,
    "calm_s": 120.0,
    "fine": 0.06,
    "refresh": 3,
    "far": True,
}
