"""What a balanced federation can be told: Table 5.2 of Cheung 2006, and our readings where the text is silent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evenflow.brokers.offload import Limits
from evenflow.errors import BadInput


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The parameters of the load balancer.

    Parameters
    ----------
    pie_ratio, pie_delay
        An index is news if it moved by more than this since it was last published.
    local_pie_s, global_pie_s, refresh
        Generation periods; an entry is refreshed every so many of them, and expires one later.
    press_samples, press_timeout_s
        How many publications PRESS takes, and for how long it waits for them.
    lower, higher
        Overload thresholds: above the lower one a broker accepts nothing, above the higher one it sheds.
    local_ratio, local_delay, global_ratio, global_delay
        Triggering thresholds.
    stable_s, stable_change
        How long load must have settled after a session, and what change over ``stable_window_s`` counts as settled.
    normalization_s
        The N_f of Eq. 3.5.
    local_detect_s, global_detect_s
        The shortest and the longest wait between two detections.
    balance, alpha, global_requests, migration_timeout_s
        Balance percentage, the alpha of Eq. 3.4, requests that end a global session, seconds per migrating subscriber.
    inert
        What a broker between the thresholds does: run the second step of detection, or nothing (``literal``).
    stable_rule
        Whether the change over 60 s must be small before a broker is OK again, or the duration alone counts.
    count_leavers
        Whether subscribers that are about to leave still count in a broker's own load.
    empty_backoff_s
        How long a pair that found nothing to move leaves each other alone.
    by_headroom
        Whether an overloaded broker asks the one with the most free capacity first, not the one with the lowest ratio.
    joint
        Whether all three indices are balanced at once (see `offload_even`).
    calm_s, fine, calm_samples
        A broker that had no session for ``calm_s`` seconds acts on differences above ``fine`` already,
        and takes ``calm_samples`` publications to be exact; 0 seconds means never. Clusters act above ``fine`` too.
    far
        Whether every head passes on what it hears of other clusters, so that any two can balance; as published only an
        overloaded one does.
    reply_timeout_s, quiet_s
        When an unanswered request counts as refused; when a global session without moves ends.
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
        """Give what the offload algorithms read."""
        return Limits(self.balance, self.lower, self.local_ratio, self.normalization_s)


EVEN: Mapping[str, Any] = {  # ours; the intervals are in seconds of the thesis
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
