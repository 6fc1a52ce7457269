"""A load-balancing session: five actions between one giver and one taker, each confirmed before the next.

The balancer walks this table; the nodes walk the hand-off table (:mod:`evenflow.slices.handoff`).
Until the giver has the taker's receipt, a session can be rolled back:
the giver takes the slices up again, and the taker, which may not process before the last action, forgets them.
The giver decides whether it is too late, because only the giver knows whether it has forgotten.
If the giver is silent the taker decides: what it has not received it will not accept any more, and what it has it keeps.

Every phase times out, so a session ends although a node is silent; :data:`OWES` says what the node is told later.
Only with both nodes silent it goes on asking them in turn, because then nobody can say who has the slices.
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
    WITHDRAWING = "withdraw"
    DISCARDING = "discard"
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
    Phase.WITHDRAWING: Instruction(9, "taker", ActionKind.REMOVE_SLICE, SliceState.IN_SESSION),
    Phase.DISCARDING: Instruction(10, "giver", ActionKind.REMOVE_SLICE, SliceState.AVAILABLE),
}

TABLE: Mapping[tuple[Phase, Happening], Phase] = {
    (Phase.GRANTING, Happening.DONE): Phase.DONE,
    (Phase.STOPPING, Happening.DONE): Phase.EXPECTING,
    (Phase.EXPECTING, Happening.DONE): Phase.REMOVING,
    (Phase.REMOVING, Happening.DONE): Phase.SHIPPING,
    (Phase.SHIPPING, Happening.DONE): Phase.OPENING,
    (Phase.OPENING, Happening.DONE): Phase.DONE,
    # rollback: a node refuses or does not answer
    (Phase.STOPPING, Happening.REFUSED): Phase.READMITTING,
    (Phase.STOPPING, Happening.TIMED_OUT): Phase.READMITTING,
    (Phase.EXPECTING, Happening.REFUSED): Phase.READMITTING,
    (Phase.EXPECTING, Happening.TIMED_OUT): Phase.READMITTING,
    (Phase.REMOVING, Happening.TIMED_OUT): Phase.READMITTING,
    (Phase.SHIPPING, Happening.TIMED_OUT): Phase.READMITTING,
    (Phase.READMITTING, Happening.DONE): Phase.RESUMING,
    (Phase.READMITTING, Happening.SHIPPED): Phase.OPENING,  # too late: the taker has the slices
    (Phase.RESUMING, Happening.DONE): Phase.CLEANING,
    (Phase.CLEANING, Happening.DONE): Phase.ROLLED_BACK,
    # the giver is silent, so the taker decides
    (Phase.READMITTING, Happening.TIMED_OUT): Phase.WITHDRAWING,
    (Phase.WITHDRAWING, Happening.DONE): Phase.ROLLED_BACK,  # it has nothing and will accept nothing
    (Phase.WITHDRAWING, Happening.REFUSED): Phase.OPENING,  # it has the slices
    (Phase.WITHDRAWING, Happening.TIMED_OUT): Phase.READMITTING,  # both are silent: ask the giver again
    # what is decided needs no answer
    (Phase.GRANTING, Happening.TIMED_OUT): Phase.DONE,
    (Phase.OPENING, Happening.TIMED_OUT): Phase.DONE,
    (Phase.RESUMING, Happening.TIMED_OUT): Phase.CLEANING,
    (Phase.CLEANING, Happening.TIMED_OUT): Phase.ROLLED_BACK,
}

OWES: Mapping[tuple[Phase, Happening], Phase] = {
    # what a silent node is told until it confirms, although the session goes on or has ended
    (Phase.GRANTING, Happening.TIMED_OUT): Phase.GRANTING,
    (Phase.OPENING, Happening.TIMED_OUT): Phase.OPENING,
    (Phase.RESUMING, Happening.TIMED_OUT): Phase.RESUMING,
    (Phase.CLEANING, Happening.TIMED_OUT): Phase.CLEANING,
    (Phase.WITHDRAWING, Happening.DONE): Phase.READMITTING,  # and then to resume
    (Phase.WITHDRAWING, Happening.REFUSED): Phase.DISCARDING,
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

    @property
    def addressee(self) -> str:
        """The node that this phase waits for."""
        return self.giver if ACTIONS[self.phase].side == "giver" else self.taker

    def action(self, over: int) -> tuple[str, Action]:
        """Return the addressee and the action of this phase."""
        order = ACTIONS[self.phase]
        taker = self.taker if order.kind is ActionKind.SEND_CACHE_TO_NODE else None
        return self.addressee, Action(self.id, order.step, order.kind, self.slices, order.state, taker, over)

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
