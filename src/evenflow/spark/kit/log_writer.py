"""The driver's writer of the control log: advances sessions as batches commit, and enters the moves that were decided."""

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
    driver
        The number of the driver for which it writes; by default it takes the checkpoint over.
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
        self._asked = -1, 0.0  # what was committed when Spark last asked, and when that was
        self._newest = -1  # the last batch that was sampled
        self._shipped: dict[int, tuple[int, float]] = {}  # session → newest batch and time when it could be installed
        self._cleared = False
        self._refused: set[str] = set()  # requests that were set aside
        self.cpu_s = 0.0  # what the control loop itself took

    def write(self, committed: int) -> int:
        """Append what is due when the first ``committed`` entries are; return the log's length.

        Raises
        ------
        SupersededError
            When a newer driver has taken over.
        """
        now = self._clock()
        if committed == self._asked[0] and now < self._asked[1] + POLL_S and not self._log.routes.sessions:
            return self._log.append([])  # Spark asks a hundred times a second when there is nothing to do
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
        except OvertakenError:  # the driver before us had not yet seen us: read what it wrote, then decide again
            return log.append([])
        self._note(records)
        for name in names:  # after the append: a crash in between finds the request again, and it changes nothing
            self._plane.place.delete(f"{requests.FOLDER}/{name}")
        self.cpu_s += time.thread_time() - began
        return end

    def close(self) -> None:
        """Write no more."""
        if self._chronicle is not None:
            self._chronicle.close()

    def _clear(self, routes: Routes) -> None:
        """Delete shipped states of sessions that are over: a task of an old driver may have been late with one."""
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
        """Turn requests into entries and count them in the draft; what cannot be carried out is set aside."""
        entries: list[Entry] = []
        done = []
        for name in self._plane.place.names(requests.FOLDER):
            if name in self._refused:
                continue
            try:
                request = self._read(name, draft)
            except FileNotFoundError:  # taken back
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
        """Set a request aside with its reason, where a person finds it: in the trace, and beside the others."""
        place = self._plane.place
        self._refused.add(name)  # should it not be possible to delete it, it is refused once all the same
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
