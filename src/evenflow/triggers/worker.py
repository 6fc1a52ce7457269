"""A trigger worker: it runs the triggers of its rows, lends groups of triggers, and runs borrowed ones.

Invariant: an invocation is waiting, running or lent, and is in one place only.
Its effect is applied exactly once, at the home of its row.
"""

from __future__ import annotations

import pickle
from typing import Any

from evenflow.actor import Note, Received, Save, Send, Started, Wake, Woken
from evenflow.errors import BadInput, nearest
from evenflow.triggers.app import VERSION, Key, Row, RowView, Trigger, TriggerApp, Write
from evenflow.triggers.channel import Ack, Channels, Packet
from evenflow.triggers.estimate import ESTIMATORS
from evenflow.triggers.heartbeat import Pulse
from evenflow.triggers.homes import Homes, parts
from evenflow.triggers.lending import lent, selected, taken_back
from evenflow.triggers.messages import (
    Events,
    Execute,
    Executed,
    Heartbeat,
    Instruct,
    Lend,
    Number,
    Refresh,
    Result,
    Return,
    Took,
)
from evenflow.triggers.outgoing import Outgoing
from evenflow.triggers.settings import WorkerSettings
from evenflow.triggers.state import WorkerState
from evenflow.triggers.store import Rows
from evenflow.triggers.waiting import Invocation, Waiting

LEAST_S = 1e-9  # lower bound of a predicted time, so that dividing by it is safe


