"""A simulated broker's data path: input queue, matching engine, output queue, one message after another.

A broker is simulated up to a time only when its state is needed. This handles the same messages in the same order as one
event per message, at a tenth of the cost. The loops avoid calling `max`: a call per message costs a tenth of a run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

from evenflow.brokers.load import Load, MemoryUse

MEGA = 1_000_000


@dataclass(frozen=True, slots=True)
class BrokerModel:
    """A broker's speed and sizes, where the thesis gives no numbers.

    Parameters
    ----------
    per_subscription
        The matching delay in seconds is this times the number of subscriptions over MHz.
    message_bytes, engine_bytes
        The size of a message, and of a subscription in the matching engine.
    system
        Subscriptions that every broker has for itself.
    window_s
        Seconds over which rates are measured.
    """

    per_subscription: float = 0.0165
    message_bytes: int = 250
    engine_bytes: int = 4096
    system: int = 17
    window_s: int = 30


@lru_cache(maxsize=4)
def pickers(matches: tuple[tuple[int, ...], ...], empty: int) -> list[Callable[[list[int]], tuple[int, ...]]]:
    """Return for each kind of publication a function that picks its counts: the fastest way to add them up."""
    return [itemgetter(empty, empty + 1, *keys) for keys in matches]


class Broker:
    """The queues of one broker.

    Parameters
    ----------
    matches
        For each kind of publication the numbers of the subscriptions it matches.
    seconds
        The length of the run, for the measurements by second.
    """

    def __init__(
        self, name: str, mhz: float, memory_mb: float, mbps: float, model: BrokerModel,
        matches: tuple[tuple[int, ...], ...], keys: int, seconds: int,
    ) -> None:  # fmt: skip
        self.name, self.mhz, self.model = name, mhz, model
        self.memory_total = memory_mb * MEGA
        self.bandwidth = mbps * MEGA
        self.send_s = model.message_bytes * 8 / self.bandwidth
        self.matches, self.pick = matches, pickers(matches, keys)
        self.counts = [0] * (keys + 2)  # the last two remain 0: itemgetter needs at least two places
        self.clients = 0
        self.routed = 0  # subscriptions of neighbours in the engine
        self.delay = 0.0
        self.queue: deque[tuple[float, int, int, float]] = deque()  # arrival, order number, kind, born
        self.free = self.out_free = 0.0
        self.popped: list[int] = []
        self.sample: list[tuple[int, ...]] | None = None
        size = seconds + 2
        self.arrived = [0] * size
        self.output = [0.0] * size
        self.busy = [0.0] * size
        self.delivered = [0] * size
        self.delivery_s = [0.0] * size
        self.wait_s = [0.0] * size
        self.out_wait_s = [0.0] * size
        self.handled = [0] * size
        self.last_wait = 0.0  # of the message that was matched last
        self.crashed_at: float | None = None
        self.dead = False
        self.resize()

    @property
    def n_subs(self) -> int:
        """Subscriptions in the matching engine."""
        return self.model.system + self.clients + self.routed

    @property
    def speed(self) -> float:
        """Subscriptions that the engine compares per second."""
        return self.mhz / self.model.per_subscription

    def resize(self) -> None:
        """Update the matching delay after the number of subscriptions changed."""
        self.delay = self.model.per_subscription * self.n_subs / self.mhz

    def advance(self, now: float) -> None:
        """Match what has reached the engine by ``now``, and queue the deliveries."""
        queue, free = self.queue, self.free
        if not queue or free > now or queue[0][0] > now:
            return
        counts, pick, delay, send, out_free = self.counts, self.pick, self.delay, self.send_s, self.out_free
        sample, note = self.sample, self.popped.append
        busy, handled, wait_s, output, delivered = self.busy, self.handled, self.wait_s, self.output, self.delivered
        out_wait_s, delivery_s = self.out_wait_s, self.delivery_s
        bits, half = self.model.message_bytes * 8, send / 2
        waited = self.last_wait
        while queue:
            arrival, order, kind, born = queue[0]
            start = free if free > arrival else arrival  # noqa: FURB136
            if start > now:
                break
            queue.popleft()
            note(order)
            free = start + delay
            copies = sum(pick[kind](counts))
            if sample is not None:
                sample.append(self.matches[kind])
            second = int(start)
            waited = start - arrival
            busy[second] += delay
            handled[second] += 1
            wait_s[second] += waited
            if copies:
                begin = out_free if out_free > free else free  # noqa: FURB136
                output[second] += copies * bits
                delivered[second] += copies
                out_wait_s[second] += begin - free
                delivery_s[second] += copies * (begin - born + half * (copies + 1))
                out_free = begin + copies * send
        self.free, self.out_free, self.last_wait = free, out_free, waited

    def charge(self, now: float, copies: int) -> float:
        """Match one control message ahead of the data; return when its copies leave."""
        self.free = max(self.free, now) + self.delay
        self.busy[int(now)] += self.delay
        return self.delay + self.send(now, copies)

    def send(self, now: float, copies: int) -> float:
        """Send messages that need no matching, such as subscriptions; return when they leave."""
        self.out_free = max(self.out_free, now) + copies * self.send_s
        self.output[int(now)] += copies * self.model.message_bytes * 8
        return now + self.send_s

    def memory(self, now: float) -> MemoryUse:
        """Return the memory in use (Eq. 4.11)."""
        size = self.model.message_bytes
        waiting = max(0.0, self.out_free - now) * self.bandwidth / 8
        return MemoryUse(len(self.queue) * size, waiting, self.n_subs * self.model.engine_bytes, self.memory_total)

    def measure(self, now: float) -> Load:
        """Return the load over the last ``window_s`` seconds."""
        last = int(now)
        first = max(0, last - self.model.window_s)
        span = max(1, last - first)
        backlog = bool(self.queue) and self.free > now + self.delay
        busy = sum(self.busy[first:last]) / span
        return Load(
            self.n_subs,
            self.delay,
            sum(self.arrived[first:last]) / span,
            sum(self.output[first:last]) / span,
            self.bandwidth,
            1.0 if backlog and busy > 0.9 else min(1.0, busy),
            self.memory(now),
            self.model.per_subscription / self.mhz,
        )


class HeadBroker(Broker):
    """A cluster head: matches with the subscriptions of its neighbours, and forwards."""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        self.down: list[tuple[dict[int, int], Broker]] = []  # tables and brokers farther from the publishers

    def advance(self, now: float) -> None:
        """Match what has reached the engine by ``now`` and forward it; publications without a subscription are dropped."""
        queue, free = self.queue, self.free
        if not queue or free > now or queue[0][0] > now:
            return
        delay, send, out_free, matches = self.delay, self.send_s, self.out_free, self.matches
        # Brokers that are down, and the tables, do not change before the next call.
        down = [(table.keys(), broker.queue.append, broker.arrived) for table, broker in self.down if not broker.dead]
        busy, handled, wait_s, output, note = self.busy, self.handled, self.wait_s, self.output, self.popped.append
        bits = self.model.message_bytes * 8
        while queue:
            arrival, order, kind, born = queue[0]
            start = free if free > arrival else arrival  # noqa: FURB136
            if start > now:
                break
            queue.popleft()
            note(order)
            free = start + delay
            second = int(start)
            busy[second] += delay
            handled[second] += 1
            wait_s[second] += start - arrival
            keys = matches[kind]
            for wanted, send_on, arrived in down:
                if not wanted.isdisjoint(keys):
                    out_free = (out_free if out_free > free else free) + send  # noqa: FURB136
                    send_on((out_free, order, kind, born))
                    arrived[int(out_free)] += 1
                    output[second] += bits
        self.free, self.out_free = free, out_free
