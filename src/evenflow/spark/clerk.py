"""The one writer of the control log: advances sessions as batches commit, and enters the moves that were decided."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Final

from evenflow.spark.chronicle import Chronicle, run_directory
from evenflow.spark.control import Balancing, Control
from evenflow.spark.orders import due, moves
from evenflow.spark.routes import MOVE, RECEIPT, SETTING, Entry, Routes
from evenflow.spark.samples import Samples
from evenflow.spark.settings import Plane
from evenflow.spark.ship import Ship

POLL_S: Final = 0.1
REQUESTS: Final = "requests"
MOST_ENTRIES: Final = 10_000  # of one batch; what is above waits for the next
PATIENCE_S: Final = 2.0  # after which a late install is no longer held back: the stream may have dried up


class Clerk:
    """Writes the log, between batches.

    Parameters
    ----------
    plane
        Whose log.
    balancing
        When slices move.
    clock
        Seconds since the epoch.
    """

    def __init__(self, plane: Plane, balancing: Balancing, clock: Callable[[], float] = time.time) -> None:
        self._plane = plane
        self._balancing = balancing
        self._clock = clock
        self._log = plane.log()
        self._ship = Ship(plane.place)
        self._samples = Samples(plane.place)
        self._control = Control(plane.slices, balancing)
        directory = run_directory(plane, balancing.run)
        self._chronicle = None if directory is None else Chronicle(directory, plane, balancing.plain())
        self._asked = -1, 0.0  # what was committed when Spark last asked, and when that was
        self._newest = -1  # the last batch that was sampled
        self._shipped: dict[int, tuple[int, float]] = {}  # session → newest batch and time when it could be installed
        self.cpu_s = 0.0  # what the control loop itself took

    def write(self, committed: int) -> int:
        """Append what is due when the first ``committed`` entries are; return the log's length."""
        now = self._clock()
        if committed == self._asked[0] and now < self._asked[1] + POLL_S and not self._log.routes.sessions:
            return self._log.append([])  # Spark asks a hundred times a second when there is nothing to do
        self._asked = committed, now
        began = time.thread_time()
        log = self._log
        if self._chronicle is not None:
            self._chronicle.follow(committed)
        log.prune(committed)
        self._observe()
        draft = Routes.of(log.at(log.append([])).plain())
        entries = self._advance(draft, committed, now)
        draft.apply(entries)
        asked, names = self._requested(draft, now)
        decided, records = self._control.decide(draft, now)
        entries += [*asked, *moves(decided[:MOST_ENTRIES], draft, now)]
        if self._chronicle is not None:
            self._chronicle.note(records)
        end = log.append(entries)
        for name in names:  # after the append: a crash in between finds the request again, and it changes nothing
            self._plane.place.delete(f"{REQUESTS}/{name}")
        self.cpu_s += time.thread_time() - began
        return end

    def close(self) -> None:
        """Write no more."""
        if self._chronicle is not None:
            self._chronicle.close()

    def _observe(self) -> None:
        new = self._samples.new()
        if new:
            self._newest = new[-1].batch
            self._control.observe(new)
            if self._chronicle is not None:
                self._chronicle.sampled(new)

    def _advance(self, routes: Routes, committed: int, now: float) -> list[Entry]:
        """Go on with every session as far as commits allow; what was installed for good needs no file any more."""
        entries = due(routes, committed, now, lambda session: self._late(session, now))
        for entry in entries:
            if entry.kind == RECEIPT:
                self._ship.forget(entry.session)
                self._shipped.pop(entry.session, None)
        return entries

    def _late(self, session: int, now: float) -> bool:
        """Say whether an install is held back, as ``hold`` asks."""
        batch, since = self._shipped.setdefault(session, (self._newest, now))
        return self._newest < batch + self._balancing.hold and now < since + PATIENCE_S

    def _requested(self, draft: Routes, now: float) -> tuple[list[Entry], list[str]]:
        """Turn requests into entries and count them in the draft."""
        entries: list[Entry] = []
        done = []
        for name in self._plane.place.names(REQUESTS):
            request = json.loads(self._plane.place.read(f"{REQUESTS}/{name}"))
            new = self._entries_for(request, draft, now)
            if len(entries) + len(new) > MOST_ENTRIES:
                break
            entries += new
            done.append(name)
        return entries, done

    def _entries_for(self, request: dict[str, Any], draft: Routes, now: float) -> list[Entry]:
        if request["what"] == MOVE:
            return moves([(s, lane, why) for s, lane, why in request["moves"]], draft, now)
        entry = Entry(SETTING, now, name=request["what"], value=request["value"], why=request.get("by", ""))
        draft.apply([entry])
        return [entry]
