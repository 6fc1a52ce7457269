"""Generated smart-meter readings for the live pipeline: daily profiles, and leaves that suddenly report more often."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from evenflow.spark.kit.pins import write_numbered

SCHEMA = "ts long, leaf string, meter long, value long"
DAY_S = 24 * 3600
# Watts through a day, hour by hour: low at night, a peak in the morning and a higher one in the evening.
PROFILE = (210, 190, 180, 175, 180, 220, 380, 560, 520, 430, 400, 420, 470, 440, 410, 420, 480, 640, 820, 900, 820, 640, 430, 290)  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """A generator of the readings of all leaves.

    Parameters
    ----------
    leaves
        The leaves, which have the meters.
    meters
        Number of meters per leaf.
    every_s
        Seconds between two readings of a meter.
    surge_every_s
        The same during a surge of its leaf.
    surges
        ``leaf, begin, end``: a leaf that reports more often during this time, in seconds of event time.
    seed
        Seed of the readings.
    """

    leaves: tuple[str, ...]
    meters: int = 40
    every_s: int = 900
    surge_every_s: int = 240
    surges: tuple[tuple[str, int, int], ...] = ()
    seed: int = 1

    def readings(self, begin: int, end: int) -> Any:
        """Return the readings from ``begin`` to before ``end`` as a table, in random order."""
        chance = random.Random(f"{self.seed}/{begin}")
        rows: list[tuple[int, str, int, int]] = []
        for number, leaf in enumerate(self.leaves):
            for ts in range(-(-begin // 60) * 60, end, 60):
                every = self.surge_every_s if self._surging(leaf, ts) else self.every_s
                watts = PROFILE[ts % DAY_S // 3600]
                # Meters report in turn, so that every minute has some.
                due = [m for m in range(self.meters) if (ts + 60 * (m * 7 + number)) % every < 60]
                rows += [(ts, leaf, meter, int(watts * chance.uniform(0.4, 1.8))) for meter in due]
        chance.shuffle(rows)
        columns: list[Any] = list(zip(*rows, strict=True)) if rows else [[], [], [], []]
        kinds = (pa.int64(), pa.string(), pa.int64(), pa.int64())
        arrays = [pa.array(c, k) for c, k in zip(columns, kinds, strict=True)]
        return pa.table(arrays, names=["ts", "leaf", "meter", "value"])

    def _surging(self, leaf: str, ts: int) -> bool:
        return any(leaf == name and begin <= ts < end for name, begin, end in self.surges)

    def write(self, folder: Path, number: int, begin: int, end: int) -> None:
        """Write one file of readings; Spark reads files in the order of their times."""
        write_numbered(folder, number, self.readings(begin, end))
