"""The kill drill of the DDS source: its driver is killed again and again, and every sample arrives once in the sink.

One publisher keeps its items until they are acknowledged; another is transient-local and sends its whole history to every
reader that comes. The driver is started as ``python -m evenflow.experiments.dds.spark_drill DIRECTORY``.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from evenflow.experiments.dds.publishers import ENOUGH, FINDINGS, ITEMS, KEPT, PATIENCE_S, SETTINGS, planned
from evenflow.invariants import compare

ATTEMPTS: Final = 20  # to start a query while the machine is busy
DRIVER, PUBLISHER = "evenflow.experiments.dds.spark_drill", "evenflow.experiments.dds.publishers"
KEPT_TYPE: Final = "number bigint, text string"


class DrillError(Exception):
    """The drill itself failed: a process died or hung without our doing."""


@dataclass(slots=True)
class DdsDrill:
    """Two streams from DDS to files, killed several times.

    Parameters
    ----------
    directory
        Everything happens in it.
    kills
        How many times the driver is killed.
    items
        Samples of each of the two publishers.
    domain
        A DDS domain that nobody else uses.
    """

    directory: Path
    kills: int = 3
    items: int = 3000
    domain: int = 0
    seed: int = 0

    def run(self) -> dict[str, Any]:
        """Kill, start again, and return what is in the sinks."""
        self.directory.mkdir(parents=True, exist_ok=True)
        settings = {"items": self.items, "domain": self.domain}
        (self.directory / SETTINGS).write_text(json.dumps(settings))
        chance = random.Random(self.seed)
        publisher = self._start(PUBLISHER)
        child = None
        try:
            for kill in range(self.kills):
                child = self._start(DRIVER)
                self._wait(child, publisher, (kill + 1) * self.items // (self.kills + 1))
                time.sleep(chance.uniform(0.0, 1.0))
                _kill(child)
            (self.directory / ENOUGH).touch()  # the rest comes as fast as it can
            child = self._start(DRIVER)
            code = child.wait(PATIENCE_S)
            if code != 0:
                raise DrillError(f"the last driver ended with {code}: {self._log(DRIVER)}")
            if publisher.wait(60) != 0:
                raise DrillError(f"the publisher has unacknowledged items: {self._log(PUBLISHER)}")
        finally:
            _kill(publisher)
            if child is not None:
                _kill(child)
        found: dict[str, Any] = json.loads((self.directory / FINDINGS).read_text())
        return {"kills": self.kills, **found}

    def _start(self, module: str) -> subprocess.Popen[bytes]:
        with (self.directory / f"{module}.log").open("ab") as log:
            words = [sys.executable, "-m", module, str(self.directory)]
            return subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)

    def _wait(self, child: subprocess.Popen[bytes], publisher: subprocess.Popen[bytes], rows: int) -> None:
        """Wait until both streams have come so far that the next kill is due."""
        end = time.monotonic() + PATIENCE_S
        while planned(self.directory) < rows:
            if child.poll() is not None or publisher.poll() is not None or time.monotonic() > end:
                raise DrillError(f"a process ended or hung: {self._log(DRIVER)} {self._log(PUBLISHER)}")
            time.sleep(0.05)

    def _log(self, module: str) -> str:
        return (self.directory / f"{module}.log").read_text(errors="replace")[-2000:]


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def drive(directory: Path) -> int:
    """Run both streams; when the kills are over, go on until everything is there and compare."""
    from evenflow.spark.dds.source import register  # noqa: PLC0415
    from evenflow.spark.session import QUICK_START, local_session  # noqa: PLC0415
    from evenflow.spark.slices.writer import begun  # noqa: PLC0415

    settings = json.loads((directory / SETTINGS).read_text())
    spark = local_session(lanes=2, name="evenflow dds drill", settings=QUICK_START)
    register(spark)
    queries = []
    for topic, kind, more in (
        (ITEMS, "evenflow.dds.writers:Reading", {}),
        (KEPT, KEPT_TYPE, {"durability": "transient_local"}),
    ):
        reader = spark.readStream.format("dds").option("topic", topic).option("type", kind)
        place = {"domain": str(settings["domain"]), "journal": str(directory / topic / "journal")}
        reader = reader.options(**place, max_rows_per_batch="200", **more)
        writer = reader.load().writeStream.format("parquet").option("path", str(directory / topic / "out"))
        queries.append(begun(writer.option("checkpointLocation", str(directory / topic / "check")).start, ATTEMPTS))
    end = time.monotonic() + PATIENCE_S
    done = [False, False]
    while not all(done) and time.monotonic() < end:
        for query in queries:
            if query.exception() is not None:
                raise SystemExit(f"the query ended: {query.exception()}")
        if (directory / ENOUGH).exists():
            done = [_committed(directory / t / "check") >= settings["items"] for t in (ITEMS, KEPT)]
        time.sleep(0.1)
    time.sleep(2.0)  # what would come twice comes now
    for query in queries:
        query.processAllAvailable()
        query.stop()
    found = {}
    for topic, column in ((ITEMS, "sensor"), (KEPT, "number")):
        rows = [row[column] for row in spark.read.parquet(str(directory / topic / "out")).collect()]
        seen = compare(range(settings["items"]), rows).judged(f"the kill drill, topic {topic}")
        found[topic] = {"lost": seen.lost, "duplicated": seen.duplicated, "wrong": seen.wrong, "rows": len(rows)}
    (directory / "findings.part").write_text(json.dumps(found))
    (directory / "findings.part").rename(directory / FINDINGS)
    spark.stop()
    return 0


def _committed(checkpoint: Path) -> int:
    """Return how many rows are in committed batches."""
    folder = checkpoint / "commits"
    names = [int(f.name) for f in folder.iterdir() if f.name.isdigit()] if folder.is_dir() else []
    lines = (checkpoint / "offsets" / str(max(names))).read_text().splitlines() if names else []
    return int(json.loads(lines[-1])["rows"]) if lines else -1


if __name__ == "__main__":
    sys.exit(drive(Path(sys.argv[1])))
