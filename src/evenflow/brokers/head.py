"""The cluster head: publishes its cluster's load and agrees on global sessions with other heads (section 3.4.3).

A head moves no subscribers. In a global session the edge brokers of two clusters see each other's load and balance
as if they were one cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evenflow.actor import Note, Received, Send, Started, Wake, Woken
from evenflow.brokers import messages as m
from evenflow.brokers.edge import Uniform
from evenflow.brokers.load import delay_difference, smoothed
from evenflow.brokers.pie import Indices, Pie, PieBoard, PieEntry, PieWriter
from evenflow.brokers.settings import BrokerSettings
from evenflow.brokers.status import CLUSTER, Cause, Status, next_status


@dataclass(slots=True)
class Partnership:
    """A global session with another head: since when, and when a subscriber last moved."""

    session: str
    head: str
    cluster: str
    began: float
    agreed: bool = False
    last_move: float = 0.0
    moved: int = 0
    requests: int = 0


class HeadActor:
    """The global balancer of one cluster.

    Parameters
    ----------
    name, cluster
        The head broker's name, and the cluster's id.
    edges
        The cluster's edge brokers.
    """

    def __init__(
        self, name: str, cluster: str, edges: Sequence[str], settings: BrokerSettings, uniform: Uniform, life: int = 0
    ) -> None:
        self.name, self.cluster, self.edges = name, cluster, list(edges)
        self.settings, self.uniform = settings, uniform
        self.status = Status.OK
        self.local = PieBoard((settings.refresh + 1) * settings.local_pie_s)  # our edge brokers
        self.others = PieBoard(3 * settings.global_pie_s)  # other clusters, by head
        self.theirs = PieBoard((settings.refresh + 1) * settings.local_pie_s)  # the partner's edge brokers
        delay = settings.pie_delay * settings.normalization_s
        self.writer = PieWriter(name, cluster, settings.pie_ratio, delay, settings.global_pie_s, 0.0, "cluster")
        self.partner: Partnership | None = None
        self.trying: list[tuple[str, str]] = []
        self.smooth: Indices | None = None
        self.since = 0.0  # when the last global session ended
        self.backoff_until: dict[str, float] = {}  # head that could not help -> when to ask it again
        self._life, self._number, self._detect_at = life, 0, 0.0

    def handle(self, event: Any, now: float) -> list[Any]:
        """Handle one event."""
        if isinstance(event, Received):
            return self._received(event.sender, event.message, now)
        if isinstance(event, Woken):
            return self._woken(event.name, now)
        if isinstance(event, Started):
            return [Wake(now + self.uniform(0.0, self.settings.global_pie_s), "pie"), self._next_detection(now)]
        return []

    def _next_detection(self, now: float) -> Wake:
        self._detect_at = now + self.uniform(*self.settings.global_detect_s)
        return Wake(self._detect_at, ("detect", self._detect_at))

    def _woken(self, name: Any, now: float) -> list[Any]:
        match name:
            case "pie":
                return self._publish(now)
            case ("detect", at) if at == self._detect_at:
                return self._detect(now)
            case ("reply", session) if self.partner and self.partner.session == session and not self.partner.agreed:
                return self._ask(now)
        return []

    def _received(self, sender: str, message: Any, now: float) -> list[Any]:
        match message:
            case Pie() if message.scope == "cluster":
                return self._read_global(message, now)
            case Pie() if message.cluster == self.cluster:
                self.local.read(message, now)
                return self._watch_balance(now)
            case Pie():
                if self.partner and self.partner.agreed and message.cluster == self.partner.cluster:
                    self.theirs.read(message, now)
                    return self._watch_balance(now)
            case m.GlobalRequest():
                return self._help_edge(now)
            case m.Progress(moved):
                if self.partner:
                    self.partner.last_move, self.partner.moved = now, self.partner.moved + moved
            case m.ClusterRequest(session, cluster):
                return self._requested(sender, session, cluster, now)
            case m.ClusterReply():
                return self._replied(sender, message, now)
            case m.ClusterDone(session) if self.partner and self.partner.session == session:
                return self._end(now, "the other ended it", tell=False)
        return []

    # -- load information -----------------------------------------------------------------------

    def _average(self, now: float) -> Indices | None:
        """Return the mean indices of our edge brokers (section 3.3.1.2)."""
        known = [entry.indices for entry in self.local.current(now) if entry.name in self.edges]
        if not known:
            return None
        return Indices(*(sum(values) / len(known) for values in zip(*known, strict=True)))

    def _refresh(self, now: float) -> None:
        overloaded = any(entry.status is Status.NA for entry in self.local.current(now))
        self.status = next_status(CLUSTER, self.status, Cause.OVERLOADED if overloaded else Cause.RELIEVED)

    def _publish(self, now: float) -> list[Any]:
        wake = Wake(now + self.settings.global_pie_s, "pie")
        self._refresh(now)
        average = self._average(now)
        if average is None:
            return [wake]
        partner = self.partner
        if partner is not None and partner.agreed:  # edge brokers forget a cluster unless it is confirmed
            again = [Send(edge, m.Watch(partner.cluster, partner.session)) for edge in self.edges]
            return [wake, *again, *self._written(average, now)]
        return [wake, *self._written(average, now)]

    def _written(self, average: Indices, now: float) -> list[Any]:
        pie = self.writer.generate(average, self.status, (), now)
        return [] if pie is None else [Send(m.PIE_GLOBAL + self.cluster, pie)]

    def _read_global(self, pie: Pie, now: float) -> list[Any]:
        if pie.broker == self.name:
            return []
        before = self.others.entries.get(pie.broker)
        self.others.read(pie, now)
        self._refresh(now)
        # An overloaded cluster passes on what it hears, once, so that clusters behind it can find each other.
        news = before is None or now - before.at > 1.0
        open_to_all = self.settings.far or self.status is Status.NA
        pass_on = [Send(m.PIE_GLOBAL + self.cluster, pie)] if open_to_all and news else []
        return [*pass_on, *(self._detect(now) if pie.status is Status.OK else [])]

    # -- detection and asking -------------------------------------------------------------------

    def _detect(self, now: float) -> list[Any]:
        """Look for a cluster whose load is lower by more than the global threshold (section 3.3.2.2)."""
        wake = self._next_detection(now)
        self._refresh(now)
        average = self._average(now)
        if average is None:
            return [wake]
        old = self.smooth or (None, None, None)
        self.smooth = Indices(*(smoothed(new, was, self.settings.alpha) for new, was in zip(average, old, strict=True)))
        if self.partner is not None:
            quiet = now - max(self.partner.last_move, self.partner.began) > self.settings.quiet_s
            return [wake, *(self._end(now, "nothing moved any more") if self.partner.agreed and quiet else [])]
        known = self.others.current(now)
        if self.status is Status.OK and any(other.status is Status.NA for other in known):
            return [wake]
        return [wake, *self._begin(self._candidates(known, now), now)]

    def _candidates(self, known: Sequence[PieEntry], now: float) -> list[tuple[str, str]]:
        mine, settings = self.smooth, self.settings
        assert mine is not None
        candidates = []
        # After a calm period small differences are worth a session, but not below the local threshold.
        calm = 0.0 < settings.calm_s <= now - self.since
        ratio = min(settings.fine, settings.global_ratio) if calm else settings.global_ratio
        delay = min(settings.fine, settings.global_delay) if calm else settings.global_delay
        for other in known:
            gaps = (
                mine.input - other.indices.input - ratio,
                mine.output - other.indices.output - ratio,
                delay_difference(mine.delay, other.indices.delay, settings.normalization_s) - delay,
            )
            if max(gaps) > 0 and other.status is not Status.NA and self.backoff_until.get(other.name, 0.0) <= now:
                candidates.append((-max(gaps), other.name, other.cluster))
        return [(name, cluster) for _, name, cluster in sorted(candidates)]

    def _begin(self, candidates: list[tuple[str, str]], now: float) -> list[Any]:
        self.trying = candidates
        return self._ask(now) if candidates else []

    def _ask(self, now: float) -> list[Any]:
        self.partner = None
        if not self.trying:
            return []
        head, cluster = self.trying.pop(0)
        self._number += 1
        session = f"{self.name}.{self._life}.{self._number}"
        self.partner = Partnership(session, head, cluster, now)
        return [
            Send(head, m.ClusterRequest(session, self.cluster)),
            Wake(now + self.settings.reply_timeout_s, ("reply", session)),
        ]

    def _help_edge(self, now: float) -> list[Any]:
        """Find help for an overloaded edge broker; after ``global_requests`` calls the session ends for a new partner."""
        partner = self.partner
        if partner is None:
            return self._detect(now)
        if not partner.agreed:
            return []
        partner.requests += 1
        if partner.requests < self.settings.global_requests:
            return []
        ended = self._end(now, "it could not help")
        self._refresh(now)
        others = (
            [pair for pair in self._candidates(self.others.current(now), now) if pair[0] != partner.head]
            if self.smooth
            else []
        )
        return [*ended, *self._begin(others, now)]

    def _requested(self, sender: str, session: str, cluster: str, now: float) -> list[Any]:
        self._refresh(now)
        if self.partner and self.partner.session == session:
            return [Send(sender, m.ClusterReply(session, Status.OK, self.cluster))]
        status = Status.BUSY if self.partner is not None else self.status
        reply = Send(sender, m.ClusterReply(session, status, self.cluster))
        if status is not Status.OK:
            return [reply]
        self.partner = Partnership(session, sender, cluster, now, agreed=True)
        self.status = next_status(CLUSTER, self.status, Cause.AGREED)
        return [reply, *self._introduce(cluster, session)]

    def _replied(self, sender: str, reply: m.ClusterReply, now: float) -> list[Any]:
        partner = self.partner
        if partner is None or partner.session != reply.session:
            return [Send(sender, m.ClusterDone(reply.session))] if reply.status is Status.OK else []
        if partner.agreed:
            return []
        if reply.status is not Status.OK:
            return self._ask(now)
        partner.agreed, partner.cluster = True, reply.cluster
        self.trying = []
        self.status = next_status(CLUSTER, self.status, Cause.AGREED)
        return self._introduce(reply.cluster, reply.session)

    def _introduce(self, cluster: str, session: str) -> list[Any]:
        """Subscribe our edge brokers and this head to the other cluster's load information."""
        self.theirs = PieBoard((self.settings.refresh + 1) * self.settings.local_pie_s)
        return [m.Listen(cluster), *(Send(edge, m.Watch(cluster, session)) for edge in self.edges)]

    # -- the end --------------------------------------------------------------------------------

    def _watch_balance(self, now: float) -> list[Any]:
        """End the session when every edge broker of both clusters reports that it is balanced with all others."""
        partner = self.partner
        if partner is None or not partner.agreed:
            return []
        ours, theirs = self.local.current(now), self.theirs.current(now)
        if len(ours) < len(self.edges) or not theirs:
            return []
        names = {entry.name for entry in (*ours, *theirs)}
        balanced = all(names - {entry.name} <= entry.balanced for entry in (*ours, *theirs))
        return self._end(now, "balanced") if balanced else []

    def _end(self, now: float, how: str, *, tell: bool = True) -> list[Any]:
        assert self.partner is not None
        ended, self.partner = self.partner, None
        self.status = next_status(CLUSTER, self.status, Cause.ENDED)
        self.since = now
        if not ended.moved and self.settings.empty_backoff_s:
            self.backoff_until[ended.head] = now + 4 * self.settings.empty_backoff_s
        note = {
            "kind": "global_session",
            "at": now,
            "session": ended.session,
            "cluster": self.cluster,
            "with": ended.cluster,
            "began": ended.began,
            "moved": ended.moved,
            "how": how,
        }
        return [
            Note(note),
            *([Send(ended.head, m.ClusterDone(ended.session))] if tell else []),
            m.Unlisten(ended.cluster),
            *(Send(edge, m.Unwatch(ended.cluster)) for edge in self.edges),
        ]
