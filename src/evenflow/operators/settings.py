"""What a unit can be told: the thresholds of Figure 11, its period, and which reading of the protocol it follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evenflow.operators.transfers import Walk

Accept = Literal["upper", "target"]


@dataclass(frozen=True, slots=True)
class Rules:
    """How the listings are read; each flag is one correction, see ``docs/operators.md``."""

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
    # Ours alone (mode ``even``).
    hops: int = 4  # how many units may make room for one another
    lag_s: float = 0.4  # between a look at the memory and asking: hints must have settled
    gather_s: float = 0.02  # asks that arrive so close together are answered in the order of need
    forecast: float = 0.5  # how much of the last period's growth is expected again
    caution: float = 1.0  # how much of it a unit keeps free when it gives room away
    dire: float = 60.0  # above the threshold by so much, a unit is served first although it stays overloaded
    crowd: float = 1.25  # with so many times its share of the operators, a unit takes no more
    spare_margin: float = 4.0  # room that is kept for those whom it can relieve
    hint_step: float = 1.0  # a smaller change of room is not worth a message
    hint_refresh: int = 12  # looks after which hints are repeated, since one may be lost
