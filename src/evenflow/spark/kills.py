"""Kill drills: a stream whose slices never rest, its driver or executors killed at random, and not one row wrong."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from evenflow.rundir import TRACE
from evenflow.spark.log import ControlLog
from evenflow.spark.routes import Routes
from evenflow.spark.samples import Samples
from evenflow.spark.settings import FOLDER, control_offset
from evenflow.spark.ship import Ship
from evenflow.spark.storage import Storage, checked_url
from evenflow.spark.trial import put
from evenflow.trace import read

WAITING_FILES: Final = 3  # ahead of the stream, so that it never waits for us
CLUSTER: Final = "local-cluster[2,1,1024]"
CLUSTER_SESSION: Final = {"spark.executor.memory": "768m", "spark.task.maxFailures": "8"}
BEGIN_S: Final = 240.0  # a driver may take so long to commit its first batch
NO_STATE: Final = 20  # bytes: a pickled None is shorter
BATCH_S: Final = 120.0  # and so long for any further one


class DrillError(Exception):
    """The drill itself failed: the driver died or hung without our doing."""


@dataclass(slots=True)
class Drill:
    """One stream, killed several times.

    Parameters
    ----------
    directory
        Everything happens in it.
    kills, executor_kills
        How many times the driver is killed, and then how many times an executor of the last driver.
    seed
        Of the moments.
    slices, lanes, rows
        The stream's; ``rows`` per batch.
    batches
        Committed batches between two kills, at least.
    master, session
        Where Spark runs, and its further settings.
    """

    directory: Path
    kills: int = 3
    executor_kills: int = 0
    seed: int = 0
    slices: int = 12
    lanes: int = 2
    rows: int = 200
    batches: int = 3
    master: str = ""
    session: Mapping[str, str] = field(default_factory=dict)
    in_session: int = 0
    _files: int = 0

    def run(self) -> dict[str, Any]:
        """Kill, restart, and return what the last run found."""
        self.directory.mkdir(parents=True, exist_ok=True)
        about = {"slices": self.slices, "lanes": self.lanes, "master": self.master, "session": dict(self.session)}
        (self.directory / "drill.json").write_text(json.dumps(about))
        chance = random.Random(self.seed)
        for _ in range(self.kills):
            child = self._start()
            try:
                self._work(child, self.batches)
                # Anywhere in the next batch, so that all its steps are hit in the long run.
                self._work(child, 1_000_000, seconds=chance.uniform(0.0, 2.0))
            finally:
                _kill(child)
            self.in_session += self._held_in_session()
        child = self._start()
        try:
            for _ in range(self.executor_kills):
                self._work(child, self.batches)
                self._work(child, 1_000_000, seconds=chance.uniform(0.0, 2.0))
                os.kill(chance.choice(executors_of(child.pid)), signal.SIGKILL)
                self.in_session += self._held_in_session()
            self._work(child, self.batches)
            (self.directory / "enough").touch()
            self._finish(child)
        finally:
            _kill(child)
        found: dict[str, Any] = json.loads((self.directory / "findings.json").read_text())
        return {"kills": self.kills + self.executor_kills, "kills_in_session": self.in_session, **found}

    def _start(self) -> subprocess.Popen[bytes]:
        # A group of its own: killing it takes the JVM with it, as losing a machine would.
        with (self.directory / "driver.log").open("ab") as log:
            words = [sys.executable, "-m", "evenflow.spark.kill_child", str(self.directory)]
            return subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)

    def _work(self, child: subprocess.Popen[bytes], batches: int, seconds: float | None = None) -> None:
        """Feed the stream until so many further batches are committed, or for so long."""
        before = self._committed()
        began = last = time.monotonic()
        seen = before
        while (now := self._committed()) < before + batches:
            at = time.monotonic()
            if seconds is not None and at >= began + seconds:
                return
            if now != seen:
                seen, last = now, at
            while self._files <= now + WAITING_FILES:
                put(self.directory / "in", self._files, self.rows)
                self._files += 1
            if child.poll() is not None or at > last + (BEGIN_S if seen == before else BATCH_S):
                raise DrillError(f"the driver ended or hung; its log: {self._log_tail()}")
            time.sleep(0.02)

    def _finish(self, child: subprocess.Popen[bytes]) -> None:
        try:
            code = child.wait(BEGIN_S)
        except subprocess.TimeoutExpired:
            code = None
        if code != 0:
            raise DrillError(f"the last driver ended with {code}; its log: {self._log_tail()}")

    def _log_tail(self) -> str:
        return (self.directory / "driver.log").read_text(errors="replace")[-3000:]

    def _committed(self) -> int:
        """Return the last committed batch, -1 for none."""
        folder = self.directory / "check" / "commits"
        names = [int(f.name) for f in folder.iterdir() if f.name.isdigit()] if folder.is_dir() else []
        return max(names, default=-1)

    def _held_in_session(self) -> bool:
        """Say whether the driver died between a release and its install, with state shipped and rows waiting.

        What is on disk now is what the next driver finds: a move in a committed batch whose install is in none.
        """
        checkpoint = Storage(checked_url(str(self.directory / "check")))
        place = checkpoint.under(FOLDER)
        log = ControlLog(place, Routes(self.slices, self.lanes, self.lanes))
        shipped = Ship(place)
        committed = self._committed()
        version = control_offset(checkpoint, committed)
        waiting = {(s.batch, s.lane, n) for s in Samples(place).new() for n, c in s.slices.items() if c.held_rows}
        for number, session in log.at(version).sessions.items():
            after = range(self._released_in(checkpoint, session.moved_at) + 1, committed + 1)
            held = any((batch, session.taker, session.slice) in waiting for batch in after)
            if session.installed_at is None and held and len(shipped.receive(number, session.slice)) > NO_STATE:
                return True
        return False

    def _released_in(self, checkpoint: Storage, entry: int) -> int:
        """Return the batch that carried an entry of the log."""
        batches = sorted(int(name) for name in checkpoint.names("offsets"))
        return next(batch for batch in batches if control_offset(checkpoint, batch) > entry)


def _kill(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def executors_of(driver: int) -> list[int]:
    """Return the executor processes that a driver started, lowest number first."""
    parents: dict[int, int] = {}
    executors = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                executors.append(int(entry.name))
        except OSError:
            continue  # it has just ended

    def started_by(process: int) -> bool:
        while process in parents:
            if process == driver:
                return True
            process = parents[process]
        return False

    return sorted(process for process in executors if started_by(process))


def drill(
    kills: int, seed: int = 0, *, trace: Callable[[Mapping[str, Any]], object] | None = None, **options: Any
) -> dict[str, Any]:
    """Run one drill in a directory of its own; ``trace`` gets the records of its run."""
    with tempfile.TemporaryDirectory(prefix="evenflow-kills-", ignore_cleanup_errors=True) as directory:
        found = Drill(Path(directory), kills, seed=seed, **options).run()
        if trace is not None:
            for record in read(Path(directory) / "check" / FOLDER / "run" / TRACE):
                trace(record)
        return found
