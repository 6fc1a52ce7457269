"""200 sensors publish over DDS, a balanced stream finds anomalies per sensor, and the verdicts return over DDS."""

import math
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import evenflow
from evenflow.dds import publish, subscribe_batches
from evenflow.spark.dds.source import register
from evenflow.spark.session import local_session

SENSORS, READINGS = 200, 20
VERDICTS = "sensor bigint, temperature double, alert boolean"
Known = tuple[int, float, float]  # readings so far, their sum, the sum of their squares


@dataclass
class Reading:
    """What a sensor sends (Figure 10 of the DPSLB thesis)."""

    sensor: int
    temperature: float


@dataclass
class Verdict:
    """What comes back for every reading."""

    sensor: int
    temperature: float
    alert: bool


def readings(chance: random.Random) -> Iterator[Reading]:
    """Generate what the sensors measure; one reading in fifty is wrong by 15 degrees."""
    for _ in range(READINGS):
        for sensor in range(SENSORS):
            wrong = 15.0 if chance.random() < 0.02 else 0.0
            yield Reading(sensor, 20.0 + sensor % 13 + chance.gauss(0.0, 1.0) + wrong)


def send(domain: int, sent: "multiprocessing.Queue[int]") -> None:
    """Publish everything, and keep each reading until it is safely in the stream's journal."""
    sent.put(publish("readings", readings(random.Random(1)), domain=domain, committed=True, patience_s=600.0))


def receive(domain: int, total: int, got: "multiprocessing.Queue[tuple[int, int]]") -> None:
    """Count the verdicts until there is one for every reading."""
    verdicts: list[bool] = []
    reading = subscribe_batches(
        "verdicts", lambda _, rows: verdicts.extend(r["alert"] for r in rows), type=Verdict, domain=domain
    )
    end = time.monotonic() + 600
    while len(verdicts) < total and time.monotonic() < end:
        reading.poll()
    reading.run(2.0)  # one too many would come now
    got.put((len(verdicts), sum(verdicts)))


def judge(sensor: int, rows: pa.Table, known: Known | None) -> tuple[list[dict[str, object]], Known]:
    """Compare each reading with the sensor's earlier ones: more than five deviations from their mean is an alert."""
    n, total, squares = known or (0, 0.0, 0.0)
    found = []
    for value in rows["temperature"].to_pylist():
        mean = total / n if n else value
        deviation = math.sqrt(max(squares / n - mean * mean, 0.01)) if n else 1.0
        alert = n >= 5 and abs(value - mean) > 5 * deviation
        found.append({"sensor": sensor, "temperature": value, "alert": alert})
        if not alert:
            n, total, squares = n + 1, total + value, squares + value * value
    return found, (n, total, squares)


def main() -> None:
    """Run sensors, stream and subscriber until every reading has its verdict."""
    # Spark's own Python processes look for the type here.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    domain = 20 + os.getpid() % 100  # so that two runs on one machine do not meet
    processes = multiprocessing.get_context("spawn")
    sent, got = processes.Queue(), processes.Queue()
    subscriber = processes.Process(target=receive, args=(domain, SENSORS * READINGS, got))
    publisher = processes.Process(target=send, args=(domain, sent))
    spark = local_session(lanes=2)
    register(spark)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        stream = spark.readStream.format("dds").option("topic", "readings").option("domain", domain)
        stream = stream.option("type", "temperature_sensors:Reading").option("journal", f"{folder}/journal").load()
        judged = evenflow.balance(stream, by="sensor", slices=16, lanes=2).process_each(judge, VERDICTS)
        writer = judged.writeStream.format("dds").option("topic", "verdicts").option("domain", domain)
        subscriber.start()
        query = writer.option("patience_s", 120).option("checkpointLocation", f"{folder}/checkpoint").start()
        publisher.start()
        processed, alerts = got.get(timeout=600)
        query.stop()
        print(
            f"{sent.get(timeout=60)} readings sent, {processed} processed: {alerts} alerts, {processed - alerts} without"
        )
        publisher.join()
        subscriber.join()
    spark.stop()


if __name__ == "__main__":
    main()
