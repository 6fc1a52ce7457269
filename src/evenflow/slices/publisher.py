"""A publisher keeps every item until it is acknowledged, and offers it again until then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from evenflow.actor import Command, Note, Received, Started, Wake, Woken
from evenflow.slices.ledger import item_id, number_of
from evenflow.slices.messages import Ack, Item


class Publish(NamedTuple):
    """Write one item to its topic; the transport brings it to every node whose readers accept it."""

    item: Item


class Due(NamedTuple):
    """What a workload tells a publisher to write, and when."""

    at: float
    slice: int
    cost: float = 1.0
    topic: str = "data"
    value: Any = None
    keep: bool = True  # topics that are not balanced go to every node and are not acknowledged


def publisher_name(number: int) -> str:
    """Return the name under which acknowledgements reach a publisher."""
    return f"publisher-{number}"


class Publisher:
    """Writes the items of a schedule; one publisher may speak for many sensors, as a gateway does.

    Parameters
    ----------
    number
        The high part of its items' ids.
    schedule
        What to write, in order of time.
    retry_s
        An item that was not acknowledged for this long is written again.
    record
        Whether each written item is noted on the trace.
    """

    def __init__(self, number: int, schedule: Iterator[Due], retry_s: float = 1.0, *, record: bool = True) -> None:
        self.number = number
        self.retry_s = retry_s
        self.record = record
        self.written = 0
        self._schedule = schedule
        self._next: Due | None = None
        self._open: dict[int, tuple[float, Item]] = {}  # id → last written at, item; in order of id

    @property
    def unacknowledged(self) -> int:
        """How many items are still kept."""
        return len(self._open)

    @property
    def kept(self) -> list[Item]:
        """The items that are still kept."""
        return [item for _, item in self._open.values()]

    @property
    def exhausted(self) -> bool:
        """Whether the schedule has ended."""
        return self.written > 0 and self._next is None

    def handle(self, event: Any, now: float) -> list[Command | Publish]:
        """Write what is due, forget what is acknowledged, write again what is not."""
        kind = type(event)
        if kind is Received:
            if type(event.message) is Ack:
                for item in event.message.items:
                    self._open.pop(item, None)
            return []
        if kind is Woken:
            return self._write(now) if event.name == "write" else self._again(now)
        if kind is Started:
            return [*self._following(), Wake(now + self.retry_s, "again")]
        return []

    def _following(self) -> list[Command | Publish]:
        self._next = next(self._schedule, None)
        return [] if self._next is None else [Wake(self._next.at, "write")]

    def _settled(self) -> int:
        """Return the number below which everything is acknowledged."""
        return number_of(next(iter(self._open))) if self._open else self.written

    def _write(self, now: float) -> list[Command | Publish]:
        due = self._next
        assert due is not None  # only woken for something that is due
        item = Item(item_id(self.number, self.written), due.slice, due.topic, self._settled(), due.cost, due.value)
        self.written += 1
        if due.keep:
            self._open[item.id] = (now, item)
        commands = self._following()
        if self.record and due.keep:
            commands.append(Note({"kind": "publish", "at": now, "id": item.id, "slice": item.slice}))
        commands.append(Publish(item))
        return commands

    def _again(self, now: float) -> list[Command | Publish]:
        commands: list[Command | Publish] = [Wake(now + self.retry_s, "again")]
        settled = self._settled()
        for key, (written, item) in self._open.items():
            if written > now - self.retry_s:
                continue
            fresh = item._replace(settled=settled)
            self._open[key] = (now, fresh)
            commands.append(Publish(fresh))
        return commands
