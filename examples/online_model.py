"""An online model per machine: it predicts each reading before it learns from it, and notices what does not fit."""

import os
import random
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import evenflow
from evenflow.spark.session import local_session

READINGS = "machine string, load double, heat double"
OUTPUT = "machine string, n long, offset double, slope double, worst double"
RIDGE = 1e-3  # makes the first equations solvable


def readings(part: int, rows: int = 400, machines: int = 12) -> pa.Table:
    """Generate load and heat; every machine has an offset and a slope of its own, machine 0 sends most."""
    chance = random.Random(part)
    numbers = [int(machines * chance.random() ** 2) for _ in range(rows)]
    load = [chance.random() for _ in numbers]
    heat = [40 + m + (5 + 2 * m) * x + chance.gauss(0, 0.1) for m, x in zip(numbers, load, strict=True)]
    return pa.table({"machine": [f"m{m}" for m in numbers], "load": load, "heat": heat})


def learn(machine: str, rows: pa.Table, state: tuple[object, ...] | None) -> tuple[list[dict[str, object]], object]:
    """Predict a batch with what was known before, then add it to the normal equations of a linear model."""
    n, moments, target = state or (0, RIDGE * np.eye(2), np.zeros(2))
    x = np.column_stack([np.ones(rows.num_rows), rows["load"].to_numpy()])
    heat = rows["heat"].to_numpy()
    worst = float(np.abs(x @ np.linalg.solve(moments, target) - heat).max()) if n else 0.0
    n, moments, target = n + rows.num_rows, moments + x.T @ x, target + x.T @ heat
    offset, slope = np.linalg.solve(moments, target)
    return [{"machine": machine, "n": n, "offset": offset, "slope": slope, "worst": worst}], (n, moments, target)


def main() -> None:
    """Stream three files and show every machine's model."""
    spark = local_session(lanes=2)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "in").mkdir()
        for part in range(3):
            pq.write_table(readings(part), f"{folder}/in/{part}.parquet")
            os.utime(f"{folder}/in/{part}.parquet", (part, part))  # Spark reads the oldest file first
        stream = spark.readStream.schema(READINGS).option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
        models = evenflow.balance(stream, by="machine", slices=8, lanes=2).process_each(learn, OUTPUT)
        writer = models.writeStream.format("parquet").option("checkpointLocation", f"{folder}/c")
        writer.trigger(availableNow=True).start(f"{folder}/out").awaitTermination()
        found = spark.read.parquet(f"{folder}/out").toPandas().sort_values("n").groupby("machine").last()
        for machine, row in found.iterrows():
            print(f"{machine}: {row.offset:.3f} + {row.slope:.3f} load, {row.n:.0f} readings, off by {row.worst:.2f}")
    spark.stop()


if __name__ == "__main__":
    main()
