"""Reads the subscriptions of brokers on Spark: from a DataFrame, once, or from a growing directory, before every batch."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from evenflow.errors import BadInput
from evenflow.spark.matching.subscription_log import current_version, read_line
from evenflow.subscriptions.language import LanguageError, Subscription, parse_subscription

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)


@dataclass
class SubscriptionSource:
    """Returns the changes since the last call: ids with a new subscription, or with None if they were removed.

    Parameters
    ----------
    source
        A DataFrame with ``id`` and ``subscription``, or a directory of lines as ``subscription_log`` reads them.
    """

    source: DataFrame | Path
    faults: list[str] = field(default_factory=list)
    _read: dict[str, int] = field(default_factory=dict)
    _taken: bool = False
    _known: dict[str, Subscription] = field(default_factory=dict)

    def changes(self) -> dict[str, tuple[Subscription, str] | None]:
        """Return what is new; a line that cannot be read is left out and kept in ``faults``."""
        changes: dict[str, tuple[Subscription, str] | None] = {}
        for name, text in self._lines():
            if text is None:
                changes[name] = None
                continue
            try:
                changes[name] = (self._parsed(text), text)
            except LanguageError as fault:
                self._fault(f"{name}: {fault}")
        return changes

    def _fault(self, *faults: str) -> None:
        for fault in faults:
            _log.warning("brokers: a subscription is left out: %s", fault)
        self.faults += faults

    def _parsed(self, text: str) -> Subscription:
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = parse_subscription(text)
        return known

    def _lines(self) -> list[tuple[str, str | None]]:
        if isinstance(self.source, Path):
            return self._new_lines(self.source)
        if self._taken:
            return []
        self._taken = True
        missing = {"id", "subscription"} - set(self.source.columns)
        if missing:
            given = ", ".join(self.source.columns)
            raise BadInput(f"the columns {given}", "the columns id and subscription", "brokers: subscriptions")
        rows = self.source.selectExpr("cast(id as string) as id", "subscription").collect()
        counts = Counter(row["id"] for row in rows)
        if None in counts:
            raise BadInput("a null id", "an id for each subscription", "brokers: subscriptions")
        twice = next((name for name, count in counts.items() if count > 1), None)
        if twice is not None:
            raise BadInput(f"the id {twice!r} twice", "one subscription per id", "brokers: subscriptions")
        self._fault(*(f"{row['id']}: no subscription" for row in rows if row["subscription"] is None))
        return [(row["id"], row["subscription"]) for row in rows if row["subscription"] is not None]

    def _new_lines(self, directory: Path) -> list[tuple[str, str | None]]:
        lines: list[tuple[str, str | None]] = []
        for file, size in sorted(current_version(directory).items()):
            begin = self._read.get(file, 0)
            if size <= begin:
                continue
            with (directory / file).open("rb") as opened:
                opened.seek(begin)
                content = opened.read(size - begin)
            self._read[file] = size
            for line in content.split(b"\n")[:-1]:
                try:
                    entry = read_line(line)
                except ValueError as fault:
                    self._fault(f"{file}: {fault}")
                    continue
                if entry is not None:
                    lines.append(entry)
        return lines
