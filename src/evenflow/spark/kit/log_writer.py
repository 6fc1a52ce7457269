"""The driver's writer of the control log: advances sessions as batches commit, and appends the moves that were decided."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from evenflow.errors import BadInput
from evenflow.spark.kit import drivers, requests
from evenflow.spark.kit.control_log import ControlLog, OvertakenError
from evenflow.spark.kit.controller import Balancing, Control
from evenflow.spark.kit.orders import due, moves
from evenflow.spark.kit.plane import Plane
from evenflow.spark.kit.requests import Askable
from evenflow.spark.kit.routes import RECEIPT, SETTING, Entry, Routes
from evenflow.spark.kit.samples import Samples
from evenflow.spark.kit.state_transfer import FOLDER as SHIPPED
from evenflow.spark.kit.state_transfer import Ship
from evenflow.spark.kit.trace_writer import Chronicle, run_directory

POLL_S: Final = 0.1
MOST_ENTRIES: Final = 10_000  # per batch; the rest waits for the next batch
PATIENCE_S: Final = 2.0  # maximum delay of an install that is held back: the stream may have no more rows


class Clerk:
    """The writer of the control log, which runs between batches.

    Parameters
    ----------
    plane
        The plane whose log is written.
    balancing
        The settings that decide when slices move.
    clock
        Returns seconds since the epoch.
    driver
        The number of the driver that writes; by default a new number, which takes over the checkpoint.
    """

    def __init__(
        self,
        plane: Plane,
        balancing: Balancing,
        clock: Callable[[], float] = time.time,
        driver: int | None = None,
    ) -> None:
        self._plane = plane
        self._balancing = balancing
        self._clock = clock
        self._driver = drivers.take_over(plane.place) if driver is None else driver
        self._log = ControlLog(plane.place, plane.empty_routes(), self._driver)
        self._ship = Ship(plane.place)
        self._samples = Samples(plane.place)
        self._control = Control(plane.slices, balancing)
        directory = run_directory(plane, balancing.run)
        self._chronicle = None if directory is None else Chronicle(directory, plane, balancing.plain())
        self._asked = -1, 0.0  # the committed offset at the last call by Spark, and the time of that call
        self._newest = -1  # the last batch with samples
        self._shipped: dict[int, tuple[int, float]] = {}  # session → batch and time since which it can be installed
        self._cleared = False
        self._refused: set[str] = set()  # names of rejected requests
        self.cpu_s = 0.0  # CPU time of the control loop itself

    def write(self, committed: int) -> int:
        """Append the entries that are due when the first ``committed`` entries are committed; return the log's length.

        Raises
        ------
        SupersededError
            When a newer driver has taken over.
        """
        now = self._clock()
        if committed == self._asked[0] and now < self._asked[1] + POLL_S and not self._log.routes.sessions:
            return self._log.append([])  # an idle Spark calls this a hundred times a second
        self._asked = committed, now
        began = time.thread_time()
        log = self._log
        drivers.check(self._plane.place, self._driver)  # before anything is written or deleted
        if self._chronicle is not None:
            self._chronicle.follow(committed, now)
        log.prune(committed)
        self._observe()
        draft = Routes.of(log.at(log.append([])).plain())
        if not self._cleared:
            self._clear(draft)
        entries = self._advance(draft, committed, now)
        draft.apply(entries)
        asked, names = self._requested(draft, now)
        decided, records = self._control.decide(draft, now)
        entries += [*asked, *moves(decided[:MOST_ENTRIES], draft, now)]
        try:
            end = log.append(entries)
        except OvertakenError:  # the previous driver had not seen us yet: read its entries, then decide again
            return log.append([])
        self._note(records)
        for name in names:  # after the append: a request that is read again after a crash changes nothing
            self._plane.place.delete(f"{requests.FOLDER}/{name}")
        self.cpu_s += time.thread_time() - began
        return end

    def close(self) -> None:
        """Close the trace."""
        if self._chronicle is not None:
            self._chronicle.close()

    def _clear(self, routes: Routes) -> None:
        """Delete shipped states of finished sessions: a task of an old driver may have written one late."""
        for name in self._plane.place.names(SHIPPED):
            if name.isdigit() and int(name) < routes.next_session and int(name) not in routes.sessions:
                self._ship.forget(int(name))
        self._cleared = True

    def _observe(self) -> None:
        new = self._samples.new()
        if new:
            self._newest = new[-1].batch
            self._control.observe(new)
            if self._chronicle is not None:
                self._chronicle.sampled(new)

    def _advance(self, routes: Routes, committed: int, now: float) -> list[Entry]:
        """Return the entries that advance sessions as far as commits allow; delete states whose install is committed."""
        entries = due(routes, committed, now, lambda session: self._late(session, now))
        for entry in entries:
            if entry.kind == RECEIPT:
                self._ship.forget(entry.session)
                self._shipped.pop(entry.session, None)
        return entries

    def _late(self, session: int, now: float) -> bool:
        """Return whether the setting ``hold`` still delays an install."""
        batch, since = self._shipped.setdefault(session, (self._newest, now))
        return self._newest < batch + self._balancing.hold and now < since + PATIENCE_S

    def _requested(self, draft: Routes, now: float) -> tuple[list[Entry], list[str]]:
        """Turn requests into entries and apply them to the draft; set aside requests that cannot be carried out."""
        entries: list[Entry] = []
        done = []
        for name in self._plane.place.names(requests.FOLDER):
            if name in self._refused:
                continue
            try:
                request = self._read(name, draft)
            except FileNotFoundError:  # withdrawn
                continue
            except BadInput as error:
                self._refuse(name, str(error), now)
                continue
            size = len(request.get("moves", "1"))
            if entries and len(entries) + size > MOST_ENTRIES:
                break
            entries += self._entries_for(request, draft, now)
            done.append(name)
        return entries, done

    def _read(self, name: str, draft: Routes) -> dict[str, Any]:
        place, file = self._plane.place, f"{requests.FOLDER}/{name}"
        size = place.size(file) or 0
        if size > requests.MOST_BYTES:
            raise BadInput(f"{size} bytes", f"at most {requests.MOST_BYTES}", requests.WHERE)
        try:
            content = place.read(file)
        except PermissionError as error:
            raise BadInput(f"a file that cannot be read ({error})", "a JSON object", requests.WHERE) from None
        policies = self._balancing.switchable
        return requests.parsed(content, Askable(draft.slices, draft.lanes, policies, draft.resting))

    def _entries_for(self, request: dict[str, Any], draft: Routes, now: float) -> list[Entry]:
        if request["what"] == requests.MOVE:
            return moves([(s, lane, why) for s, lane, why in request["moves"]], draft, now)
        entry = Entry(SETTING, now, name=request["what"], value=request["value"], why=request.get("by", ""))
        draft.apply([entry])
        return [entry]

    def _refuse(self, name: str, why: str, now: float) -> None:
        """Record a rejected request and its reason in the trace and in the folder of refused requests."""
        place = self._plane.place
        self._refused.add(name)  # refuse it only once, even if its file cannot be deleted
        try:
            held = place.read(f"{requests.FOLDER}/{name}")[: requests.MOST_TEXT].decode(errors="replace")
        except OSError as error:
            held = str(error)
        about = {"at": now, "why": why, "request": held}
        place.write(f"{requests.REFUSED}/{name}", json.dumps(about, indent=1).encode())
        self._note([{"kind": "refusal", "at": now, "why": why, "name": why, "request": name}])
        with suppress(PermissionError):
            place.delete(f"{requests.FOLDER}/{name}")

    def _note(self, records: Iterable[Mapping[str, Any]]) -> None:
        if self._chronicle is not None:
            self._chronicle.note(records)
