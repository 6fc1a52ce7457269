"""Faults aimed at sessions: each session meets one fault of a chosen kind at a chosen step, beside the background ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenflow.actor import Received
from evenflow.sim import Partition, Simulation
from evenflow.slices.messages import Action, Cargo, Confirm, Receipt
from evenflow.slices.session import ACTIONS, Phase

STEPS = {
    instruction.step: phase.value for phase, instruction in ACTIONS.items() if phase is not Phase.GRANTING
}  # a step's number → its name
SHIP = Phase.SHIPPING.value
ROLLBACK = frozenset({Phase.READMITTING.value, Phase.RESUMING.value, Phase.CLEANING.value})
KINDS = (
    "loss",
    "duplication",
    "delay",
    "reordering",
    "crash_giver",
    "crash_taker",
    "crash_balancer",
    "partition",
)


def session_step(message: Any) -> tuple[int, str] | None:
    """Return which session and step a control message belongs to."""
    if isinstance(message, (Action, Confirm)):
        name = STEPS.get(message.step)
        return None if name is None else (message.session, name)
    if isinstance(message, (Cargo, Receipt)):
        return message.session, SHIP
    return None


@dataclass(slots=True)
class Aim:
    """What is planned for one session."""

    kind: str
    step: str
    answer: bool  # at the confirmation rather than the action
    done: bool = False


@dataclass(slots=True)
class Faults:
    """Decides the fate of control messages; everything else is left to the network.

    Parameters
    ----------
    sim
        Its network is intercepted.
    share
        How many sessions are aimed at.
    balancer
        The balancer's name.
    seats
        Giver and taker of every session so far.
    """

    sim: Simulation
    share: float
    balancer: str
    seats: Mapping[int, tuple[str, str]]
    aims: dict[int, Aim | None] = field(default_factory=dict)
    over: bool = False
    _held_back: dict[tuple[str, str], Any] = field(default_factory=dict)
    _chance: Any = None

    def __post_init__(self) -> None:
        self._chance = self.sim.chance("faults")
        self.sim.network.intercept = self._fate
        self.sim.network.on_fault = self._background

    def stop(self) -> None:
        """Leave the world in peace from now on."""
        self.over = True

    # -- what happens to a message --------------------------------------------------------------

    def _fate(self, sender: str, to: str, message: Any, now: float) -> list[float] | None:
        self._release(sender, to, now)
        about = session_step(message)
        if about is None or self.over:
            return None
        session, step = about
        aim = self._aim(session)
        if aim is None:
            return None
        if aim.step in ROLLBACK and step == Phase.EXPECTING.value and not aim.done:
            return []  # only a session that fails can be rolled back
        if aim.done or aim.step != step or self._answers(message) != aim.answer:
            return None
        aim.done = True
        self._note(aim.kind, session, step, now)
        return self._strike(aim.kind, session, sender, to, message, now)

    def _strike(self, kind: str, session: int, sender: str, to: str, message: Any, now: float) -> list[float] | None:
        draw = self._chance.random
        usual = self.sim.network.delay
        if kind == "loss":
            return []
        if kind == "duplication":
            return [usual, usual + 2.0 * draw()]
        if kind == "delay":
            return [usual + 0.2 + 3.0 * draw()]
        if kind == "reordering":
            self._held_back[sender, to] = message
            self.sim.at(now + 1.0, lambda: self._release(sender, to, self.sim.now))
            return []
        giver, taker = self.seats[session]
        if kind == "partition":
            side = (giver, taker, self.balancer)[int(3 * draw())]
            self.sim.network.partitions.append(Partition(frozenset({side}), now + 0.3 + 3.0 * draw()))
            return None
        victim = {"crash_giver": giver, "crash_taker": taker, "crash_balancer": self.balancer}[kind]
        crash_at = now + 4.0 * usual * draw()  # before, while or after the message is handled
        self.sim.at(crash_at, lambda: self._crash(victim, 0.05 + 3.0 * draw() ** 2))
        return None

    def _crash(self, victim: str, seconds: float) -> None:
        if self.sim.running(victim):
            self.sim.crash(victim)
            self.sim.at(self.sim.now + seconds, lambda: self.sim.restart(victim))

    def _release(self, sender: str, to: str, now: float) -> None:
        """Let a held-back message follow the one that overtakes it."""
        message = self._held_back.pop((sender, to), None)
        cell = self.sim.cells.get(to)
        if message is not None and cell is not None:
            late = now + 2.5 * self.sim.network.delay
            self.sim.at(late, lambda: self._deliver(to, sender, message))

    def _deliver(self, to: str, sender: str, message: Any) -> None:
        self.sim.deliver(to, Received(sender, message))

    # -- which session meets what ---------------------------------------------------------------

    def _aim(self, session: int) -> Aim | None:
        if session not in self.aims:
            draw = self._chance.random
            if draw() < self.share:
                steps: Sequence[str] = list(STEPS.values())
                kind, step = KINDS[int(len(KINDS) * draw())], steps[int(len(steps) * draw())]
                self.aims[session] = Aim(kind, step, answer=draw() < 0.5)
            else:
                self.aims[session] = None
        return self.aims[session]

    @staticmethod
    def _answers(message: Any) -> bool:
        return isinstance(message, (Confirm, Receipt))

    def _background(self, kind: str, sender: str, to: str, message: Any, now: float) -> None:
        about = session_step(message)
        if about is not None:
            self._note(kind, *about, now)

    def _note(self, kind: str, session: int, step: str, now: float) -> None:
        self.sim.note({"kind": "fault", "at": now, "fault": kind, "session": session, "step": step})
