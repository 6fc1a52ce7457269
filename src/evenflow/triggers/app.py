"""Tables, triggers and applications: a trigger watches a column and runs for every row whose cell changed.

A trigger is an event, a condition and an action.
A table has rows, a row has columns, and a column holds one value or a set of named entries.
All cells of a row are stored on one worker, the row's home. A trigger reads its own row and may write any row.
Its writes are events, which may invoke further triggers. An application runs until nothing changes any more.
When a table changes later, only the affected triggers run again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from evenflow.errors import BadInput, nearest

Key = Hashable
Row = dict[str, Any]
Condition = Callable[[Row], bool]
Size = Callable[[Row], float]


class Entries(dict[Any, Any]):
    """A column of named entries; each entry can be written by itself."""

    __slots__ = ()

    def copy(self) -> Entries:
        """Return a copy."""
        return Entries(self)


class Numbers(Entries):
    """A column of named numbers that keeps its total, so that a condition does not sum them at every change.

    The total is updated by differences, so rounding errors add up. Sum the entries where the exact value matters.

    Examples
    --------
    >>> amounts = Numbers({"order 1": 20.0})
    >>> amounts["order 2"] = 5.0
    >>> amounts.pop("order 1"), amounts.total
    (20.0, 5.0)
    """

    __slots__ = ("total",)

    def __init__(self, entries: Mapping[Any, float] | None = None, total: float | None = None) -> None:
        super().__init__(entries or {})
        self.total = sum(self.values()) if total is None else total

    def __setitem__(self, entry: Any, value: float) -> None:
        self.total += value - self.get(entry, 0.0)
        super().__setitem__(entry, value)

    def pop(self, entry: Any, *default: Any) -> Any:
        """Remove an entry and return it."""
        if entry in self:
            self.total -= self[entry]
        return super().pop(entry, *default)

    def copy(self) -> Numbers:
        """Return a copy."""
        return Numbers(self, self.total)

    def __reduce__(self) -> tuple[Any, ...]:
        return Numbers, (dict(self), self.total)


class Write(NamedTuple):
    """A value for one column of some rows of a table.

    With ``entry`` it is written to that entry of the column; the value ``None`` removes the entry.
    """

    table: str
    keys: tuple[Key, ...]
    column: str
    entry: Any
    value: Any


NO_ENTRY: Final = "\0whole column"
"""The ``entry`` of a ``Write`` to the whole column; a string, so that it stays equal in another process."""

VERSION: Final = "\0version"
"""The cell of a row that counts its changes; no column can have this name."""


class RowView:
    """The view of an action: it can read and write its own row, and write every other row.

    Writes are applied after the action has ended, but the action already reads its own writes.
    """

    __slots__ = ("_own", "_row", "key", "table", "writes")

    def __init__(self, table: str, key: Key, row: Row) -> None:
        self.table = table
        self.key = key
        self.writes: list[Write] = []
        self._row = row
        self._own: Row = {}

    def __getitem__(self, column: str) -> Any:
        if column in self._own:
            return self._own[column]
        try:
            return self._row[column]
        except KeyError:
            raise BadInput(f"column {column!r}", nearest(column, self._row.keys() - {VERSION}), self.table) from None

    def __setitem__(self, column: str, value: Any) -> None:
        self._own[column] = value
        self.writes.append(Write(self.table, (self.key,), column, NO_ENTRY, value))

    @property
    def version(self) -> int:
        """The version of the row, which grows by 1 with every change."""
        version: int = self._row[VERSION]
        return version

    def put(self, table: str, keys: Iterable[Key], column: str, entry: Any, value: Any) -> None:
        """Write the same entry of a column in all rows ``keys``; ``None`` removes the entry."""
        self.writes.append(Write(table, tuple(keys), column, entry, value))

    def set(self, table: str, key: Key, column: str, value: Any) -> None:
        """Write a column of another row."""
        self.writes.append(Write(table, (key,), column, NO_ENTRY, value))


@dataclass(frozen=True, slots=True)
class Trigger:
    """One registered trigger: the columns of one table that it watches, its condition and its action.

    ``size`` returns how large a row is for the action (links, entries …); the ``line`` estimate of its time needs it.
    ``matters`` returns how much running it now would change. With the order ``gain`` a worker first runs the triggers
    that change most for their predicted time. Triggers without ``matters`` run last.
    """

    name: str
    table: str
    columns: tuple[str, ...]
    action: Callable[[RowView], None]
    when: Condition | None = None
    size: Size | None = None
    matters: Size | None = None

    def size_of(self, row: Row) -> float:
        """Return how large a row is for the action, or 0 without ``size``."""
        return self.size(row) if self.size is not None else 0.0


class TriggerApp:
    """An application: its tables and its triggers.

    Examples
    --------
    >>> app = TriggerApp("totals")
    >>> app.table("regions", amounts=Entries(), total=0.0)
    >>> @app.on("regions.amounts")
    ... def add_up(row):
    ...     row["total"] = sum(row["amounts"].values())
    >>> from evenflow.triggers.local import LocalCluster
    >>> cluster = LocalCluster(app, workers=2)
    >>> cluster.put("regions", "north", "amounts", "order 1", 20.0)
    >>> cluster.put("regions", "north", "amounts", "order 2", 5.0)
    >>> _ = cluster.run()
    >>> cluster.row("regions", "north")["total"]
    25.0
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.tables: dict[str, Mapping[str, Any]] = {}
        self.triggers: dict[str, Trigger] = {}
        self.watching: dict[tuple[str, str], tuple[Trigger, ...]] = {}

    def table(self, name: str, **columns: Any) -> None:
        """Declare a table with the initial values of a row; ``Entries()`` declares a column of entries."""
        if name in self.tables:
            raise BadInput(f"table {name!r} twice", "one declaration per table", f"app {self.name}")
        self.tables[name] = columns

    def on(
        self,
        *places: str,
        when: Condition | None = None,
        size: Size | None = None,
        matters: Size | None = None,
    ) -> Callable[[Callable[[RowView], None]], Callable[[RowView], None]]:
        """Register the decorated function for changes of one or more columns of one table, as ``"table.column"``.

        ``when`` is the condition: it gets the row after the change and returns whether to invoke the action.
        ``size`` and ``matters`` are explained at :class:`Trigger`; a trigger that matters infinitely runs first.
        """
        watched = [self._place(place) for place in places]
        tables = {table for table, _ in watched}
        if len(tables) != 1:
            raise BadInput(", ".join(places) or "no place", "columns of one table, as 'table.column'", "on")

        def register(action: Callable[[RowView], None]) -> Callable[[RowView], None]:
            name = action.__name__
            if name in self.triggers:
                raise BadInput(f"trigger {name!r} twice", "one function per name", f"app {self.name}")
            columns = tuple(column for _, column in watched)
            trigger = Trigger(name, watched[0][0], columns, action, when, size, matters)
            self.triggers[name] = trigger
            for place in watched:
                self.watching[place] = (*self.watching.get(place, ()), trigger)
            return action

        return register

    def _place(self, place: str) -> tuple[str, str]:
        table, dot, column = place.partition(".")
        if not dot:
            raise BadInput(repr(place), "'table.column'", "on")
        self.columns(table, column)
        return table, column

    def columns(self, table: str, column: str | None = None) -> Mapping[str, Any]:
        """Return the columns of a table with their initial values; refuse an unknown table or column."""
        if table not in self.tables:
            raise BadInput(f"table {table!r}", nearest(table, self.tables), f"app {self.name}")
        columns = self.tables[table]
        if column is not None and column not in columns:
            raise BadInput(f"column {column!r}", nearest(column, columns), f"table {table}")
        return columns

    def new_row(self, table: str) -> Row:
        """Return a new row with the initial values of its table."""
        return {c: v.copy() if isinstance(v, Entries) else v for c, v in self.columns(table).items()}
