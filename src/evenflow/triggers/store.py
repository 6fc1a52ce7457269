"""The rows of one worker: cells, and a version that counts the changes of each row."""

from __future__ import annotations

from typing import Any

from evenflow.errors import BadInput, nearest
from evenflow.triggers.app import NO_ENTRY, VERSION, Entries, Key, Row, TriggerApp, Write


class Rows:
    """Tables of rows; a row that was never written has the initial values of its table.

    Examples
    --------
    >>> app = TriggerApp("shop")
    >>> app.table("orders", amount=0.0)
    >>> rows = Rows(app)
    >>> rows.change(rows.get("orders", 7), "amount", NO_ENTRY, 2.5)
    True
    >>> rows.get("orders", 7)["amount"]
    2.5
    """

    def __init__(self, app: TriggerApp) -> None:
        self._new = {table: app.new_row(table) for table in app.tables}
        self._tables: dict[str, dict[Key, Row]] = {table: {} for table in app.tables}

    def of(self, table: str) -> dict[Key, Row]:
        """Return the rows of a table."""
        return self._tables[table]

    def get(self, table: str, key: Key) -> Row:
        """Return one row; create it if needed."""
        try:
            return self._tables[table][key]
        except KeyError:
            if table not in self._new:
                raise BadInput(f"table {table!r}", nearest(table, self._new), "write") from None
            row: Row = {c: v.copy() if isinstance(v, Entries) else v for c, v in self._new[table].items()}
            row[VERSION] = 1
            self._tables[table][key] = row
            return row

    def copied(self, table: str, key: Key) -> Row:
        """Return a copy of one row, to be sent elsewhere."""
        return {c: v.copy() if isinstance(v, Entries) else v for c, v in self.get(table, key).items()}

    @staticmethod
    def change(row: Row, column: str, entry: Any, value: Any) -> bool:
        """Write one cell and return whether its value changed."""
        if column not in row:
            raise BadInput(f"column {column!r}", nearest(column, row.keys() - {VERSION}), "write")
        entries = row[column]
        if entry == NO_ENTRY:
            if isinstance(entries, Entries) and not isinstance(value, Entries):
                raise BadInput(
                    f"a {type(value).__name__} for column {column!r}", "Entries, or a put of one entry", "set"
                )
            if entries == value:
                return False
            row[column] = value
            return True
        if not isinstance(entries, Entries):
            raise BadInput(f"an entry of column {column!r}", "a column that was declared with Entries()", "put")
        if value is None:
            return entries.pop(entry, None) is not None
        if entries.get(entry) == value:
            return False
        entries[entry] = value
        return True


def checked(app: TriggerApp, write: Write) -> Write:
    """Check that the application's tables accept a write from outside, and return it.

    Raises
    ------
    BadInput
        For a table or a column that is not declared, and for an entry of a column without entries.
    """
    app.columns(write.table, write.column)
    Rows.change(app.new_row(write.table), write.column, write.entry, write.value)
    return write
