"""The demonstration's stream: sensors of which some are hot, and later others are; and what is done with each reading."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.spark.slices.assign import Assign
from evenflow.spark.slices.running import Running

SCHEMA = "sensor long, value double"
SENSORS = 4000
HOT_SHARE = 0.6
SLICES_PER_LANE = 16
HOT_PER_LANE = 8


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream as files, one per batch; the same seed writes the same files.

    Hot sensors send ``HOT_SHARE`` of all readings, and their slices begin on one lane: the bad luck that a balancer is for.
    Half-way the hot sensors fall silent and those of another lane become hot.

    Parameters
    ----------
    lanes, batches, rows
        Lanes of the plane, how many files there are, and how many readings each holds.
    """

    lanes: int
    batches: int
    rows: int
    seed: int = 1

    @property
    def slices(self) -> int:
        """How many slices the plane has."""
        return SLICES_PER_LANE * self.lanes

    @property
    def hot(self) -> int:
        """How many sensors are hot at a time."""
        return HOT_PER_LANE * self.lanes

    def hot_lane(self, batch: int) -> int:
        """Return the lane on which the hot sensors' slices begin."""
        return (self.seed + (batch >= self.batches / 2)) % self.lanes

    def weights(self, batch: int) -> Any:
        """Return each sensor's share of a batch."""
        slices = Assign(("sensor",), self.slices).of(pa.table({"sensor": np.arange(SENSORS)}))
        hot = np.flatnonzero(slices % self.lanes == self.hot_lane(batch))[: self.hot]
        shares = np.full(SENSORS, (1 - HOT_SHARE) / SENSORS)
        heat = 1 / np.sqrt(1 + np.arange(len(hot)))
        shares[hot] += HOT_SHARE * heat / heat.sum()
        return shares / shares.sum()

    def table(self, batch: int) -> Any:
        """Return the readings of one batch."""
        chance = np.random.default_rng([self.seed, batch])
        sensors = chance.choice(SENSORS, self.rows, p=self.weights(batch))
        return pa.table({"sensor": sensors, "value": chance.normal(20.0, 5.0, self.rows)})

    def write(self, folder: Path) -> None:
        """Write all files, with times a second apart: Spark reads the oldest first."""
        folder.mkdir(parents=True, exist_ok=True)
        for batch in range(self.batches):
            path = folder / f"{batch:05}.parquet"
            pq.write_table(self.table(batch), path)
            os.utime(path, (1e9 + batch, 1e9 + batch))


@dataclass(frozen=True, slots=True)
class Score:
    """For ``process``: compares each reading with every point of a reference profile, and follows the scores per sensor.

    Parameters
    ----------
    points
        Of the profile: what a reading costs.
    """

    points: int

    def scores(self, values: Any) -> Any:
        """Return how usual readings are, by kernel density, as many at a time as fit into a core's cache."""
        profile = np.linspace(0.0, 40.0, self.points)
        at_once = max(1, 32_768 // self.points)
        found = np.empty(len(values))
        for start in range(0, len(values), at_once):
            distance = values[start : start + at_once, None] - profile
            found[start : start + at_once] = np.exp(-0.5 * distance * distance).mean(axis=1)
        return found

    def __call__(self, rows: Any, state: Any) -> tuple[Any, Any]:
        """Score a slice's readings and bring its sensors up to date."""
        scored = pa.table({"sensor": rows["sensor"], "score": self.scores(rows["value"].to_numpy())})
        output, state = Running("sensor", "score")(scored, state)
        return output, state


def points_for(cpu_s: float, rows: int) -> int:
    """Return how many points a profile has with which so many rows take so many CPU seconds on this machine."""
    values = np.linspace(0.0, 40.0, 200)
    probe = Score(2048)
    probe.scores(values)
    took = []
    for _ in range(5):
        began = time.process_time()
        probe.scores(values)
        took.append(time.process_time() - began)
    per_point = max(median(took), 1e-6) / (len(values) * probe.points)
    return int(min(100_000, max(16, cpu_s / rows / per_point)))