class TriggerWorker:
    """The actor of one trigger worker.

    Parameters
    ----------
    name, app, homes
        The worker's name, the application it runs, and the function that returns the home of a row.
    settings
        See :class:`WorkerSettings`.
    master
        Name of the master that gets the heartbeats; empty to send none.
    rows
        Content of the worker's tables at the start.
    start
        Names of the triggers to invoke for every row at the start.
    """

    def __init__(
        self,
        name: str,
        app: TriggerApp,
        homes: Homes,
        settings: WorkerSettings,
        master: str = "",
        rows: Rows | None = None,
        start: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.app = app
        self.homes = homes
        self.settings = settings
        self.master = master
        self.state = WorkerState(
            rows or Rows(app),
            Waiting(settings.coalesce),
            ESTIMATORS[settings.estimate](settings.first_s),
            Channels(numbered=settings.resend_s > 0),
        )
        for trigger in start:
            if trigger not in app.triggers:
                raise BadInput(f"trigger {trigger!r}", nearest(trigger, app.triggers), f"app {app.name}")
        self._start = start
        self._out = Outgoing(self._beat_now if settings.asks else None)
        self._commands: list[Any] = []
        self._now = 0.0
        self._pulse = Pulse(settings)
        self._resending = False

    # -- events ---------------------------------------------------------------------------------

    def handle(self, event: Any, now: float) -> list[Any]:
        """Handle one event (a message of this package, or ``Woken`` for a timer) and return the commands."""
        self._commands = []
        self._now = now
        kind = type(event)
        if kind is Executed:
            self._executed(event, now)
        elif kind is Received:
            self._received(event.sender, event.message, now)
        elif kind is Woken:
            self._woken(event.name, now)
        elif kind is Took:
            self.state.estimate.learn(event.trigger, event.size, event.seconds)
            self.state.busy_s += event.seconds
            return []
        elif kind is Started:
            self._started(event.saved, now)
        self._run(now)
        return self._finish(now)

    def snapshot(self) -> bytes:
        """Return the worker's whole state as bytes."""
        self.state.waiting.ranked = None  # a cache: it is computed again when needed
        return pickle.dumps(self.state, pickle.HIGHEST_PROTOCOL)

    def restore(self, content: bytes) -> None:
        """Replace the worker's state by a snapshot."""
        self.state = pickle.loads(content)  # noqa: S301 - our own snapshot

    @property
    def load_s(self) -> float:
        """The predicted time of all waiting triggers, in seconds on this worker."""
        return self.state.waiting.load(self.state.estimate)

    @property
    def _idle(self) -> bool:
        return not (self.state.waiting or self.state.running)

    @property
    def quiet(self) -> bool:
        """Whether no trigger waits or runs, no lease is open, and every message is acknowledged."""
        state = self.state
        return not (state.waiting or state.running or state.leases.open) and state.channels.quiet

    def _started(self, saved: Any, now: float) -> None:
        state = self.state
        if "state" in saved:
            self.restore(saved["state"])
            state = self.state
            for invocation, *_ in state.running.values():  # a running trigger has had no effect yet
                self._wait(invocation)
            state.running.clear()
        else:
            for name in self._start:
                trigger = self.app.triggers[name]
                for key, row in state.rows.of(trigger.table).items():
                    self._invoke(trigger, key, row)
        if self.master and self.settings.heartbeat_s > 0:
            self._commands.append(Wake(now + self.settings.heartbeat_s, "heartbeat"))
        if self.settings.lease_s > 0:
            self._commands.append(Wake(now + self.settings.lease_s, "leases"))

    def _received(self, sender: str, message: Any, now: float) -> None:
        kind = type(message)
        if kind is Packet:
            due, ack = self.state.channels.receive(sender, message)
            for body in due:
                self._take(sender, body, now)
            self._commands.append(ack)
        elif kind is Ack:
            self.state.channels.acknowledged(sender, message.number)
        elif kind is Instruct:
            self._instructed(message, now)
        else:
            self._take(sender, message, now)

    def _take(self, sender: str, body: Any, now: float) -> None:
        kind = type(body)
        if kind is Events:
            if body.beat is not None:
                self._pulse.heard[sender] = body.beat
            for write in body.writes:
                self._apply(write)
        elif kind is tuple:  # several bodies that the sender produced in one event
            for part in body:
                self._take(sender, part, now)
        elif kind is Result:
            self._result(body, now)
        elif kind is Refresh:
            self._refreshed(sender, body)
        elif kind is Lend:
            self._borrow(sender, body)
        elif kind is Return:
            self._returned(body, now)

    def _woken(self, name: str, now: float) -> None:
        settings = self.settings
        if name == "heartbeat":
            self._beat(now, "heartbeats")
            if settings.heartbeat_s > 0:
                self._commands.append(Wake(now + settings.heartbeat_s, "heartbeat"))
        elif name == "resend":
            self._resending = False
            self._commands += self.state.channels.resend()
        elif name == "leases":
            self._overdue(now)
            self._commands.append(Wake(now + settings.lease_s, "leases"))

    # -- running --------------------------------------------------------------------------------

    def _run(self, now: float) -> None:
        """Start waiting triggers while slots are free; an execution takes effect only when it ends."""
        state = self.state
        while state.waiting.items and len(state.running) < self.settings.slots:
            invocation = state.waiting.pop(self._gain_now)
            trigger = self.app.triggers[invocation.trigger]
            row = self._row(invocation)
            view = RowView(trigger.table, invocation.key, row)
            if self.settings.reads == "start":
                trigger.action(view)
            state.ticket += 1
            state.running[state.ticket] = (invocation, view, row[VERSION])
            self._commands.append(Execute(state.ticket, invocation.trigger, invocation.size))
        if self.settings.asks and self.master and self._pulse.due(self.load_s, now, idle=self._idle):
            self._beat(now)

    def _executed(self, event: Executed, now: float) -> None:
        state = self.state
        done = state.running.pop(event.ticket, None)
        if done is None:
            return  # started before a restart
        invocation, view, read = done
        if self.settings.reads == "end":
            read = view.version
            self.app.triggers[invocation.trigger].action(view)
        writes = view.writes
        state.last_done = now
        if event.seconds is not None:
            state.estimate.learn(invocation.trigger, invocation.size, event.seconds)
            state.busy_s += event.seconds
        self._count("executed")
        if invocation.home:
            self._release(invocation)
            if self.settings.direct:
                writes = self._fire_others(self._place(invocation), writes)
            self._out.send(invocation.home, Result(invocation.lease, read, tuple(writes)))
        else:
            who = (invocation.trigger, invocation.key)
            self._effect(who, read, writes, now)
            if who in state.missed and who not in state.leases.lent and state.missed.pop(who) > read:
                self._again(*who)

    def _effect(self, who: tuple[str, Key], read: int, writes: Any, now: float) -> None:
        """Apply the writes of an execution, unless one that read the same or a later row version was applied before."""
        applied = self.state.applied
        if read <= applied.get(who, 0):
            self._count("obsolete")
            return
        applied[who] = read
        if self.settings.record:
            about = {"node": self.name, "trigger": who[0], "key": who[1], "read": read}
            self._commands.append(Note({"kind": "applied", "at": now, **about}))
        for write in writes:
            self._fire(write)

    def _fire(self, write: Write) -> None:
        """Send a write to the homes of its rows; apply it at once to the rows of this worker."""
        for home, part in parts(write, self.homes):
            self._to(home, part)

    def _fire_others(self, own: tuple[str, Key], writes: list[Write]) -> list[Write]:
        """Fire the writes to other rows than the trigger's own; return the writes to its own row, in order."""
        table, key = own
        kept = []
        for write in writes:
            others = write.keys
            if write.table == table and key in others:
                kept.append(write._replace(keys=(key,)))
                others = tuple(other for other in others if other != key)
            if others:
                self._fire(write._replace(keys=others))
        return kept

    def _to(self, home: str, write: Write) -> None:
        if home == self.name:
            self._apply(write)
        else:
            self._out.fire(home, write)

    def _apply(self, write: Write) -> None:
        """Change rows of this worker; every change is an event that invokes the triggers whose condition holds."""
        table, keys, column, entry, value = write
        watching = self.app.watching.get((table, column), ())
        rows, takers = self.state.rows, self.state.leases.takers
        for key in keys:
            row = rows.get(table, key)
            if not rows.change(row, column, entry, value):
                continue
            row[VERSION] += 1
            if takers and (table, key) in takers:
                for taker in takers[table, key]:
                    self._out.send(taker, Refresh(table, key, column, entry, value, row[VERSION]))
            for trigger in watching:
                self._invoke(trigger, key, row)

    def _invoke(self, trigger: Trigger, key: Key, row: Row) -> None:
        who = (trigger.name, key)
        holds = trigger.when is None or trigger.when(row)
        lent = who in self.state.leases.lent
        if (lent and (self.settings.coalesce or not holds)) or (not holds and self._runs(who)):
            # The execution under way will write to the row, and the condition may hold then: check it again afterwards.
            self.state.missed[who] = row[VERSION]
            return
        if not holds:
            return
        self.state.waiting.add(Invocation(trigger.name, key, trigger.size_of(row)), self._gain(trigger, row))

    def _wait(self, invocation: Invocation) -> None:
        """Queue an invocation that already exists, such as one that was lent or running."""
        self.state.waiting.add(invocation, self._gain_now(invocation))

    def _gain_now(self, invocation: Invocation) -> float:
        return self._gain(self.app.triggers[invocation.trigger], self._row(invocation))

    def _gain(self, trigger: Trigger, row: Row) -> float:
        """Return the change that the trigger would make, divided by its predicted seconds to ``cost_power``."""
        if self.settings.order == "arrival" or trigger.matters is None:
            return 0.0
        at_zero, slope = self.state.estimate.line(trigger.name)
        seconds = max(at_zero + slope * trigger.size_of(row), LEAST_S)
        return float(trigger.matters(row) / seconds**self.settings.cost_power)

    def _row(self, invocation: Invocation) -> Row:
        """Return the invocation's row, or the local copy if it is borrowed."""
        place = self._place(invocation)
        return self.state.copies.row(invocation.home, place) if invocation.home else self.state.rows.get(*place)

    def _runs(self, who: tuple[str, Key]) -> bool:
        return any((i.trigger, i.key) == who and not i.home for i, *_ in self.state.running.values())

    # -- lending --------------------------------------------------------------------------------

    def _instructed(self, instruct: Instruct, now: float) -> None:
        """Select groups and transfer them to the low-load worker (*DLBer*, section 2).

        Borrowed triggers go through their home, which lends them to the new worker.
        """
        state = self.state
        number = instruct.number
        if number <= state.gave[0]:
            return  # the network delivered the instruction twice
        groups = selected(state, instruct, self.settings.trigroup_s)
        state.gave = (number, sum(work for work, _ in groups))
        self._count("groups", len(groups))
        leaving = [invocation for _, group in groups for invocation in group]  # sent together
        self._lend([i for i in leaving if not i.home], number, instruct.taker, now)
        for home in sorted({i.home for i in leaving if i.home}):
            going = [i for i in leaving if i.home == home]
            for invocation in going:
                self._release(invocation)
            self._count("returns")
            self._out.send(home, Return(number, tuple(i.lease for i in going), instruct.taker))
        self._pulse.gave(state.gave[1])
        if self.settings.asks and not groups:
            self._beat(now)  # the master must find another giver for the asking worker

    def _lend(self, group: list[Invocation], number: Number, taker: str, now: float) -> None:
        for lend in lent(self.app, self.state, self.name, group, number, taker, now):
            self._count("lent", len(lend.invocations))
            self._count("lends")
            self._out.send(taker, lend)

    def _result(self, result: Result, now: float) -> None:
        lease = self.state.leases.close(result.lease)
        if lease is None:
            self._count("late")
            return  # the lease was taken back, so this worker runs the trigger itself
        who = lease.who
        missed = self.state.missed.pop(who, 0)
        self._effect(who, result.read, result.writes, now)
        if missed > result.read:
            self._again(*who)

    def _again(self, name: str, key: Key) -> None:
        """Check the condition again, and invoke the trigger if it holds."""
        trigger = self.app.triggers[name]
        self._invoke(trigger, key, self.state.rows.get(trigger.table, key))

    def _returned(self, body: Return, now: float) -> None:
        """Take back leases, and lend their triggers to another worker or queue them here."""
        group = taken_back(self.app, self.state, body.leases)
        if body.taker == self.name:
            for invocation in group:
                self._wait(invocation)
        else:
            self._lend(group, body.number, body.taker, now)

    def _overdue(self, now: float) -> None:
        """Take back triggers whose results are overdue, because the worker may be lost; a late result has no effect."""
        overdue = self.state.leases.overdue(now, self.settings.lease_s)
        for invocation in taken_back(self.app, self.state, overdue):
            self._count("taken_back")
            self._wait(invocation)

    # -- borrowing ------------------------------------------------------------------------------

    def _borrow(self, home: str, lend: Lend) -> None:
        self.state.took = max(self.state.took, lend.number)
        for place, row in lend.rows.items():
            self.state.copies.put(home, place, row)
        for invocation in lend.invocations:
            self.state.copies.need(home, self._place(invocation))
            self._wait(invocation)
        self._pulse.took(lend.number, self.load_s, self._now)

    def _refreshed(self, home: str, news: Refresh) -> None:
        row = self.state.copies.refresh(home, news, self.state.rows)
        if row is None or self.settings.order == "arrival":
            return
        for trigger in self.app.triggers.values():
            if trigger.table == news.table and trigger.matters is not None:
                self.state.waiting.raised((home, trigger.name, news.key), self._gain(trigger, row))

    def _place(self, invocation: Invocation) -> tuple[str, Key]:
        return self.app.triggers[invocation.trigger].table, invocation.key

    def _release(self, invocation: Invocation) -> None:
        self.state.copies.release(invocation.home, self._place(invocation))

    # -- sending --------------------------------------------------------------------------------

    def _beat(self, now: float, what: str = "asks") -> None:
        if self.master:
            self._count(what)
            self._commands.append(Send(self.master, self._pulse.with_heard(self._beat_now())))

    def _beat_now(self) -> Heartbeat:
        state = self.state
        return self._pulse.beat(self.load_s, len(state.waiting), self._now, state.gave, state.took, idle=self._idle)

    def _finish(self, now: float) -> list[Any]:
        for to, message in self._out.messages():
            self._commands.append(self.state.channels.send(to, message))
        if self.settings.resend_s > 0 and not self._resending and not self.state.channels.quiet:
            self._resending = True
            self._commands.append(Wake(now + self.settings.resend_s, "resend"))
        if self.settings.durable:
            return [Save({"state": self.snapshot()}), *self._commands]
        return self._commands

    def _count(self, what: str, by: int = 1) -> None:
        self.state.counts[what] = self.state.counts.get(what, 0) + by
