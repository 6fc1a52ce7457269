"""The load balancer: hears of every node's load, asks the algorithm, and conducts one session per giver and taker.

It is off the data path: its traffic does not grow with the rate of items.
What it must not forget it notes on the trace, and it starts again from there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from evenflow.actor import Note, Received, Send, Started, Wake, Woken
from evenflow.slices.algorithm import Algorithm, Movement
from evenflow.slices.messages import Confirm, Leave, Notification, Refused
from evenflow.slices.nodemap import NodeMap, NodeView
from evenflow.slices.owed import Owed
from evenflow.slices.session import ENDED, LITERAL, OWES, TABLE, Happening, Phase, Session
from evenflow.slices.settings import BalancerSettings

HAPPENINGS = {h.value: h for h in Happening}
SILENT_AFTER = 4  # periods without a notification


class Drain(NamedTuple):
    """Ask that a node be emptied and let go."""

    node: str


class UseAlgorithm(NamedTuple):
    """Exchange the algorithm while running (thesis, section 4.2)."""

    algorithm: Algorithm


class Pause(NamedTuple):
    """Stop or resume planning; sessions under way go on."""

    paused: bool


class LoadBalancer:
    """The balancer of DPSLB (thesis, sections 3.4, 4.2).

    Parameters
    ----------
    algorithm
        What decides; exchanged at any time by :class:`UseAlgorithm`.
    settings
        See :class:`BalancerSettings`.
    period_s
        How often nodes notify, to tell a silent node from a slow one.
    record
        Whether every notification goes on the trace.
    """

    def __init__(
        self, algorithm: Algorithm, settings: BalancerSettings, period_s: float = 2.0, *, record: bool = True
    ) -> None:
        self.algorithm = algorithm
        self.settings = settings
        self.record = record
        self.map = NodeMap(settings.slices, SILENT_AFTER * period_s)
        self.sessions: dict[int, Session] = {}  # under way
        self.owed = Owed()  # what silent nodes have yet to hear
        self.waiting: dict[str, deque[Movement]] = {}  # giver → movements, one session after the other
        self.departed: set[str] = set()  # let go; told again if they are still there
        self.paused = False
        self._table = TABLE if settings.order == "safe" else LITERAL
        self._next = 1
        self._granted = False

    def handle(self, event: Any, now: float) -> list[Any]:
        """Take one event."""
        kind = type(event)
        if kind is Received:
            message = event.message
            what = type(message)
            if what is Notification:
                return self._hear(message, now)
            if what is Confirm:
                return self._confirmed(message, now)
            return self._asked(message, now)
        if kind is Woken:
            return self._woken(event.name, now)
        if kind is Started:
            return self._recall(event.saved.get("notes", ()), now)
        return []

    # -- notifications --------------------------------------------------------------------------

    def _hear(self, heard: Notification, now: float) -> list[Any]:
        if heard.slice_count != self.settings.slices:
            why = f"node {heard.node} has {heard.slice_count} slices, everybody else {self.settings.slices}"
            return [
                Note({"kind": "refusal", "at": now, "node": heard.node, "why": why}),
                Send(heard.node, Refused(why)),
            ]
        if heard.node in self.departed:
            if heard.why != "joined":
                return [Send(heard.node, Leave())]
            self.departed.discard(heard.node)
        out: list[Any] = []
        node = self.map.nodes.get(heard.node)
        if node is None:
            node = NodeView(heard.node, now, heard.capacity, deque(maxlen=self.settings.history))
            self.map.nodes[heard.node] = node
            self.algorithm.on_new_node(node)
            out.append(
                Note({"kind": "node", "at": now, "node": heard.node, "step": "joined", "capacity": heard.capacity})
            )
            if not self._granted:
                out += self._grant(heard.node, now)
            elif len(self.map.nodes) > self.settings.slices:
                why = f"{len(self.map.nodes)} nodes, {self.settings.slices} slices: the surplus stays idle"
                out.append(Note({"kind": "node", "at": now, "node": heard.node, "step": "surplus", "why": why}))
        node.notifications.append(heard)
        node.heard = now
        node.capacity = heard.capacity
        self.map.measured(heard.node, heard.slice_loads)
        if self.record and heard.why != "joined":
            load = sum(heard.slice_loads.values()) / heard.capacity
            out.append(Note({"kind": "sample", "at": now, "node": node.name, "load": load, **heard.properties}))
        out += self._idle(node, heard, now)
        if node.draining and not self._involved(node.name):
            out += self._empty(node, now)
        return out + self._analyze(now)

    def _analyze(self, now: float) -> list[Any]:
        if self.paused or not self._granted:
            return []
        out: list[Any] = []
        for decided in self.algorithm.analyze(self.map, now):
            out += [decided] if isinstance(decided, Note) else self._enqueue(decided, now)
        return out

    # -- elasticity -----------------------------------------------------------------------------

    def _idle(self, node: NodeView, heard: Notification, now: float) -> list[Any]:
        """Drain a node that has been idle for long enough (thesis, section 3.4)."""
        limit = self.settings.idle_below
        if not limit or node.draining or heard.why == "joined":
            return []
        if heard.properties["cpu"] >= limit:
            node.idle_since = None
        elif node.idle_since is None:
            node.idle_since = now
        elif (
            now - node.idle_since >= self.settings.idle_for
            and len(self.map.usable(now)) > 1
            and not any(n.draining and self.map.reachable(n.name, now) for n in self.map.nodes.values())
        ):
            return self._drain(node.name, now, f"idle: cpu below {limit:g} % for {now - node.idle_since:g} s")
        return []

    def _drain(self, name: str, now: float, why: str) -> list[Any]:
        node = self.map.nodes.get(name)
        if node is None or node.draining:
            return []
        node.draining = True
        note = Note({"kind": "node", "at": now, "node": name, "step": "draining", "why": why})
        return [note, *self._empty(node, now)]

    def _empty(self, node: NodeView, now: float) -> list[Any]:
        """Give everything the node has to the others, each slice to the least loaded; let it go when it has nothing."""
        held = [s for s in self.map.held(node.name) if s not in self.map.moving]
        if not held and not self._involved(node.name):
            del self.map.nodes[node.name]
            self.departed.add(node.name)
            for other in self.map.nodes.values():
                other.idle_since = None  # the others have its work now: whether they idle shows from here on
            self.waiting.pop(node.name, None)
            return [Note({"kind": "node", "at": now, "node": node.name, "step": "let go"}), Send(node.name, Leave())]
        takers = self.map.usable(now)
        if not takers:
            return []
        level = {t: sum(self.map.load(s) for s in self.map.held(t)) / self.map.nodes[t].capacity for t in takers}
        counts = {t: len(self.map.held(t)) for t in takers}
        chosen: dict[str, list[int]] = {}
        for s in sorted(held, key=lambda s: (-self.map.load(s), s)):
            taker = min(takers, key=lambda t: (level[t], counts[t], t))
            level[taker] += self.map.load(s) / self.map.nodes[taker].capacity
            counts[taker] += 1
            chosen.setdefault(taker, []).append(s)
        out: list[Any] = []
        for taker, slices in chosen.items():
            out += self._enqueue(Movement(node.name, taker, len(slices), tuple(sorted(slices)), "drained"), now)
        return out

    def waiting_movements(self) -> int:
        """Return how many movements wait for their giver's session under way."""
        return sum(len(queue) for queue in self.waiting.values())

    def _involved(self, name: str) -> bool:
        under_way = any(name in (s.giver, s.taker) for s in self.sessions.values())
        return under_way or bool(self.waiting.get(name)) or name in self.map.untold

    # -- sessions -------------------------------------------------------------------------------

    def _grant(self, name: str, now: float) -> list[Any]:
        """Give the first node every slice, without a session (reading of section 4.3.2)."""
        self._granted = True
        self.map.owner = [name] * self.settings.slices
        everything = tuple(range(self.settings.slices))
        return self._begin(Session(self._next, "", name, everything, Phase.GRANTING, now), now, "the first node")

    def _enqueue(self, movement: Movement, now: float) -> list[Any]:
        slices = movement.slices or tuple(
            [s for s in self.map.held(movement.giver) if s not in self.map.moving][: movement.count]
        )
        slices = tuple(s for s in slices if self.map.owner[s] == movement.giver and s not in self.map.moving)
        if not slices:
            return []
        for s in slices:
            self.map.owner[s] = movement.taker
            self.map.moving[s] = movement.giver
        chosen = Movement(movement.giver, movement.taker, len(slices), slices, movement.why)
        self.waiting.setdefault(movement.giver, deque()).append(chosen)
        return self._begin_next(movement.giver, now)

    def _begin_next(self, giver: str, now: float) -> list[Any]:
        """Begin the giver's next session unless one is under way: one after the other (section 3.4)."""
        queue = self.waiting.get(giver)
        if not queue or any(s.giver == giver for s in self.sessions.values()):
            return []
        while queue:
            movement = queue.popleft()
            if movement.taker not in self.map.usable(now) or not self.map.reachable(giver, now):
                self._stay(movement)  # one of them began to leave or fell silent while the movement waited
                continue
            session = Session(self._next, giver, movement.taker, movement.slices, Phase.STOPPING, now)
            return self._begin(session, now, movement.why)
        return []

    def _stay(self, movement: Movement) -> None:
        for s in movement.slices:
            self.map.owner[s] = movement.giver
            self.map.moving.pop(s, None)

    def _begin(self, session: Session, now: float, why: str) -> list[Any]:
        self._next += 1
        self.sessions[session.id] = session
        return [self._note(session, now, why=why), *self._order(session, now)]

    def _order(self, session: Session, now: float) -> list[Any]:
        """Send the action of the session's phase and set its two timers."""
        settings = self.settings
        to, action = session.action(self._over(session.addressee))
        return [
            Send(to, action),
            Wake(now + settings.resend_s, ("resend", session.id, session.attempt)),
            Wake(now + settings.timeout_s, ("timeout", session.id, session.attempt)),
        ]

    def _over(self, node: str) -> int:
        """Return the id below which every session of this node has ended and is settled."""
        under_way = [s.id for s in self.sessions.values() if node in (s.giver, s.taker)]
        return min([*under_way, *(number for number, to in self.owed if to == node)], default=self._next)

    def _confirmed(self, confirm: Confirm, now: float) -> list[Any]:
        session = self.sessions.get(confirm.session)
        if session is not None and session.expects(confirm.step):
            return self._happened(session, HAPPENINGS[confirm.outcome], now, confirm.why)
        told = self.owed.confirmed(confirm)
        if told is None:
            return []
        if not self.owed.settle(*told):
            return self._tell(*told, now)
        self.map.untold = self.owed.nodes()
        return [Note({"kind": "told", "at": now, "session": told[0], "node": told[1]})]

    def _tell(self, number: int, node: str, now: float) -> list[Any]:
        """Tell a node how a session ended, again and again until it confirms."""
        action = self.owed.action(number, node, self._over(node))
        if action is None:
            return []
        return [Send(node, action), Wake(now + self.settings.timeout_s, ("tell", number, node))]

    def _woken(self, name: Any, now: float) -> list[Any]:
        what, number, attempt = name
        if what == "tell":
            return self._tell(number, attempt, now)
        session = self.sessions.get(number)
        if session is None or session.attempt != attempt:
            return []
        if what == "resend":
            to, action = session.action(self._over(session.addressee))
            return [Send(to, action), Wake(now + self.settings.resend_s, name)]
        return self._happened(session, Happening.TIMED_OUT, now)

    def _happened(self, session: Session, happening: Happening, now: float, why: str = "") -> list[Any]:
        owes = OWES.get((session.phase, happening))
        if not session.happened(happening, self._table):
            return []  # nothing to do but wait: the resend timer goes on
        out: list[Any] = [self._note(session, now, why or happening.value, owes)]
        if owes is not None:
            debt = self.owed.add(session, owes)
            self.map.untold.add(debt[1])
            out += self._tell(*debt, now)
        if session.phase is Phase.WITHDRAWING:
            for movement in self.waiting.pop(session.giver, ()):
                self._stay(movement)  # a silent giver gives nothing
        if session.phase not in ENDED:
            return out + self._order(session, now)
        del self.sessions[session.id]
        for s in session.slices:
            if session.phase is Phase.ROLLED_BACK:
                self.map.owner[s] = session.giver
            if session.giver:  # a grant that is confirmed late: its slices may be on the move again
                self.map.moving.pop(s, None)
        return out + self._begin_next(session.giver, now)

    def _note(self, session: Session, now: float, why: str, owes: Phase | None = None) -> Note:
        record = {
            "kind": "session",
            "at": now,
            "session": session.id,
            "step": session.phase.value,
            "giver": session.giver,
            "taker": session.taker,
            "slices": session.slices,
            "why": why,
        }
        return Note(record if owes is None else {**record, "owes": owes.value})

    # -- requests and recall --------------------------------------------------------------------

    def _asked(self, message: Any, now: float) -> list[Any]:
        if isinstance(message, Drain):
            return self._drain(message.node, now, "asked for")
        if isinstance(message, UseAlgorithm):
            self.algorithm = message.algorithm
            return [Note({"kind": "request", "at": now, "what": "algorithm"}), *self._analyze(now)]
        if isinstance(message, Pause):
            self.paused = message.paused
            return [Note({"kind": "request", "at": now, "what": "pause" if message.paused else "resume"})]
        return []

    def _recall(self, notes: list[Mapping[str, Any]], now: float) -> list[Any]:
        """Start again from the trace: owners and sessions are a fold of what was noted."""
        phases = {phase.value: phase for phase in Phase}
        draining: dict[str, bool] = {}
        for note in notes:
            if note["kind"] == "session":
                session = Session(
                    note["session"], note["giver"], note["taker"], tuple(note["slices"]), began=note["at"]
                )
                session.phase = phases[note["step"]]
                self._next = max(self._next, session.id + 1)
                self._granted = True
                self._fold(session)
                if "owes" in note:
                    self.owed.add(session, phases[note["owes"]])
            elif note["kind"] == "told":
                self.owed.forget(note["session"], note["node"])
            elif note["kind"] == "node":
                draining[note["node"]] = note["step"] == "draining" or (
                    draining.get(note["node"], False) and note["step"] == "joined"
                )
                if note["step"] == "let go":
                    self.departed.add(note["node"])
                elif note["step"] == "joined":
                    self.departed.discard(note["node"])
            elif note["kind"] == "request" and note["what"] in ("pause", "resume"):
                self.paused = note["what"] == "pause"
        for name in [n for n, leaves in draining.items() if leaves]:
            view = NodeView(name, now, 1.0, deque(maxlen=self.settings.history), draining=True)
            self.map.nodes[name] = view
        self.map.untold = self.owed.nodes()
        out = [command for session in self.sessions.values() for command in self._order(session, now)]
        return out + [command for debt in self.owed for command in self._tell(*debt, now)]

    def _fold(self, session: Session) -> None:
        ended = session.phase in ENDED
        if ended and not session.giver:  # a grant counts from its order; its slices may be on the move by now
            self.sessions.pop(session.id, None)
            return
        owner = session.giver if session.phase is Phase.ROLLED_BACK else session.taker
        for s in session.slices:
            self.map.owner[s] = owner
            if ended or session.phase is Phase.GRANTING:
                self.map.moving.pop(s, None)
            else:
                self.map.moving[s] = session.giver
        if ended:
            self.sessions.pop(session.id, None)
        else:
            self.sessions[session.id] = session
