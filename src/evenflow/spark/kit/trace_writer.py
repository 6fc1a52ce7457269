"""The trace of a live run: writes the control log and the samples as the trace records that all drivers use.

Session, owner and move records come only from committed log entries, so a crash neither loses nor duplicates them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from evenflow.rundir import TRACE, write_run
from evenflow.spark.kit import requests
from evenflow.spark.kit.plane import Plane
from evenflow.spark.kit.routes import INSTALL, MOVE, RECEIPT, SETTING, Entry, Routes
from evenflow.spark.kit.samples import Sample
from evenflow.trace import JsonlTrace, read

POSITION: Final = "log"  # the field with the number of the log entry that a record comes from


def run_directory(plane: Plane, wanted: str) -> Path | None:
    """Return the trace directory: ``wanted``, else inside a checkpoint on this machine, else ``None``."""
    if wanted:
        return Path(wanted)
    url = urlsplit(plane.place.url)
    return Path(unquote(url.path)) / "run" if url.scheme == "file" else None


def lane_name(lane: int) -> str:
    """Return a lane's name in the trace."""
    return f"lane-{lane}"


class Chronicle:
    """The writer of one run's trace, which continues the same file after a restart."""

    def __init__(self, directory: Path, plane: Plane, settings: Mapping[str, Any]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / TRACE
        self._next = 0
        self._joined = False
        self._sampled = -1  # the last batch whose samples are in the trace
        self._batch = -1, 0.0, 1e9  # the last sampled batch, its time, and the seconds since the batch before it
        self._log = plane.log()  # a separate view, which only moves forward
        fresh = not path.exists()
        about = {"slices": plane.slices, "lanes": plane.lanes, "by": list(plane.by), **settings}
        url = urlsplit(plane.place.url)
        asked = {"requests": f"{unquote(url.path)}/{requests.FOLDER}"} if url.scheme == "file" else {}
        # Written at every start: settings and lanes may have changed, and the web page uses them for its requests.
        write_run(directory, {"experiment": "spark", "settings": about, "seeds": [], **asked})
        if not fresh:
            for record in read(path, on_torn=lambda _: None):
                self._next = max(self._next, record.get(POSITION, -1) + 1)
                if record["kind"] == "sample":
                    self._sampled = max(self._sampled, record["batch"])
        self._trace = JsonlTrace(path, append=True, flush=True)
        if fresh:
            self._begin(plane.empty_routes(), 0.0)

    def _begin(self, routes: Routes, at: float) -> None:
        for lane in sorted({*range(routes.used), *routes.lane}):
            self._trace({"kind": "node", "at": at, "node": lane_name(lane), "step": "joined", "capacity": 1.0})
        for s, lane in enumerate(routes.lane):
            self._trace({"kind": "owner", "at": at, "node": lane_name(lane), "slice": s, "owns": True, "session": None})

    def follow(self, committed: int, now: float) -> None:
        """Write the records of all new entries up to ``committed``."""
        if self._next >= committed:
            return
        if not self._joined:
            self._join(min(self._log.first(), committed), now)
        routes = self._log.at(self._next)
        for number, entry in enumerate(self._log.between(self._next, committed), self._next):
            for record in _records(entry, routes):
                self._trace({**record, POSITION: number})
            routes.apply([entry])
        self._next = committed

    def _join(self, kept: int, now: float) -> None:
        """Skip to the first entry in the log if the trace is behind it, and write the state at that entry."""
        if self._next < kept:
            self._next = kept
            self._begin(self._log.at(kept), now)
        self._joined = True

    def sampled(self, samples: Iterable[Sample]) -> None:
        """Write the samples that are not in the trace yet."""
        new = [s for s in samples if s.batch > self._sampled]
        self._sampled = max([self._sampled, *(s.batch for s in new)])
        for s in new:
            if s.batch != self._batch[0]:  # shares are relative to one core from one batch to the next
                self._batch = s.batch, s.at, max(s.at - self._batch[1], 1e-9)
            period_s = self._batch[2]
            parts = {"cpu": s.cpu_s / period_s, "wall": s.wall_s / period_s}
            self._trace(
                {
                    "kind": "sample",
                    "at": s.at,
                    "node": lane_name(s.lane),
                    "parts": {name: min(1.0, share) for name, share in parts.items()},
                    "load": sum(cost.cpu_s for cost in s.slices.values()),
                    "batch": s.batch,
                    "rows": s.rows,
                    "cpu_s": s.cpu_s,
                    "wall_s": s.wall_s,
                    "memory": s.memory_bytes,
                    "state_bytes": s.state_bytes,
                    "held_rows": s.held_rows,
                }
            )

    def close(self) -> None:
        """Close the file."""
        self._trace.close()

    def note(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Write records unchanged."""
        for record in records:
            self._trace(record)


def _records(entry: Entry, routes: Routes) -> list[dict[str, Any]]:
    if entry.kind == SETTING:
        fault = routes.fault_of(entry)
        if fault is not None:
            return [{"kind": "refusal", "at": entry.at, "why": fault, "name": fault}]
        return [{"kind": "request", "at": entry.at, "what": entry.name, "value": entry.value, "by": entry.why}]
    session = routes.sessions.get(entry.session)
    s, giver, taker = (
        (entry.slice, entry.giver, entry.taker) if session is None else (session.slice, session.giver, session.taker)
    )
    names = {"giver": lane_name(giver), "taker": lane_name(taker)}
    step = {"kind": "session", "at": entry.at, "session": entry.session, "slices": [s], **names}
    owner = {"kind": "owner", "at": entry.at, "slice": s, "session": entry.session}
    if entry.kind == MOVE:
        return [{**step, "step": "release", "why": entry.why}, {**owner, "node": names["giver"], "owns": False}]
    if entry.kind == INSTALL:
        return [{**step, "step": "install"}, {**owner, "node": names["taker"], "owns": True}]
    assert entry.kind == RECEIPT
    why = "" if session is None else session.why
    return [{**step, "step": "done"}, {"kind": "move", "at": entry.at, "unit": s, **names, "why": why}]
