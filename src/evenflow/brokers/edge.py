"""The edge broker's balancer: detects overload, agrees on sessions with other brokers, and moves subscribers.

A broker takes part in one session at a time, as giver (its subscribers move away) or as taker (it receives them).
Messages may be lost: they are asked for again or the session is given up, so every session ends.
Only the giver decides which broker serves a moving subscriber: it orders the subscriber to leave or to stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from evenflow.actor import Note, Received, Send, Started, Wake, Woken
from evenflow.brokers import messages as m
from evenflow.brokers.catalogue import Catalogue
from evenflow.brokers.detector import Attempt, Detector
from evenflow.brokers.load import Load, LoadChange
from evenflow.brokers.pie import Indices, Pie, PieBoard, PieWriter
from evenflow.brokers.session import Giving, Outcomes, Taking, choose_subscribers
from evenflow.brokers.settings import BrokerSettings
from evenflow.brokers.status import LOCAL, Cause, Status, next_status
from evenflow.brokers.subscriber_table import SubscriberTable
from evenflow.subscriptions.press import Arrived, Requested, Sampled, Sampler, SamplerState

Uniform = Callable[[float, float], float]
MAX_ASKS = 3  # how often a giver asks a silent taker before it calls the move off


class EdgeBroker:
    """The balancer of one edge broker, without the data path.

    Parameters
    ----------
    name, cluster, head
        The broker's name, its cluster's id, and the name of the cluster's head.
    settings
        The balancer's parameters.
    catalogue
        The subscription numbers, and which subscriptions cover which.
    uniform
        Draws a random number: ``uniform(low, high)``.
    speed
        Subscriptions per second that the matching engine compares; other brokers compute headroom from it.
    life
        How often the broker was started; part of session names, so that a restarted broker reuses none.
    message_size
        Bits of one publication, as PRESS recorded them.
    """

    def __init__(
        self,
        name: str,
        cluster: str,
        head: str,
        settings: BrokerSettings,
        catalogue: Catalogue,
        uniform: Uniform,
        speed: float = 0.0,
        life: int = 0,
        message_size: float = 2000.0,
    ) -> None:
        self.name, self.cluster, self.head = name, cluster, head
        self.settings, self.catalogue, self.uniform = settings, catalogue, uniform
        self.message_size = message_size
        self.status = Status.STABILIZING
        self.load: Load | None = None
        self.subscribers = SubscriberTable()
        self.detector = Detector(settings)
        self.board = PieBoard((settings.refresh + 1) * settings.local_pie_s)
        delay = settings.pie_delay * settings.normalization_s
        self.writer = PieWriter(
            name, cluster, settings.pie_ratio, delay, settings.local_pie_s, speed, refresh=settings.refresh
        )
        self.sampler = Sampler(settings.press_samples, settings.press_timeout_s)
        self.asking: list[Attempt] = []
        self.overloaded = False
        self.giving: Giving | None = None
        self.taking: Taking | None = None
        self.outcomes = Outcomes()
        self.watched: dict[str, float] = {}  # other clusters -> until when; our head renews it
        self.verdicts = Outcomes()  # sessions in which we were the giver -> subscribers that arrived
        self.backoff_until: dict[str, float] = {}  # broker/algorithm that had nothing to move -> when to ask again
        self.leaving_load = LoadChange(0, 0.0, 0.0)
        self.refusals: dict[str, int] = {}
        self._life, self._number, self._detect_at = life, 0, 0.0

    # -- events ---------------------------------------------------------------------------------

    def handle(self, event: Any, now: float) -> list[Any]:
        """Handle one event; unexpected events are ignored."""
        kind = type(event)
        if kind is m.Measured:
            self.load = event.load
            if event.load is None:
                self.detector.reset()
            return []
        if kind is Received:
            return self._received(event.sender, event.message, now)
        if kind is Woken:
            return self._woken(event.name, now)
        if kind is Arrived:
            return self._sample(self.sampler.handle(event, now), now)
        if kind is Started:
            return self._started(now)
        return []

    @property
    def sampling(self) -> bool:
        """Whether PRESS, the traffic sampler, needs the matched publications."""
        return self.sampler.state is SamplerState.SAMPLING

    def seen_load(self) -> Load:
        """Return the load to judge by: as measured, or without the subscribers that are about to leave."""
        assert self.load is not None
        if self.settings.count_leavers or not self.subscribers.leaving or self.giving is not None:
            return self.load
        return self.load.after(self.leaving_load)

    def _started(self, now: float) -> list[Any]:
        self.detector.start_settling(now)
        first = now + self.uniform(0.0, self.settings.local_pie_s)
        return [Wake(first, "pie"), self._next_detection(now)]

    def _next_detection(self, now: float) -> Wake:
        self._detect_at = now + self.uniform(*self.settings.local_detect_s)
        return Wake(self._detect_at, ("detect", self._detect_at))

    def _woken(self, name: Any, now: float) -> list[Any]:
        match name:
            case "pie":
                return self._publish(now)
            case ("detect", at) if at == self._detect_at:  # otherwise a later wake-up replaced this one
                return self._detect(now)
            case ("reply", session) if self.giving and self.giving.session == session and not self.giving.agreed:
                self._count_refusal("no reply")
                return self._ask(now)
            case ("given", session) if self.giving and self.giving.session == session:
                return self._ask_done(now)
            case ("taken", session) if self.taking and self.taking.session == session:
                return self._end_taking(now, "timed out")
            case ("press", *_):
                return self._sample(self.sampler.handle(Woken(name), now), now)
        return []

    def _received(self, sender: str, message: Any, now: float) -> list[Any]:
        match message:
            case Pie():
                return self._read(message, now)
            case m.Request(session, algorithm):
                return self._requested(sender, session, algorithm, now)
            case m.Reply():
                return self._replied(sender, message, now)
            case m.Announce(session, total):
                return self._expect(session, total, now)
            case m.Cancel(session) if self.taking and self.taking.session == session:
                return self._end_taking(now, "cancelled")
            case m.Done(session, arrived):
                return self._done(session, arrived, now)
            case m.AskDone(session):
                return self._answer_done(sender, session)
            case m.Subscribe(key, session, total):
                return self._subscribed(sender, key, session, total, now)
            case m.Unsubscribe():
                return self._unsubscribed(sender)
            case m.AskMove(session):
                return self._answer_move(sender, session)
            case m.Watch(cluster, _):
                self.watched[cluster] = now + 3 * self.settings.global_pie_s
                return [m.Listen(cluster)]
            case m.Unwatch(cluster):
                return self._unwatch(cluster)
        return []

    # -- load information -----------------------------------------------------------------------

    def _publish(self, now: float) -> list[Any]:
        wake = Wake(now + self.settings.local_pie_s, "pie")
        if self.load is None:
            return [wake]
        balanced = self.detector.balanced_with(self.board.current(now))
        pie = self.writer.generate(Indices.of(self.seen_load()), self.status, balanced, now)
        return [wake] if pie is None else [wake, Send(m.PIE_LOCAL + self.cluster, pie)]

    def _read(self, pie: Pie, now: float) -> list[Any]:
        if pie.broker == self.name or (pie.cluster != self.cluster and pie.cluster not in self.watched):
            return []  # late information about a cluster that we no longer watch
        self.board.read(pie, now)
        return self._detect(now) if pie.status is Status.OK else []

    def _unwatch(self, cluster: str) -> list[Any]:
        self.watched.pop(cluster, None)
        self.board.forget(cluster)
        return [m.Unlisten(cluster)]

    # -- detection and asking -------------------------------------------------------------------

    def _detect(self, now: float) -> list[Any]:
        wake = self._next_detection(now)
        late = [cluster for cluster, until in self.watched.items() if until < now]
        if late:
            return [wake, *(command for cluster in late for command in self._unwatch(cluster))]
        if self.status is Status.BUSY or self.giving is not None or self.load is None:
            return [wake]
        before = self.status
        finding = self.detector.detect(self.seen_load(), self.status, self.board.current(now), now)
        notes = self._set_status(finding.status, now, finding.why)
        if before is Status.NA and finding.status is Status.STABILIZING:
            self.detector.start_settling(now)
        self.overloaded = finding.overloaded
        self.asking = [one for one in finding.tries if self.backoff_until.get(self._pair(one), 0.0) <= now]
        if finding.why and not finding.tries:
            self._count_refusal(finding.why)
        if not finding.tries and not finding.overloaded:
            return [*notes, wake]
        return [*notes, wake, *self._ask(now)]

    def _pair(self, one: Attempt) -> str:
        return f"{one.broker}/{one.algorithm}"

    def _ask(self, now: float) -> list[Any]:
        """Ask the next broker of the list; when none is left, an overloaded broker asks its head for help."""
        self.giving = None
        if not self.asking:
            return [Send(self.head, m.GlobalRequest(self.name))] if self.overloaded else []
        one = self.asking.pop(0)
        self._number += 1
        session = f"{self.name}.{self._life}.{self._number}"
        self.giving = Giving(session, one.broker, one.algorithm, self.overloaded, now)
        return [
            Send(one.broker, m.Request(session, one.algorithm)),
            Wake(now + self.settings.reply_timeout_s, ("reply", session)),
        ]

    def _replied(self, sender: str, reply: m.Reply, now: float) -> list[Any]:
        giving = self.giving
        if giving is None or giving.session != reply.session:
            # Too late: we asked another broker by now, so this one must not wait for us.
            return [Send(sender, m.Cancel(reply.session))] if reply.status is Status.OK else []
        if giving.agreed:
            return []
        if reply.status is not Status.OK or reply.load is None:
            self._count_refusal(f"{reply.status.value} reply")
            return self._ask(now)
        giving.agreed, giving.load, giving.css = True, reply.load, reply.css
        self.asking = []
        return [
            *self._set_status(next_status(LOCAL, self.status, Cause.AGREED), now, "agreed"),
            *self._sample_begin(now),
        ]

    # -- giving ---------------------------------------------------------------------------------

    def _sample_begin(self, now: float) -> list[Any]:
        settings = self.settings
        exact = settings.calm_s and not self.overloaded
        samples = max(settings.press_samples, settings.calm_samples) if exact else settings.press_samples
        self.sampler = Sampler(samples, settings.press_timeout_s)
        return self._sample(self.sampler.handle(Requested(), now), now)

    def _sample(self, commands: list[Wake | Sampled], now: float) -> list[Any]:
        result: list[Any] = []
        for command in commands:
            result += self._decide(command, now) if isinstance(command, Sampled) else [command]
        return result

    def _decide(self, sampled: Sampled, now: float) -> list[Any]:
        giving = self.giving
        if giving is None or not giving.agreed:
            return []
        unseen = self.settings.joint and not sampled.publications  # to offload_even every subscriber would seem free
        if self.load is None or unseen:
            return [Send(giving.taker, m.Cancel(giving.session)), *self._end_giving(now, "nothing was sampled")]
        chosen = choose_subscribers(
            giving, self.seen_load(), self.subscribers, self.catalogue, self.settings, sampled, self.message_size
        )
        note = giving.decision_note(self, sampled, now)
        if not chosen:
            if self.settings.empty_backoff_s:
                self.backoff_until[self._pair(Attempt(giving.taker, giving.algorithm))] = (
                    now + self.settings.empty_backoff_s
                )
            return [note, Send(giving.taker, m.Cancel(giving.session)), *self._end_giving(now, "nothing to move")]
        self.subscribers.mark_leaving(chosen, giving.session)
        giving.moving = tuple(chosen)
        total = len(chosen)
        return [
            note,
            Send(giving.taker, m.Announce(giving.session, total)),
            *(Send(name, m.MoveOrder(giving.session, total, giving.taker)) for name in chosen),
            *self._wait_given(now),
        ]

    def _wait_given(self, now: float) -> list[Any]:
        assert self.giving is not None
        wait = (len(self.giving.moving) + 1) * self.settings.migration_timeout_s + self.settings.reply_timeout_s
        return [Wake(now + wait, ("given", self.giving.session))]

    def _ask_done(self, now: float) -> list[Any]:
        """Ask a silent taker; after `MAX_ASKS` times call the move off, so that subscribers who arrived there come back."""
        assert self.giving is not None
        self.giving.asked += 1
        if self.giving.asked > MAX_ASKS:
            self._count_refusal("the taker is silent")
            return [
                Send(self.giving.taker, m.Cancel(self.giving.session)),
                *self._done(self.giving.session, frozenset(), now),
            ]
        return [
            Send(self.giving.taker, m.AskDone(self.giving.session)),
            Wake(now + self.settings.reply_timeout_s, ("given", self.giving.session)),
        ]

    def _done(self, session: str, arrived: frozenset[str], now: float) -> list[Any]:
        giving = self.giving
        if giving is None or giving.session != session or not giving.agreed:
            return []
        orders: list[Any] = []
        for name in giving.moving:
            if name in arrived:
                orders.append(Send(name, m.LeaveOrder(session)))
            else:
                self.subscribers.leaving.pop(name, None)
                orders.append(Send(name, m.StayOrder(session)))
        giving.arrived = len(arrived)
        self.verdicts.remember(session, arrived)
        self.leaving_load = giving.expected_loss()
        report = [Send(self.head, m.Progress(len(arrived)))] if self.watched and arrived else []
        return [*orders, *report, *self._end_giving(now, "done")]

    def _end_giving(self, now: float, how: str) -> list[Any]:
        assert self.giving is not None
        ended, self.giving = self.giving, None
        note = ended.end_note(self.name, now, how)
        self.detector.start_settling(now)
        return [note, *self._set_status(next_status(LOCAL, self.status, Cause.ENDED), now, how)]

    # -- taking ---------------------------------------------------------------------------------

    def _requested(self, sender: str, session: str, algorithm: str, now: float) -> list[Any]:
        if self.taking and self.taking.session == session:
            return [self._agree(sender, session)]  # our reply was lost, or the request arrived twice
        status = Status.BUSY if self.giving is not None else self.status
        if status is not Status.OK or self.load is None or session in self.outcomes:
            return [Send(sender, m.Reply(session, status if status is not Status.OK else Status.BUSY))]
        self.taking = Taking(session, sender)
        wait = self.settings.press_timeout_s + 3 * self.settings.reply_timeout_s
        return [
            self._agree(sender, session),
            Wake(now + wait, ("taken", session)),
            *self._set_status(next_status(LOCAL, self.status, Cause.AGREED), now, f"agreed to {algorithm}"),
        ]

    def _agree(self, sender: str, session: str) -> Send:
        keys = self.subscribers.by_key.keys()
        css = frozenset(key for key in keys if keys.isdisjoint(self.catalogue.above(key)))
        return Send(sender, m.Reply(session, Status.OK, self.seen_load(), css))

    def _expect(self, session: str, total: int, now: float) -> list[Any]:
        if self.taking is None or self.taking.session != session or self.taking.total is not None:
            return []
        self.taking.total = total
        if self.taking.complete:
            return self._end_taking(now, "all came")
        return [Wake(now + total * self.settings.migration_timeout_s, ("taken", session))]

    def _subscribed(self, sender: str, key: int, session: str, total: int, now: float) -> list[Any]:
        if not session:
            self.subscribers.add(sender, key)
            return []
        if self.taking is None or self.taking.session != session:
            return [] if sender in self.outcomes.get(session, ()) else [Send(sender, m.Refused(session))]
        self.subscribers.add(sender, key)
        self.taking.arrived.add(sender)
        if self.taking.total is None:
            return self._expect(session, total, now)
        return self._end_taking(now, "all came") if self.taking.complete else []

    def _unsubscribed(self, sender: str) -> list[Any]:
        self.subscribers.remove(sender)
        if not self.subscribers.leaving:
            self.leaving_load = LoadChange(0, 0.0, 0.0)
        return []

    def _end_taking(self, now: float, how: str) -> list[Any]:
        assert self.taking is not None
        ended, self.taking = self.taking, None
        arrived = frozenset(ended.arrived)
        self.outcomes.remember(ended.session, arrived)
        self.detector.start_settling(now)
        done = [] if how == "cancelled" else [Send(ended.giver, m.Done(ended.session, arrived))]
        return [*done, *self._set_status(next_status(LOCAL, self.status, Cause.ENDED), now, how)]

    def _answer_done(self, sender: str, session: str) -> list[Any]:
        if self.taking and self.taking.session == session:
            return []  # still running, it will end by itself
        return [Send(sender, m.Done(session, self.outcomes.get(session, frozenset())))]

    def _answer_move(self, subscriber: str, session: str) -> list[Any]:
        """Tell a subscriber how its move ended; if the session is forgotten, the subscriber stays."""
        if self.giving is not None and self.giving.session == session:
            return []
        arrived = subscriber in self.verdicts.get(session, ())
        if not arrived:
            self.subscribers.leaving.pop(subscriber, None)
        return [Send(subscriber, m.LeaveOrder(session) if arrived else m.StayOrder(session))]

    # -- records --------------------------------------------------------------------------------

    def _set_status(self, status: Status, now: float, why: str) -> list[Any]:
        if status is self.status:
            return []
        before, self.status = self.status, status
        record: Mapping[str, Any] = {
            "kind": "broker_status",
            "at": now,
            "broker": self.name,
            "from": before.value,
            "to": status.value,
            "why": why,
        }
        return [Note(record)]

    def _count_refusal(self, why: str) -> None:
        """Count why no session took place."""
        self.refusals[why] = self.refusals.get(why, 0) + 1
