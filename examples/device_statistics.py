"""Running statistics per device, vectorised: one call per slice and micro-batch, however many devices there are."""

import random
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import evenflow
from evenflow.spark.session import local_session

OUTPUT = "device long, n long, mean double, deviation double, highest double"
STATE = pa.schema([("device", pa.int64()), *((name, pa.float64()) for name in ("n", "total", "squares", "highest"))])


def readings(part: int, rows: int = 2000, devices: int = 50) -> pa.Table:
    """Generate what the devices sent; the lower a device's number, the more it sends."""
    chance = random.Random(part)
    device = [int(devices * chance.random() ** 3) for _ in range(rows)]
    return pa.table({"device": device, "value": [20.0 + d + chance.gauss(0.0, 2.0) for d in device]})


def update(rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Add a batch to what is known of a slice's devices; put out the devices that sent something."""
    value = rows["value"]
    columns = [rows["device"], pa.array([1.0] * rows.num_rows), value, pc.multiply(value, value), value]
    known = pa.concat_tables([state, pa.table(columns, schema=STATE)]).group_by("device", use_threads=False)
    how = [("n", "sum"), ("total", "sum"), ("squares", "sum"), ("highest", "max")]
    state = known.aggregate(how).rename_columns(STATE.names)  # without threads: a batch that runs again gives the same
    seen = state.filter(pc.is_in(state["device"], value_set=pc.unique(rows["device"])))
    mean = pc.divide(seen["total"], seen["n"])
    variance = pc.subtract(pc.divide(seen["squares"], seen["n"]), pc.multiply(mean, mean))
    columns = [seen["device"], seen["n"], mean, pc.sqrt(pc.max_element_wise(variance, 0.0)), seen["highest"]]
    return pa.table(columns, names=["device", "n", "mean", "deviation", "highest"]), state


def main() -> None:
    """Stream three files through the plane and show the busiest devices."""
    spark = local_session(lanes=2)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "in").mkdir()
        for part in range(3):
            pq.write_table(readings(part), f"{folder}/in/{part}.parquet")
        stream = spark.readStream.schema("device long, value double").option("maxFilesPerTrigger", 1)
        statistics = evenflow.balance(stream.parquet(f"{folder}/in"), by="device", slices=8, lanes=2)
        writer = statistics.process(update, OUTPUT, state=STATE).writeStream.option("checkpointLocation", f"{folder}/c")
        writer.format("parquet").trigger(availableNow=True).start(f"{folder}/out").awaitTermination()
        latest = spark.read.parquet(f"{folder}/out").toPandas().sort_values("n").groupby("device").last()
        for device, row in latest.nlargest(5, "n").iterrows():
            print(
                f"device {device}: {row.n:.0f} readings, {row['mean']:.3f} ± {row.deviation:.3f}, up to {row.highest:.3f}"
            )
    spark.stop()


if __name__ == "__main__":
    main()
