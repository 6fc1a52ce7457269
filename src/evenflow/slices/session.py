"""A load-balancing session: five actions between one giver and one taker, each confirmed before the next.

The balancer walks this table; the nodes walk the hand-off table (:mod:`evenflow.slices.handoff`).
Until the giver has the taker's receipt, a session can be rolled back:
the giver takes the slices up again, and the taker, which may not process before the last action, forgets them.
The giver decides whether it is too late, because only the giver knows whether it has forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple

from evenflow.slices.messages import Action, ActionKind, SliceState

Order = Literal["safe", "literal"]


class Phase(Enum):
    """What the balancer waits for."""

    GRANTING = "grant"
    STOPPING = "stop"
    EXPECTING = "expect"
    REMOVING = "remove"
    SHIPPING = "ship"
    OPENING = "open"
    DONE = "done"
    READMITTING = "readmit"
    RESUMING = "resume"
    CLEANING = "clean"
    ROLLED_BACK = "rolled back"


class Happening(Enum):
    """What ends the wait."""

    DONE = "done"
    REFUSED = "refused"
    SHIPPED = "shipped"
    TIMED_OUT = "timed out"


class Instruction(NamedTuple):
    """Which action a phase sends, to which side."""

    step: int
    side: Literal["giver", "taker"]
    kind: ActionKind
    state: SliceState | None = None


ACTIONS: Mapping[Phase, Instruction] = {
    Phase.GRANTING: Instruction(1, "taker", ActionKind.ADD_SLICE, SliceState.AVAILABLE),
    Phase.STOPPING: Instruction(1, "giver", ActionKind.UPDATE_SLICE_STATE, SliceState.IN_SESSION),
    Phase.EXPECTING: Instruction(2, "taker", ActionKind.ADD_SLICE, SliceState.IN_SESSION),
    Phase.REMOVING: Instruction(3, "giver", ActionKind.REMOVE_SLICE),
    Phase.SHIPPING: Instruction(4, "giver", ActionKind.SEND_CACHE_TO_NODE),
    Phase.OPENING: Instruction(5, "taker", ActionKind.UPDATE_SLICE_STATE, SliceState.AVAILABLE),
    Phase.READMITTING: Instruction(6, "giver", ActionKind.ADD_SLICE, SliceState.IN_SESSION),
    Phase.RESUMING: Instruction(7, "giver", ActionKind.UPDATE_SLICE_STATE, SliceState.AVAILABLE),
    Phase.CLEANING: Instruction(8, "taker", ActionKind.REMOVE_SLICE),
}

TABLE: Mapping[tuple[Phase, Happening], Phase] = {
    (Phase.GRANTING, Happening.DONE): Phase.DONE,
    (Phase.STOPPING, Happening.DONE): Phase.EXPECTING,
    (Phase.EXPECTING, Happening.DONE): Phase.REMOVING,
    (Phase.REMOVING, Happening.DONE): Phase.SHIPPING,
    (Phase.SHIPPING, Happening.DONE): Phase.OPENING,
    (Phase.OPENING, Happening.DONE): Phase.DONE,
    # rollback: somebody refuses, or the taker does not answer
    (Phase.STOPPING, Happening.REFUSED): Phase.READMITTING,
    (Phase.EXPECTING, Happening.REFUSED): Phase.READMITTING,
    (Phase.EXPECTING, Happening.TIMED_OUT): Phase.READMITTING,
    (Phase.SHIPPING, Happening.TIMED_OUT): Phase.READMITTING,
    (Phase.READMITTING, Happening.DONE): Phase.RESUMING,
    (Phase.READMITTING, Happening.SHIPPED): Phase.SHIPPING,  # too late: the only way is forward
    (Phase.RESUMING, Happening.DONE): Phase.CLEANING,
    (Phase.CLEANING, Happening.DONE): Phase.ROLLED_BACK,
}

LITERAL: Mapping[tuple[Phase, Happening], Phase] = {
    # as printed in section 3.4: the taker becomes available before the cache is sent; the thesis has no rollback
    (Phase.GRANTING, Happening.DONE): Phase.DONE,
    (Phase.STOPPING, Happening.DONE): Phase.EXPECTING,
    (Phase.EXPECTING, Happening.DONE): Phase.REMOVING,
    (Phase.REMOVING, Happening.DONE): Phase.OPENING,
    (Phase.OPENING, Happening.DONE): Phase.SHIPPING,
    (Phase.SHIPPING, Happening.DONE): Phase.DONE,
}

ENDED = frozenset({Phase.DONE, Phase.ROLLED_BACK})


@dataclass(slots=True)
class Session:
    """One session as the balancer sees it."""

    id: int
    giver: str
    taker: str
    slices: tuple[int, ...]
    phase: Phase = Phase.STOPPING
    began: float = 0.0
    attempt: int = 0  # grows with every change of phase, so that an old timer is told from a new one

    def action(self, over: int) -> tuple[str, Action]:
        """Return the addressee and the action of this phase."""
        order = ACTIONS[self.phase]
        to = self.giver if order.side == "giver" else self.taker
        taker = self.taker if order.kind is ActionKind.SEND_CACHE_TO_NODE else None
        return to, Action(self.id, order.step, order.kind, self.slices, order.state, taker, over)

    def expects(self, step: int) -> bool:
        """Say whether a confirmation of this step is what the session waits for."""
        return self.phase not in ENDED and ACTIONS[self.phase].step == step

    def happened(self, happening: Happening, table: Mapping[tuple[Phase, Happening], Phase] = TABLE) -> bool:
        """Go on to the next phase; say whether there is one."""
        following = table.get((self.phase, happening))
        if following is None:
            return False
        self.phase = following
        self.attempt += 1
        return True
