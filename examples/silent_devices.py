"""Alerts when a device falls silent: a timer per device, put off by every reading, on balanced slices."""
# ruff: noqa: ANN001, ANN201, D101, D102, D103, N802, N803 - Spark gives the names

import tempfile
from datetime import UTC, datetime

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

import evenflow
from evenflow.spark.session import local_session

READINGS, ALERTS = "device long, at timestamp, value double", "device long, since timestamp, value double"
SILENCE_MS = 60_000
LAST_MINUTE = {3: 2, 7: 1}  # of devices that fail


class Watch(StatefulProcessor):
    def init(self, handle):
        self.handle = handle
        self.last = handle.getValueState("last", "ms long, value double")

    def handleInputRows(self, key, rows, timerValues):
        ms, value = max((int(row.at.timestamp() * 1000), row.value) for row in rows)
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(ms + SILENCE_MS)
        self.last.update((ms, value))
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        ms, value = self.last.get()
        yield Row(device=key[0], since=datetime.fromtimestamp(ms / 1000, UTC), value=value)


def readings(minute: int) -> list[tuple[int, datetime, float]]:
    """Generate one minute of readings of ten devices."""
    sent = [d for d in range(10) if minute <= LAST_MINUTE.get(d, minute)]
    return [(d, datetime.fromtimestamp(60 * minute + s, UTC), 20.0 + d) for s in range(0, 60, 10) for d in sent]


def main():
    spark = local_session(lanes=2)
    with tempfile.TemporaryDirectory() as place:
        for minute in range(6):
            spark.createDataFrame(readings(minute), READINGS).coalesce(1).write.mode("append").parquet(f"{place}/in")
        stream = spark.readStream.schema(READINGS).option("maxFilesPerTrigger", 1).parquet(f"{place}/in")
        devices = evenflow.balance(stream.withWatermark("at", "5 seconds"), by="device", slices=8, lanes=2)
        done = devices.transformWithState(Watch(), ALERTS, "append", "eventTime")
        writer = done.writeStream.trigger(availableNow=True).option("checkpointLocation", f"{place}/c")
        writer.start(f"{place}/out", format="parquet").awaitTermination()
        for alert in spark.read.parquet(f"{place}/out").orderBy("device").collect():
            print(f"device {alert.device} is silent since {alert.since:%H:%M:%S}; its last value was {alert.value}")


if __name__ == "__main__":
    main()
