"""Sessions by event time, as one writes them for ``groupBy("visitor").transformWithState``: here on balanced slices."""
# ruff: noqa: ANN001, ANN201, D101, D102, D103, N802, N803 - Spark gives the names

import tempfile
from datetime import UTC, datetime

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

import evenflow
from evenflow.spark.session import local_session

CLICKS, SESSIONS = "visitor string, at timestamp", "visitor string, minutes long, clicks long"
GAP_MS = 30 * 60 * 1000


class Sessions(StatefulProcessor):
    def init(self, handle):
        self.handle = handle
        self.session = handle.getValueState("session", "began long, ended long, clicks long")

    def handleInputRows(self, key, rows, timerValues):
        began, ended, clicks = self.session.get() or (0, 0, 0)
        self.handle.deleteTimer(ended + GAP_MS)
        for at in sorted(int(row.at.timestamp() * 1000) for row in rows):
            if clicks and at - ended > GAP_MS:
                yield Row(visitor=key[0], minutes=(ended - began) // 60_000, clicks=clicks)
                clicks = 0
            began, ended, clicks = began if clicks else at, at, clicks + 1
        self.handle.registerTimer(ended + GAP_MS)
        self.session.update((began, ended, clicks))

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        began, ended, clicks = self.session.get()
        self.session.clear()
        yield Row(visitor=key[0], minutes=(ended - began) // 60_000, clicks=clicks)


def clicks(hour: int):
    times = range(3600 * hour, 3600 * (hour + 1), 18)
    return [(f"v{at // 18 * 7919 % 997 % 90}", datetime.fromtimestamp(at, UTC)) for at in times]


def main():
    spark = local_session(lanes=2)
    with tempfile.TemporaryDirectory() as place:
        for hour in range(4):
            spark.createDataFrame(clicks(hour), CLICKS).coalesce(1).write.mode("append").parquet(f"{place}/in")
        stream = spark.readStream.schema(CLICKS).option("maxFilesPerTrigger", 1).parquet(f"{place}/in")
        visits = evenflow.balance(stream.withWatermark("at", "10 minutes"), by="visitor", slices=8, lanes=2)
        done = visits.transformWithState(Sessions(), SESSIONS, "append", "eventTime")
        writer = done.writeStream.trigger(availableNow=True).option("checkpointLocation", f"{place}/c")
        writer.start(f"{place}/out", format="parquet").awaitTermination()
        found = sorted(spark.read.parquet(f"{place}/out").collect(), key=lambda s: (-s.clicks, s.visitor))
        print(f"{len(found)} sessions have ended", *(f"{s.visitor}: {s.clicks} clicks" for s in found[:5]), sep="\n")


if __name__ == "__main__":
    main()
