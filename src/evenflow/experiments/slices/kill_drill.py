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
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from evenflow.errors import BadInput
from evenflow.experiments.slices.trial import put
from evenflow.rundir import TRACE
from evenflow.spark.kit.control_log import ControlLog
from evenflow.spark.kit.plane import FOLDER, control_offset
from evenflow.spark.kit.routes import Routes
from evenflow.spark.kit.samples import Samples
from evenflow.spark.kit.state_transfer import CargoError, Ship
from evenflow.spark.kit.storage import Storage, checked_url
from evenflow.spark.slices.writer import NOT_UP
from evenflow.trace import read

WAITING_FILES: Final = 3  # ahead of the stream, so that it never waits for us
CLUSTER: Final = "local-cluster[2,1,1024]"
CLUSTER_SESSION: Final = {"spark.executor.memory": "768m", "spark.task.maxFailures": "8"}
NO_STATE: Final = 20  # bytes: a pickled None is shorter
BEGIN_S: Final = 240.0  # on a machine with time to spare: for a driver's first batch
BATCH_S: Final = 120.0  # and for each further one
END_S: Final = 240.0  # and to work off the rest and compare
MOST_STARTS: Final = 5  # of one driver


class DrillError(Exception):
    """The drill itself failed: the driver died without our doing."""


class Patience:
    """Waits for a step as long as the machine's load asks for; then says in one sentence which step it was."""

    def __init__(self, step: str, seconds: float) -> None:
        self._step = step
        self._seconds = seconds
        self._since = time.monotonic()

    def check(self) -> None:
        """Raise :class:`BadInput` when the step has taken too long: the machine is too busy, or the driver hangs."""
        waited, load, cores = time.monotonic() - self._since, os.getloadavg()[0], os.cpu_count() or 1
        if waited > self._seconds * max(1.0, load / cores):
            given = f"{waited:.0f} s without {self._step}, at a load of {load:.0f} on {cores} cores"
            raise BadInput(given, f"{self._seconds:.0f} s on a machine with time to spare", "kill drill")


