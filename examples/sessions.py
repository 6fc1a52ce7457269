"""Sessions of visitors: clicks less than half an hour apart belong together."""

import os
import random
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import evenflow
from evenflow.spark.session import local_session

CLICKS = "visitor string, at long"
SESSIONS = "visitor string, began long, ended long, clicks long"
GAP_S = 30 * 60
Session = dict[str, object]


def clicks(hour: int, visitors: int = 40) -> pa.Table:
    """Generate one hour of clicks in the order of time; some visitors are there all day."""
    chance = random.Random(hour)
    at = sorted(chance.randrange(3600 * hour, 3600 * (hour + 1)) for _ in range(300))
    return pa.table({"visitor": [f"v{int(visitors * chance.random() ** 4)}" for _ in at], "at": at})


def follow(visitor: str, rows: pa.Table, last: Session | None) -> tuple[list[Session], Session | None]:
    """Go on with a visitor's last session or begin another; put out every session that changed."""
    changed = [] if last is None else [dict(last)]
    for at in rows["at"].to_pylist():
        if not changed or at - changed[-1]["ended"] > GAP_S:
            changed.append({"visitor": visitor, "began": at, "ended": at, "clicks": 0})
        changed[-1] |= {"ended": at, "clicks": changed[-1]["clicks"] + 1}
    return changed, changed[-1]


def main() -> None:
    """Stream a morning, one hour per file, and show the longest sessions."""
    spark = local_session(lanes=2)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "in").mkdir()
        for hour in range(3):
            pq.write_table(clicks(hour), f"{folder}/in/{hour}.parquet")
            os.utime(f"{folder}/in/{hour}.parquet", (3600 * hour, 3600 * hour))  # Spark reads the oldest file first
        stream = spark.readStream.schema(CLICKS).option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
        visits = evenflow.balance(stream, by="visitor", slices=8, lanes=2).process_each(follow, SESSIONS)
        writer = visits.writeStream.format("parquet").option("checkpointLocation", f"{folder}/c")
        writer.trigger(availableNow=True).start(f"{folder}/out").awaitTermination()
        found = spark.read.parquet(f"{folder}/out").toPandas().groupby(["visitor", "began"]).max().reset_index()
        print(f"{len(found)} sessions of {found.visitor.nunique()} visitors")
        for s in found.sort_values(["clicks", "visitor"], ascending=False).head(5).itertuples():
            print(f"{s.visitor}: {s.clicks} clicks from {s.began} s to {s.ended} s")
    spark.stop()


if __name__ == "__main__":
    main()
