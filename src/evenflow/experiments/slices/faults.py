"""Faults aimed at sessions: each session meets one fault of a chosen kind at a chosen step, beside the background ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenflow.actor import Received
from evenflow.sim import Partition, Simulation
from evenflow.slices.messages import Action, Cargo, Confirm, Receipt
from evenflow.slices.session import ACTIONS, Phase

STEPS = {
    instruction.step: phase.value for phase, instruction in ACTIONS.items() if phase is not Phase.GRANTING
}  # a step's number → its name
SHIP, EXPECT, READMIT = Phase.SHIPPING.value, Phase.EXPECTING.value, Phase.READMITTING.value
Way = frozenset[tuple[str, bool]]  # steps, and whether their answers (or their actions) are lost
FAILING: Way = frozenset({(EXPECT, False), (EXPECT, True)})
SILENT: Way = frozenset({(READMIT, False), (READMIT, True)})
WAYS: Mapping[str, Way] = {
    # only a session that fails can be rolled back, and only one whose giver is silent as well goes further
    READMIT: FAILING,
    Phase.RESUMING.value: FAILING,
    Phase.CLEANING.value: FAILING,
    Phase.WITHDRAWING.value: FAILING | SILENT,
    Phase.DISCARDING.value: SILENT | {(SHIP, True)},
}
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
VANISHING = ("vanish_giver", "vanish_taker")
LEAD_S = 3.0  # long enough for two phases to time out
APART_S = 3.0  # until the balancer takes a node that vanished for silent, it may begin sessions with it


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
    until: float = 0.0  # how long messages are lost to lead the session there


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
    ended
        Those of them that have ended.
    vanish
        How many nodes vanish for good.
    gone
        Those that have; they are added here.
    settled_s
        Nodes vanish after this time: at the start one node has every slice and would take them all along.
    """

    sim: Simulation
    share: float
    balancer: str
    seats: Mapping[int, tuple[str, str]]
    ended: Collection[int] = ()
    vanish: int = 0
    gone: set[str] = field(default_factory=set)
    settled_s: float = 0.0
    aims: dict[int, Aim | None] = field(default_factory=dict)
    over: bool = False
    _held_back: dict[tuple[str, str], Any] = field(default_factory=dict)
    _chance: Any = None
    _vanishing: Any = None

    def __post_init__(self) -> None:
        self._vanishing = self.sim.chance("vanishing")
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
        if not aim.done and (step, self._answers(message)) in WAYS.get(aim.step, ()):
            aim.until = aim.until or now + LEAD_S
            if now < aim.until:
                return []
        if aim.done or aim.step != step or self._answers(message) != aim.answer:
            return None
        aim.done = True
        if aim.kind in VANISHING and not self._may_vanish(session):
            return None
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
        crash_at = now + 4.0 * usual * draw()  # before, while or after the message is handled
        if kind in VANISHING:
            victim = giver if kind == "vanish_giver" else taker
            self.gone.add(victim)
            self.settled_s = now + APART_S
            self.sim.at(crash_at, lambda: self.sim.crash(victim))
            return None
        victim = {"crash_giver": giver, "crash_taker": taker, "crash_balancer": self.balancer}[kind]
        self.sim.at(crash_at, lambda: self._crash(victim, 0.05 + 3.0 * draw() ** 2))
        return None

    def _crash(self, victim: str, seconds: float) -> None:
        if self.sim.running(victim):
            self.sim.crash(victim)
            self.sim.at(self.sim.now + seconds, lambda: self._restart(victim))

    def _restart(self, victim: str) -> None:
        if victim not in self.gone:
            self.sim.restart(victim)

    def _may_vanish(self, session: int) -> bool:
        """Say whether a node of this session may vanish: never both nodes of one session, for then it waits for them."""
        open_pairs = [pair for number, pair in self.seats.items() if number not in self.ended]
        mine = set(self.seats[session])
        alone = not any(mine & set(pair) and self.gone & set(pair) for pair in open_pairs)
        return alone and len(self.gone) < self.vanish and self.sim.now >= self.settled_s

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
        if session not in self.aims and self._may_vanish(session) and self._vanishing.random() < 0.2:
            kind, step = self._vanishing.choice(VANISHING), self._vanishing.choice(list(STEPS.values()))
            self.aims[session] = Aim(kind, step, answer=self._vanishing.random() < 0.5)
        elif session not in self.aims:
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
