"""Settings of a unit: the thresholds of Figure 11, its period, and which reading of the protocol it follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evenflow.operators.transfers import Walk

Accept = Literal["upper", "target"]


@dataclass(frozen=True, slots=True)
class Rules:
    """The reading of the listings; each flag is one correction, see ``docs/operators.md``."""

    walk: Walk = "meant"
    one_message_per_child: bool = True  # Listing 3 has a single message for all children
    drop_overlaps: bool = True  # Listings 4 and 9: a chosen transfer removes those that share an operator
    give_at_target: bool = False  # Listing 8: code gives at memory = target, prose does not
    one_grant_per_operator: bool = True  # Listing 5 grants one operator to parent and child
    reserve: bool = True  # Listings 4 and 6: two offerers fill the same room
    lock: bool = True  # Listings 8 and 9: one operator goes to two demanders
    give_in_sum: bool = True  # Listing 8: the target is tested per transfer
    sessions: bool = True  # a transfer is checked when it is carried out, and survives loss and crashes


READINGS = {
    "literal": Rules(
        walk="printed",
        one_message_per_child=False,
        drop_overlaps=False,
        give_at_target=True,
        one_grant_per_operator=False,
        reserve=False,
        lock=False,
        give_in_sum=False,
        sessions=False,
    ),
    "text": Rules(one_grant_per_operator=False, reserve=False, lock=False, give_in_sum=False, sessions=False),
    "fixed": Rules(),
}


@dataclass(frozen=True, slots=True)
class UnitSettings:
    """Thresholds in per cent of a unit's memory (Table 5), times in seconds."""

    lower: float = 40.0
    target: float = 50.0
    upper: float = 60.0
    period_s: float = 5.0
    first_s: float = 5.0
    timeout_s: float = 2.0
    accept: Accept = "upper"
    rules: Rules = Rules()
    # Only for our protocol (mode ``even``).
    hops: int = 4  # most units in a chain that make room for one another
    lag_s: float = 0.4  # between a memory check and asking, so that hints have arrived
    gather_s: float = 0.02  # requests that arrive within this time are answered in the order of need
    forecast: float = 0.5  # share of the last period's growth that is expected again
    caution: float = 1.0  # multiple of that growth that a unit keeps free when it gives room away
    dire: float = 60.0  # a unit this far above the threshold is served first, even if it stays overloaded
    crowd: float = 1.25  # a unit with this multiple of the average number of operators takes no more
    spare_margin: float = 4.0  # room that is kept for units whose overload it can end
    hint_step: float = 1.0  # a smaller change of room is not worth a message
    hint_refresh: int = 12  # checks after which hints are repeated, because one may be lost