class Driver:
    """A driver in a process group of its own: killing it takes the JVM with it, as losing a machine would."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._log = directory / f"driver-{len(list(directory.glob('driver-*.log')))}.log"
        self._starts = 0
        self._start()

    def _start(self) -> None:
        self._starts += 1
        words = [sys.executable, "-m", "evenflow.experiments.slices.kill_child", str(self._directory)]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def start_again(self) -> None:
        """Start a driver once more whose Spark could not get a worker up in ten seconds; any other end is an error."""
        if NOT_UP not in self.log_tail() or self._starts == MOST_STARTS:
            raise DrillError(f"the driver ended; its log: {self.log_tail()}")
        self._start()

    def log_tail(self, most: int = 3000) -> str:
        """Return the end of what it wrote."""
        return self._log.read_text(errors="replace")[-most:]


@dataclass(slots=True)
class Drill:
    """One stream, killed several times.

    Parameters
    ----------
    directory
        Everything happens in it.
    kills, executor_kills
        How many times the driver is killed, and then how many times an executor of the last driver.
    naps
        How many times, before that, a driver is stopped, another one started, and the first one woken up again.
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
    naps: int = 0
    seed: int = 0
    slices: int = 12
    lanes: int = 2
    rows: int = 200
    batches: int = 3
    master: str = ""
    session: Mapping[str, str] = field(default_factory=dict)
    in_session: int = 0
    superseded: int = 0
    _files: int = 0

    def run(self) -> dict[str, Any]:
        """Kill, restart, and return what the last run found."""
        self.directory.mkdir(parents=True, exist_ok=True)
        about = {"slices": self.slices, "lanes": self.lanes, "master": self.master, "session": dict(self.session)}
        (self.directory / "drill.json").write_text(json.dumps(about))
        chance = random.Random(self.seed)
        for _ in range(self.kills):
            with Driver(self.directory) as child:
                self._up_to_a_moment(child, chance)
            self.in_session += self._held_in_session()
        with ExitStack() as running:
            child = running.enter_context(Driver(self.directory))
            for _ in range(self.naps):
                child = self._nap(child, lambda: running.enter_context(Driver(self.directory)), chance)
            for _ in range(self.executor_kills):
                self._up_to_a_moment(child, chance)
                self._kill_executor(child, chance)
                self.in_session += self._held_in_session()
            self._work(child, self.batches)
            (self.directory / "enough").touch()
            self._finish(child)
        found: dict[str, Any] = json.loads((self.directory / "findings.json").read_text())
        counted = {"kills": self.kills + self.executor_kills, "kills_in_session": self.in_session}
        return {**counted, "naps": self.naps, "superseded": self.superseded, **found}

    def _up_to_a_moment(self, child: Driver, chance: random.Random) -> None:
        self._work(child, self.batches)
        # Anywhere in the next batch, so that all its steps are hit in the long run.
        self._work(child, 1_000_000, seconds=chance.uniform(0.0, 2.0))

    def _kill_executor(self, child: Driver, chance: random.Random) -> None:
        patience = Patience("an executor of a driver", BEGIN_S)
        while not (executors := executors_of(child.process.pid)):
            patience.check()
            time.sleep(0.1)
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(chance.choice(executors), signal.SIGKILL)

    def _nap(self, old: Driver, start: Callable[[], Driver], chance: random.Random) -> Driver:
        """Let a driver sleep while another one takes over; when it wakes up, it must end by itself."""
        self._up_to_a_moment(old, chance)
        os.killpg(old.process.pid, signal.SIGSTOP)
        new = start()
        self._work(new, self.batches)
        os.killpg(old.process.pid, signal.SIGCONT)
        patience = Patience("the end of a driver that was superseded", BEGIN_S)
        while old.process.poll() is None:
            self._work(new, 1_000_000, seconds=0.2)
            patience.check()
        self.superseded += "took over; nothing is lost or doubled" in old.log_tail(1 << 20)
        return new

    def _work(self, child: Driver, batches: int, seconds: float | None = None) -> None:
        """Feed the stream until so many further batches are committed, or for so long."""
        before = seen = self._committed()
        began = time.monotonic()
        patience = Patience("the first batch of a driver", BEGIN_S)
        while (now := self._committed()) < before + batches:
            if seconds is not None and time.monotonic() >= began + seconds:
                return
            if now != seen:
                seen, patience = now, Patience("a further batch of a driver", BATCH_S)
            while self._files <= now + WAITING_FILES:
                put(self.directory / "in", self._files, self.rows)
                self._files += 1
            if child.process.poll() is not None:
                child.start_again()
            patience.check()
            time.sleep(0.02)

    def _finish(self, child: Driver) -> None:
        patience = Patience("the end of the last driver", END_S)
        while child.process.poll() is None:
            patience.check()
            time.sleep(0.1)
        if child.process.returncode != 0:
            raise DrillError(f"the last driver ended with {child.process.returncode}; its log: {child.log_tail()}")

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
        committed = self._committed()
        version = control_offset(checkpoint, committed)
        waiting = {(s.batch, s.lane, n) for s in Samples(place).new() for n, c in s.slices.items() if c.held_rows}
        for number, session in log.at(version).sessions.items():
            after = range(self._released_in(checkpoint, session.moved_at) + 1, committed + 1)
            held = any((batch, session.taker, session.slice) in waiting for batch in after)
            if session.installed_at is None and held and self._shipped(place, number, session.slice) > NO_STATE:
                return True
        return False

    def _shipped(self, place: Storage, session: int, slice_id: int) -> int:
        """Return how many bytes of state were shipped; none if a driver that lives has deleted them by now."""
        try:
            return len(Ship(place).receive(session, slice_id))
        except CargoError:
            return 0

    def _released_in(self, checkpoint: Storage, entry: int) -> int:
        """Return the batch that carried an entry of the log."""
        batches = sorted(int(name) for name in checkpoint.names("offsets"))
        return next(batch for batch in batches if control_offset(checkpoint, batch) > entry)


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
