"""How nodes and the balancer of DPSLB work; all times in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """How a processing node works.

    Parameters
    ----------
    slices
        The number of slices, the same on every node.
    filter
        ``reader``: the content filter keeps foreign items away (thesis, section 3.3);
        ``node``: every item arrives and foreign ones are shown as correlating data (section 4.3).
    order
        ``safe`` or ``literal``, see :mod:`evenflow.slices.handoff`.
    acks
        ``commit``: an item is acknowledged after its effect is durable;
        ``receipt``: when it arrives, which is all that a transport promises.
    ablate
        What an experiment takes away to show that it is needed.
    speed
        Cost units per second.
    drain_s
        How long the giver listens on for items published before the taker's readers opened.
    overlap_s
        How long two readers overlap when the filter changes.
    notify
        ``every`` sample, or only ``events`` (a range changed, a condition held).
    record
        Whether every commit goes on the trace.
    """

    slices: int = 10
    filter: Literal["reader", "node"] = "reader"
    order: Literal["safe", "literal"] = "safe"
    acks: Literal["commit", "receipt"] = "commit"
    ablate: Literal["none", "merge", "buffer"] = "none"
    speed: float = 1000.0
    commit_s: float = 0.05
    monitor_s: float = 2.0
    drain_s: float = 0.1
    overlap_s: float = 0.05
    resend_s: float = 0.3
    notify: Literal["every", "events"] = "every"
    record: bool = True


@dataclass(frozen=True, slots=True)
class BalancerSettings:
    """How the load balancer works.

    Parameters
    ----------
    history
        How many notifications of a node are kept (thesis, section 4.2: five).
    resend_s
        An action without a confirmation is sent again after this long.
    timeout_s
        A phase that takes longer ends without its answer: choose more than the nodes' ``drain_s``, or none succeeds.
    idle_below, idle_for
        A node whose CPU stays below ``idle_below`` per cent for ``idle_for`` seconds is drained; 0 turns it off.
    """

    slices: int = 10
    history: int = 5
    order: Literal["safe", "literal"] = "safe"
    resend_s: float = 0.3
    timeout_s: float = 2.0
    idle_below: float = 0.0
    idle_for: float = 10.0
