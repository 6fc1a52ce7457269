"""The trigger master: it gets heartbeats, asks its policy, and instructs high-load workers (*DLBer*, section 2.2).

Heartbeats restore everything it remembers, so it may crash at any time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from evenflow.actor import Note, Received, Send, Started, Wake, Woken
from evenflow.triggers.messages import Heartbeat, Instruct, Number
from evenflow.triggers.policies import Policy, WorkerLoad


class Shift(NamedTuple):
    """A transfer that a worker's heartbeat does not show yet.

    ``at`` is when it was ordered, ``seconds`` its time on this worker, and ``other`` the other worker.
    """

    at: float
    seconds: float
    other: str


@dataclass(slots=True)
class Known:
    """A worker's last heartbeat, and the transfers under way from it (negative) and to it (positive)."""

    beat: Heartbeat
    shifts: dict[Number, Shift] = field(default_factory=dict)

    def coming_s(self, since: float) -> float:
        """Return the seconds that were ordered for it after ``since``; older transfers are assumed to have arrived."""
        return sum(shift.seconds for shift in self.shifts.values() if shift.seconds > 0 and shift.at > since)

    def load_s(self) -> float:
        """Return the load in seconds that the worker will have when all transfers under way have arrived."""
        return max(0.0, self.beat.load_s + sum(shift.seconds for shift in self.shifts.values()))


class TriggerMaster:
    """The actor of the master.

    Parameters
    ----------
    policy
        Decides on transfers.
    decision_s
        Seconds that one decision takes; it includes the heartbeats that arrive in the meantime.
    settle_s
        Seconds until the loads of both workers show a transfer.
    record
        Whether decisions are written to the trace.
    """

    def __init__(self, policy: Policy, decision_s: float, settle_s: float, *, record: bool = False) -> None:
        self.policy = policy
        self.decision_s = decision_s
        self.settle_s = settle_s
        self.record = record
        self.known: dict[str, Known] = {}
        self.decisions = 0
        self.instructions = 0
        self._began = 0.0
        self._due = False

    def handle(self, event: Any, now: float) -> list[Any]:
        """Handle a heartbeat, or decide when the timer fires."""
        if isinstance(event, Received) and isinstance(event.message, Heartbeat):
            return self._heard(event.sender, event.message, now)
        if isinstance(event, Woken):
            return self._decide(now)
        if isinstance(event, Started):
            self._began = now
        return []

    def _heard(self, worker: str, beat: Heartbeat, now: float) -> list[Any]:
        for name, other in beat.heard:
            self._learn(name, other)
        if not self._learn(worker, beat) or self._due:
            return []
        self._due = True
        return [Wake(now + self.decision_s, "decide")]

    def _learn(self, worker: str, beat: Heartbeat) -> bool:
        before = self.known.get(worker)
        if before is not None and beat.at < before.beat.at:
            return False  # a newer heartbeat arrived before it
        shifts = before.shifts if before is not None else {}
        for number, shift in list(shifts.items()):
            seen = number <= (beat.gave[0] if shift.seconds < 0 else beat.took)
            if seen or shift.at + self.settle_s <= beat.at:
                del shifts[number]
                if shift.seconds < 0 and number == beat.gave[0] and beat.gave[1] == 0:
                    self.known[shift.other].shifts.pop(number, None)  # there was nothing left to give
        self.known[worker] = Known(beat, shifts)
        return True

    def loads(self, now: float) -> list[WorkerLoad]:
        """Return the policy's input, in the order of the ids."""
        found = []
        for name in sorted(self.known):
            known = self.known[name]
            load, beat = known.load_s(), known.beat
            asking = beat.asking and not known.shifts  # a transfer under way already answers it
            age = now - beat.at
            size, coming = beat.trigroup_s, known.coming_s(now - self.settle_s)
            found.append(WorkerLoad(name, load, size, beat.speed, beat.waiting, asking, age, coming))
        return found

    def _decide(self, now: float) -> list[Any]:
        self._due = False
        self.decisions += 1
        commands: list[Any] = []
        for giver, taker, seconds, groups, share, after in self.policy.decide(self.loads(now)):
            self.instructions += 1
            number = (self._began, self.instructions)
            commands.append(Send(giver, Instruct(number, taker, seconds, groups, share, after)))
            speeds = self.known[giver].beat.speed / self.known[taker].beat.speed
            self.known[giver].shifts[number] = Shift(now, -seconds, taker)
            self.known[taker].shifts[number] = Shift(now, seconds * speeds, giver)
            if self.record:
                move = {"kind": "move", "at": now, "what": "waiting triggers", "giver": giver, "taker": taker}
                about = {"why": f"{seconds:.3g} s of work", "seconds": seconds, "groups": groups}
                expects = {name: self.known[name].load_s() for name in (giver, taker)}
                commands.append(Note({**move, **about, "expects": expects}))
        return commands
