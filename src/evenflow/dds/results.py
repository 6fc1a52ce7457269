"""What a listener publishes: numbered once, journalled with the commit it belongs to, written until its readers have it.

A result's id is its node's number and a number that grows over all the node's lives; both are in the journal.
After a crash the results of the last commits are written again under the same ids, so that readers, who tell copies by
id, get each of them once. A result that belongs to no commit (its item is of a topic that is not balanced, or another
node's) leaves at once and is lost if the node dies before it is written.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Protocol

from evenflow.dds.application import Application
from evenflow.dds.journal import Journal
from evenflow.dds.recalled import RESULT, RESULTS
from evenflow.dds.wire.fields import PUBLISHERS
from evenflow.dds.wire.idl import item_type
from evenflow.dds.wire.incoming import sample_of
from evenflow.dds.wire.values import to_sample
from evenflow.errors import BadInput
from evenflow.slices.ledger import item_id
from evenflow.slices.messages import Item

BLOCK = 1000  # numbers that are taken from the journal at once: a result without a commit needs no save of its own
MATCH_S = 3.0  # how long a process looks for others before it begins
RETRY_S = 0.2  # after a reader was full
IDLE_S = 1.0  # after the last save: then what readers have is forgotten without a commit
MOST_OUT = 1000  # results written and not yet known to be received; then that is waited for


def draw_publisher() -> int:
    """Draw a publisher's number; of eight million two publishers hardly draw the same."""
    return 1 + secrets.randbelow(PUBLISHERS - 1)


class Way(Protocol):
    """The writers of results, by topic."""

    def readers(self, topic: str) -> bool:
        """Say whether a reader is there."""
        ...

    def write(self, topic: str, sample: Any) -> bool:
        """Write; say whether the transport took it."""
        ...

    def received(self, topic: str, wait_s: float) -> bool:
        """Say whether every reader has everything that was written; wait for it for at most so long."""
        ...


class Results:
    """The results of one node, from ``publish`` to their readers.

    Parameters
    ----------
    journal
        The node's; what it saved of the lives before is taken up.
    """

    def __init__(self, application: Application, journal: Journal, way: Way, now: float) -> None:
        self._kinds = application.results
        self._journal = journal
        self._way = way
        saved = journal.saved
        self._publisher, self._bound = saved.get(RESULTS, (draw_publisher(), 0))
        self._next = self._bound
        self._fresh: list[tuple[str, Any]] = []  # published since the last event
        self._waiting: dict[int, tuple[str, Any]] = {}  # to be written, by number
        self._out: dict[str, list[int]] = {}  # topic → numbers written, not yet known to be received
        self._durable: set[int] = set()  # numbers in the journal
        self._gone: list[int] = []  # of those, the ones that every reader has
        self._recall(saved)
        self._recalled = bool(self._waiting)
        self._begin = now + MATCH_S
        self._retry_at = 0.0
        self._quiet_since: float | None = now  # no save since then
        application.listener.publish = self.publish

    @property
    def unwritten(self) -> int:
        """How many results wait for the transport."""
        return len(self._waiting)

    def publish(self, topic: str, value: Any) -> None:
        """Publish a value with the commit of the item at hand.

        Raises
        ------
        BadInput
            When the listener does not name the topic, or the value is not of its type.
        """
        if topic not in self._kinds:
            raise BadInput(f"a result for {topic!r}", f"one of {sorted(self._kinds)}", "publish")
        kind = self._kinds[topic]
        try:
            sample = to_sample(Item(0, 0, topic, value=value), kind)
            sample.serialize()  # now, and not after the commit: then it would be too late to refuse it
        except Exception as error:  # Cyclone's serialiser raises what its parts raise
            raise BadInput(f"{value!r} ({error})", f"a {kind.__name__}", f"publish to {topic!r}") from error
        self._fresh.append((topic, sample))

    def saving(self) -> dict[str, Any]:
        """Return what the journal needs of what was published, which gets its numbers now; the commit at hand saves it."""
        values: dict[str, Any] = {f"{RESULT}{number}": None for number in self._gone}
        self._durable.difference_update(self._gone)
        self._gone = []
        for number, topic, sample in self._numbered():
            self._durable.add(number)
            values[f"{RESULT}{number}"] = (topic, sample.serialize())
        if self._next > self._bound:
            values |= self._more()
        self._quiet_since = None
        return values

    def turn(self, now: float) -> None:
        """Write what can be written, and forget what its readers have."""
        self._quiet_since = now if self._quiet_since is None else self._quiet_since
        if self._fresh:
            self._numbered()
            if self._next > self._bound:
                self._journal.write(self._more(), [])
        if self._waiting and now >= self._retry_at:
            self._write(now)
        self._collect(0.1 if sum(map(len, self._out.values())) > MOST_OUT else 0.0)
        if self._gone and now - self._quiet_since > IDLE_S:
            self._forget()

    def close(self, now: float) -> None:
        """Write and forget what can be, so that the next life repeats nothing."""
        self._begin = now
        self.turn(now)
        self._collect(1.0)
        if self._gone:
            self._forget()

    def _recall(self, saved: Mapping[str, Any]) -> None:
        numbers = sorted(int(key.removeprefix(RESULT)) for key in saved if key.startswith(RESULT))
        for number in numbers:
            topic, data = saved[f"{RESULT}{number}"]
            self._durable.add(number)
            self._waiting[number] = (topic, sample_of(item_type(self._kinds[topic]), data))

    def _numbered(self) -> list[tuple[int, str, Any]]:
        numbered = []
        for topic, sample in self._fresh:
            sample.item_id = item_id(self._publisher, self._next)
            self._waiting[self._next] = (topic, sample)
            numbered.append((self._next, topic, sample))
            self._next += 1
        self._fresh = []
        return numbered

    def _more(self) -> dict[str, Any]:
        self._bound = self._next + BLOCK
        return {RESULTS: (self._publisher, self._bound)}

    def _write(self, now: float) -> None:
        """Write in order; behind a result that cannot go the others of its topic wait."""
        stuck: set[str] = set()
        for number, (topic, sample) in list(self._waiting.items()):
            if topic in stuck:
                continue
            looking = now < self._begin and (self._recalled or not self._way.readers(topic))
            sample.settled = next(iter(self._waiting))  # everything below was written before
            if looking or not self._way.write(topic, sample):
                stuck.add(topic)
                self._retry_at = now + RETRY_S
                continue
            del self._waiting[number]
            self._out.setdefault(topic, []).append(number)

    def _collect(self, wait_s: float) -> None:
        for topic in [t for t in self._out if self._way.received(t, wait_s)]:
            self._gone += [number for number in self._out.pop(topic) if number in self._durable]

    def _forget(self) -> None:
        self._journal.write({f"{RESULT}{number}": None for number in self._gone}, [], sync=False)
        self._durable.difference_update(self._gone)
        self._gone = []
