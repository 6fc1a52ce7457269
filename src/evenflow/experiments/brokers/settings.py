"""The settings of the experiments with brokers: the workload of section 5.1 and the parameters of Table 5.2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evenflow.brokers.settings import EVEN, BrokerSettings
from evenflow.errors import BadInput
from evenflow.experiments.settings import setting


@dataclass(frozen=True)
class PadresSettings:
    """The settings that all experiments with brokers share."""

    balancer: Literal["none", "default", "even"] = setting("default", "none, as published, or ours")
    subscribers: int = setting(2000, "subscribers", low=1, high=20_000)
    publishers: int = setting(40, "publishers, each with a stock of its own", low=1, high=400)
    zero_traffic: float = setting(0.25, "share of subscriptions that match nothing", low=0.0, high=1.0)
    seconds: float = setting(5000.0, "virtual seconds", low=200.0, high=50_000.0)
    change_at: float = setting(3000.0, "when half of the publishers double their rates", low=0.0)
    join_from: float = setting(10.0, "when the first subscriber joins", low=6.0)
    join_until: float = setting(1010.0, "when the last subscriber joins", low=6.0)
    quotes: Literal["independent", "real"] = setting("independent", "quotes drawn, or each stock's days in order")
    local_pie_s: float = setting(30.0, "local PIE generation period", low=1.0)
    global_pie_s: float = setting(60.0, "global PIE generation period", low=1.0)
    press_samples: int = setting(50, "publications that PRESS takes", low=1, high=100_000)
    press_timeout_s: float = setting(30.0, "seconds that PRESS takes at most", low=0.1)
    local_threshold: float = setting(0.1, "local triggering threshold, ratio and delay", low=0.0, high=2.0)
    global_threshold: float = setting(0.15, "global triggering threshold, ratio and delay", low=0.0, high=2.0)
    lower: float = setting(0.9, "lower overload threshold", low=0.1, high=2.0)
    higher: float = setting(0.95, "higher overload threshold", low=0.1, high=2.0)
    balance: float = setting(0.005, "balance percentage", low=0.0, high=1.0)
    inert: Literal["step2", "literal"] = setting("step2", "what a broker between the thresholds does")

    def broker_settings(self) -> BrokerSettings:
        """Return the balancer's parameters."""
        ours = EVEN if self.balancer == "even" else {}
        return BrokerSettings(
            local_pie_s=self.local_pie_s,
            global_pie_s=self.global_pie_s,
            press_samples=self.press_samples,
            press_timeout_s=self.press_timeout_s,
            local_ratio=self.local_threshold,
            local_delay=self.local_threshold,
            global_ratio=max(self.global_threshold, self.local_threshold)
            if self.global_threshold == 0.15  # the default follows a higher local one, a chosen one must fit
            else self.global_threshold,
            global_delay=max(self.global_threshold, self.local_threshold)
            if self.global_threshold == 0.15
            else self.global_threshold,
            lower=self.lower,
            higher=self.higher,
            balance=self.balance,
            inert=self.inert,
            **ours,
        )

    def check(self) -> None:
        """Refuse settings that contradict each other."""
        if self.join_until < self.join_from:
            raise BadInput(
                f"join_until={self.join_until:g}", f"at least join_from={self.join_from:g}", "--set join_until"
            )
        self.broker_settings()
