"""A driver of a metering pipeline that says when it is in the middle of a batch, and waits there to be killed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from test_pipeline import SCHEMA, pipeline_on, start

from evenflow.spark.session import QUICK_START, local_session


def wait(batches: Iterator[Any], sign: Path) -> Iterator[Any]:
    yield from batches
    sign.touch()
    time.sleep(600)


def main(folder: Path) -> None:
    spark = local_session(lanes=2, name="evenflow operators child", settings=QUICK_START)
    pipeline = pipeline_on(spark, folder / "run")

    def take(readings: Any, batch: int) -> None:
        if batch == 1:
            readings = readings.mapInArrow(partial(wait, sign=folder / "in the middle"), SCHEMA)
        pipeline(readings, batch)

    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    start(stream, take, folder / "check").awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
