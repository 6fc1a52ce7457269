"""Records of what a worker has lent and borrowed; this module sends nothing."""

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
    """A trigger on a row of this worker that another worker is to run."""

    trigger: str
    table: str
    key: Key
    taker: str
    since: float

    @property
    def who(self) -> Who:
        """The trigger and the key of its row."""
        return self.trigger, self.key


@dataclass(slots=True)
class Leases:
    """Open leases. Invariant: a closed lease stays closed, so a late result has no effect."""

    open: dict[int, Lease] = field(default_factory=dict)
    lent: dict[Who, int] = field(default_factory=dict)
    takers: dict[Place, dict[str, int]] = field(default_factory=dict)  # workers with a copy, and their leases
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
        """Close a lease and return it; return ``None`` if it is not open."""
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
        """Return the open leases that are at least ``lease_s`` old; the timer is set to exactly ``since + lease_s``."""
        return [number for number, lease in self.open.items() if lease.since + lease_s <= now]


@dataclass(slots=True)
class Copy:
    """A borrowed row, and how many borrowed triggers still need it."""

    row: Row
    needed: int = 0


@dataclass(slots=True)
class Copies:
    """Borrowed rows by home, table and key; a row is kept while a borrowed trigger needs it."""

    held: dict[tuple[str, str, Key], Copy] = field(default_factory=dict)

    def put(self, home: str, place: Place, row: Row) -> None:
        """Store a row as its home sent it."""
        self.held.setdefault((home, *place), Copy(row)).row = row

    def need(self, home: str, place: Place) -> None:
        """Count one more trigger that needs a row."""
        self.held[home, *place].needed += 1

    def release(self, home: str, place: Place) -> None:
        """Count one trigger less that needs a row; drop the row after the last one."""
        copy = self.held[home, *place]
        copy.needed -= 1
        if not copy.needed:
            del self.held[home, *place]

    def row(self, home: str, place: Place) -> Row:
        """Return a borrowed row."""
        return self.held[home, *place].row

    def refresh(self, home: str, news: Refresh, rows: Any) -> Row | None:
        """Apply a change from the home to a borrowed row and return the row, or ``None`` if it is no longer here."""
        copy = self.held.get((home, news.table, news.key))
        if copy is None:
            return None
        rows.change(copy.row, news.column, news.entry, news.value)
        copy.row[VERSION] = news.version
        return copy.row
