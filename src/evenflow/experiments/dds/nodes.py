"""Starts the processes of ``dds-nodes``, disturbs them, and reads their logs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.dds.journal import notes_of
from evenflow.experiments.dds.logs import summary
from evenflow.experiments.registry import TraceWriter

if TYPE_CHECKING:
    from evenflow.experiments.dds.family import DdsSettings

READY_S = 90.0  # for processes to start on a busy machine
RESTART_S = 1.0


class Stage:
    """One run: a directory, a domain, processes."""

    def __init__(self, settings: DdsSettings, trace: TraceWriter | None) -> None:
        self.settings = settings
        self.trace = trace
        self.domain = settings.domain or 100 + os.getpid() % 100
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.outage: tuple[float, float] | None = None
        self.exits: dict[str, int] = {}
        self.directory = Path()
        self.in_time = False  # whether items still flowed when the last disturbance was over

    def run(self) -> dict[str, Any]:
        """Run everything and return the row."""
        with tempfile.TemporaryDirectory(prefix="evenflow-dds-") as name:
            self.directory = Path(name)
            try:
                self._flow()
            finally:
                self._end()
            return self._result()

    def _flow(self) -> None:
        settings = self.settings
        common = ["--slices", str(settings.slices), "--monitor-s", str(settings.monitor_s), *self._places("balancer")]
        self._start("balancer", ["-m", "evenflow", "balancer", *common])
        for i in range(settings.nodes):
            self._node(f"node-{i}")
        self._until(lambda: len(self.owners()) == settings.nodes and self._calm(), "the nodes share the slices")
        each = settings.items // settings.writers
        begin = self._publishers(each)
        length = each * settings.writers / settings.rate
        for at, disturb in self._disturbances(length):
            self._sleep(begin + at - time.time())
            disturb()
        self.in_time = any(p.poll() is None for n, p in self.running.items() if n.startswith("publishers"))
        patience = begin + length + settings.patience_s + 30.0
        for name in [n for n in self.running if n.startswith("publishers")]:
            self.exits[name] = self.running.pop(name).wait(max(1.0, patience - time.time()))
        self._until(self._calm, "the slices come to rest")

    def _disturbances(self, length: float) -> Iterator[tuple[float, Any]]:
        settings = self.settings
        for i in range(settings.join):
            yield length * (0.1 + 0.1 * i), partial(self._join, f"node-{settings.nodes + i}")
        if settings.drain:
            yield length * 0.35, self._drain
        if settings.kill:
            yield length * 0.5, self._kill

    def _join(self, name: str) -> None:
        self._node(name)
        self._settled(name, time.time())

    def _drain(self) -> None:
        process = self.running["node-1"]
        process.send_signal(signal.SIGTERM)
        self._until(lambda: process.poll() is not None, "the drained node has left")
        self.exits["node-1"] = self.running.pop("node-1").returncode

    def _kill(self) -> None:
        name = "node-2" if self.settings.nodes > 2 else "node-0"
        process = self.running.pop(name)
        process.kill()
        process.wait()
        began = time.time()
        time.sleep(RESTART_S)
        self._node(name)
        self._settled(name, began)
        self.outage = (began - 0.1, time.time())

    def _settled(self, name: str, began: float) -> None:
        """Wait until the balancer has heard of a node since ``began`` and nothing moves."""
        self._until(lambda: any(n["node"] == name and n["at"] > began for n in self._samples()), f"{name} is there")
        self._until(self._calm, "the slices are at rest")

    def _publishers(self, each: int) -> float:
        """Start the writers; return when they begin to write."""
        settings = self.settings
        period = settings.writers / settings.rate
        shares = [range(settings.writers)[i :: settings.publishers] for i in range(settings.publishers)]
        first = 0
        log = self.directory / "publishers"
        for i, share in enumerate(shares):
            last = first + len(share) - 1
            words = [self.domain, log, first, last, each, period, settings.slices]
            words += [settings.retry_s, settings.patience_s]
            self._start(f"publishers-{i}", ["-m", "evenflow.dds.writers", *map(str, words)])
            first = last + 1
        self._until(lambda: len(list(log.glob("ready-*"))) == settings.publishers, "the publishers are ready")
        begin = time.time() + 1.5  # readers and writers find each other meanwhile
        (log / "unready").write_text(str(begin))
        (log / "unready").rename(log / "begin")
        return begin

    def _node(self, name: str) -> None:
        settings = self.settings
        words = ["-m", "evenflow", "node", "--app", "evenflow.dds.writers:CountReadings", "--name", name]
        words += ["--filter", settings.filter, "--slices", str(settings.slices), "--monitor-s", str(settings.monitor_s)]
        words += ["--commit-s", str(settings.commit_s), "--overlap-s", str(settings.overlap_s), *self._places(name)]
        self._start(name, words)

    def _places(self, name: str) -> list[str]:
        return ["--domain", str(self.domain), "--state", str(self.directory / name), "--keep-log"]

    def _start(self, name: str, words: list[str]) -> None:
        with (self.directory / f"{name}.err").open("ab") as errors:
            self.running[name] = subprocess.Popen([sys.executable, *words], stdout=errors, stderr=errors)

    # -- what the balancer's log says ------------------------------------------------------------

    def _notes(self) -> list[dict[str, Any]]:
        return notes_of(self.directory / "balancer")

    def _samples(self) -> list[dict[str, Any]]:
        return [n for n in self._notes() if n["kind"] == "sample"]

    def _calm(self) -> bool:
        """Say whether no session is under way, and none began since every node was heard twice."""
        sessions = [n for n in self._notes() if n["kind"] == "session"]
        last = {n["session"]: n["step"] for n in sessions}
        ended = all(step in ("done", "rolled back") for step in last.values())
        return ended and time.time() - max((n["at"] for n in sessions), default=0.0) > 2 * self.settings.monitor_s

    def owners(self) -> Counter[str]:
        """Return how many slices each node has, by the sessions that ended well."""
        owner: dict[int, str] = {}
        for note in self._notes():
            if note["kind"] == "session" and note["step"] == "done":
                owner.update(dict.fromkeys(note["slices"], note["taker"]))
        return Counter(owner.values())

    def _until(self, holds: Any, what: str) -> None:
        end = time.time() + READY_S
        while not holds():
            self._check()
            if time.time() > end:
                msg = f"after {READY_S:g} s it is not so that {what}: {self._errors()}"
                raise RuntimeError(msg)
            time.sleep(0.2)

    def _sleep(self, seconds: float) -> None:
        end = time.time() + seconds
        while time.time() < end:
            self._check()
            time.sleep(max(0.0, min(0.2, end - time.time())))

    def _check(self) -> None:
        for name, process in self.running.items():
            if process.poll() not in (None, 0):
                msg = f"{name} ended with {process.returncode}: {self._errors()}"
                raise RuntimeError(msg)

    def _errors(self) -> str:
        return " | ".join(f"{p.stem}: {p.read_text()[-600:].strip()}" for p in sorted(self.directory.glob("*.err")))

    def _end(self) -> None:
        for process in self.running.values():
            process.send_signal(signal.SIGINT)
        for process in self.running.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _result(self) -> dict[str, Any]:
        balancer = self._notes()
        publishers = [n for d in sorted((self.directory / "publishers").glob("publisher-*")) for n in notes_of(d)]
        nodes = [n for d in sorted(self.directory.glob("node-*")) if d.is_dir() for n in notes_of(d)]
        if self.trace is not None:
            for note in sorted((*balancer, *publishers, *nodes), key=lambda note: note["at"]):
                self.trace(note)
        counts = self.owners()
        row = summary(publishers, nodes, balancer, self.outage)
        row["failed_exits"] = sum(code != 0 for code in self.exits.values())
        row["in_time"] = self.in_time
        row["slices_uneven"] = max(counts.values()) - min(counts.values())
        row["nodes_at_end"] = len(counts)
        return row
