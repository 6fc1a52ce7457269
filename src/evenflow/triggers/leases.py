"""What a worker has lent and what it has borrowed: books only, nothing is sent from here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from evenflow.triggers.app import VERSION, Key, Row
from evenflow.triggers.messages import Refresh

Who = tuple[str, Key]
"""A trigger and the key of its row."""
Place = tuple[str, Key]
"""A table and the key of a row."""


@dataclass(slots=True)
class Lease:
    """A trigger of a row of ours that another worker is to run."""

    trigger: str
    table: str
    key: Key
    taker: str
    since: float

    @property
    def who(self) -> Who:
        """What is lent."""
        return self.trigger, self.key


@dataclass(slots=True)
class Leases:
    """What is lent. Law: a lease that was closed stays closed, so that a late result finds nothing."""

    open: dict[int, Lease] = field(default_factory=dict)
    lent: dict[Who, int] = field(default_factory=dict)
    takers: dict[Place, dict[str, int]] = field(default_factory=dict)  # of a row: who has a copy, for how many leases
    last: int = 0

    def grant(self, trigger: str, table: str, key: Key, taker: str, now: float) -> int:
        """Open a lease and return its number."""
        self.last += 1
        self.open[self.last] = Lease(trigger, table, key, taker, now)
        self.lent[trigger, key] = self.last
        takers = self.takers.setdefault((table, key), {})
        takers[taker] = takers.get(taker, 0) + 1
        return self.last

    def close(self, number: int) -> Lease | None:
        """End a lease and return it, if it is still open."""
        lease = self.open.pop(number, None)
        if lease is None:
            return None
        if self.lent.get(lease.who) == number:
            del self.lent[lease.who]
        place = (lease.table, lease.key)
        takers = self.takers[place]
        takers[lease.taker] -= 1
        if not takers[lease.taker]:
            del takers[lease.taker]
            if not takers:
                del self.takers[place]
        return lease

    def overdue(self, now: float, lease_s: float) -> list[int]:
        """Return the leases whose time is over; it ends at ``since + lease_s``, as the timer for it is set."""
        return [number for number, lease in self.open.items() if lease.since + lease_s <= now]


@dataclass(slots=True)
class Copy:
    """A borrowed row, and how many borrowed triggers still need it."""

    row: Row
    needed: int = 0


@dataclass(slots=True)
class Copies:
    """Borrowed rows by home, table and key; a row stays as long as a trigger needs it."""

    held: dict[tuple[str, str, Key], Copy] = field(default_factory=dict)

    def put(self, home: str, place: Place, row: Row) -> None:
        """Take in a row as its home has it."""
        self.held.setdefault((home, *place), Copy(row)).row = row

    def need(self, home: str, place: Place) -> None:
        """Keep a row for one trigger more."""
        self.held[home, *place].needed += 1

    def release(self, home: str, place: Place) -> None:
        """Keep a row for one trigger less."""
        copy = self.held[home, *place]
        copy.needed -= 1
        if not copy.needed:
            del self.held[home, *place]

    def row(self, home: str, place: Place) -> Row:
        """Return a row."""
        return self.held[home, *place].row

    def refresh(self, home: str, news: Refresh, rows: Any) -> Row | None:
        """Let a row follow its home; return it, if it is still here."""
        copy = self.held.get((home, news.table, news.key))
        if copy is None:
            return None
        rows.change(copy.row, news.column, news.entry, news.value)
        copy.row[VERSION] = news.version
        return copy.row
