"""Follows a running query for a person: a live table on a terminal, a line now and then in a log."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from evenflow.cli.output import console, say

if TYPE_CHECKING:
    from evenflow.spark.kit.query import BalancedQuery

POLL_S = 0.25
SHOW_S = 2.0  # between two lines or pictures: lanes and moves are read from the checkpoint
WIDTH = 40


class Tally:
    """Counts what the query reports of its batches."""

    def __init__(self) -> None:
        self.batch = -1
        self.batches = 0
        self.rows = 0
        self.last: dict[str, Any] = {}

    def take(self, reports: list[Any]) -> bool:
        """Take in the newest reports; say whether there was a batch with rows."""
        before = self.batches
        for report in reports:
            # A report between two triggers without data repeats the number of the last batch.
            if report["batchId"] > self.batch and report["numInputRows"]:
                self.batch = report["batchId"]
                self.batches += 1
                self.rows += report["numInputRows"]
                self.last = report
        return self.batches > before

    def line(self, moves: int) -> str:
        """Return the last batch as one line."""
        seconds, rows = self.last["batchDuration"] / 1000, self.last["numInputRows"]
        speed = rows / max(seconds, 1e-3)
        last = f"batch {self.batch}: {rows:,} rows in {seconds:.2f} s, {speed:,.0f} rows/s"
        return f"{last}; {self.rows:,} rows and {moves} moves in all"


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Note Ctrl-C and a polite kill instead of dying in the middle of a call; a second one is obeyed at once."""
    seen: list[int] = []

    def note(number: int, _frame: object) -> None:
        seen.append(number)
        signal.signal(number, signal.default_int_handler)

    # Spark's own handler cancels the batch under way, which would end the query with an error.
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def follow(query: BalancedQuery) -> dict[str, Any]:
    """Wait for a query's end, or stop it on Ctrl-C after the batch under way; return what it did."""
    screen = console(stderr=True)
    tally = Tally()
    begun = shown = time.monotonic()
    with _interrupts() as seen, Live(console=screen, auto_refresh=False, transient=True) as live:
        if not screen.is_terminal:
            live.stop()
        while query.isActive and not seen:
            time.sleep(POLL_S)
            fresh = tally.take(query.recentProgress)
            if tally.batches and (fresh or screen.is_terminal) and time.monotonic() >= shown + SHOW_S:
                shown = time.monotonic()
                if screen.is_terminal:
                    live.update(picture(query, tally), refresh=True)
                else:
                    say(tally.line(moves_of(query)))
        if seen:
            query.stop()
        tally.take(query.recentProgress)
    error = None if seen else query.exception()
    return {
        "ended": "interrupted" if seen else "ended",
        "batches": tally.batches,
        "rows": tally.rows,
        "moves": moves_of(query),
        "seconds": round(time.monotonic() - begun, 3),
        "error": None if error is None else str(error),
    }


def moves_of(query: BalancedQuery) -> int:
    """Return how many slices moved since the checkpoint began."""
    return int(query.routes().next_session)


def picture(query: BalancedQuery, tally: Tally) -> Group:
    """Return lanes as bars of what the last batch took, and the last batch as a line."""
    lanes = query.nodes().toArrow().to_pylist()
    most = max((lane["wall_s"] for lane in lanes), default=0.0) or 1.0
    table = Table("lane", "slices", "rows", "seconds", "", box=None)
    for lane in lanes:
        bar = Text("█" * round(WIDTH * lane["wall_s"] / most), style="green" if lane["in_use"] else "dim")
        name = str(lane["lane"]) if lane["in_use"] else f"{lane['lane']} (rests)"
        table.add_row(name, str(lane["slices"]), f"{lane['rows']:,}", f"{lane['wall_s']:.3f}", bar)
    return Group(table, Text(tally.line(moves_of(query))))
