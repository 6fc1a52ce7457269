"""Price alerts: a stream of real quotes against 100,000 subscriptions that change while it runs.

The quotes are those of the package bokeh_sampledata, one series per ticker and year.
The subscriptions follow the templates of Cheung 2006, Table 5.1.
"""

import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from bokeh_sampledata import stocks
from pyspark.sql import DataFrame, SparkSession

import evenflow
from evenflow.bench.workloads import from_templates
from evenflow.spark.session import local_session
from evenflow.subscriptions.columns import write_lines

TICKERS = ("AAPL", "FB", "GOOG", "IBM", "MSFT")
LATER = "+long-view\t[symbol,str-prefix,'IBM'],[close,>,50],[close,<=,500]\n+everything\t[class,eq,'STOCK']\n-0\n-1\n"


def quotes(days: int) -> pa.Table:
    """Give the first ``days`` quotes of every series; a series is a ticker in a year."""
    tables = []
    for ticker in TICKERS:
        table = pa.table({name: values for name, values in getattr(stocks, ticker).items() if name != "adj_close"})
        year = pc.utf8_slice_codeunits(table["date"], 0, 4)
        table = table.append_column("symbol", pc.binary_join_element_wise(ticker, year, "-"))
        tables.append(table.append_column("class", pa.array(["STOCK"] * table.num_rows)))
    table = pa.concat_tables(tables).sort_by([("symbol", "ascending"), ("date", "ascending")])
    symbols = table["symbol"].to_pylist()
    place = 0
    first = [(place := place + 1 if i and symbols[i] == symbols[i - 1] else 0) < days for i in range(len(symbols))]
    return table.filter(pa.array(first))


def publish(market: pa.Table, years: list[str], place: Path) -> None:
    """Write one file of events for each year, in a form that appears whole."""
    for year in years:
        chosen = market.filter(pc.ends_with(market["symbol"], year))
        pq.write_table(chosen, place / f".{year}.parquet")
        (place / f".{year}.parquet").rename(place / f"{year}.parquet")


def fingerprint(alerts: DataFrame) -> set[tuple[str, str, int, int]]:
    """Reduce alerts to what two runs can be compared by."""
    rows = alerts.selectExpr("symbol", "date", "size(matches) AS size", "xxhash64(matches) AS hash").collect()
    return {(row.symbol, row.date, row.size, row.hash) for row in rows}


def run(spark: SparkSession, folder: Path, subscriptions: int = 100_000, days: int = 20) -> dict[str, int]:
    """Stream the quotes, change the subscriptions half-way, and compare with two batch runs."""
    market = quotes(days)
    years = sorted(set(pc.utf8_slice_codeunits(market["date"], 0, 4).to_pylist()))
    half = len(years) // 2
    rules, incoming, alerts = folder / "rules", folder / "quotes", folder / "alerts"
    rules.mkdir()
    incoming.mkdir()
    predicates, _ = from_templates(market, subscriptions, seed=1)
    lines = [f"+{number}\t{text}\n" for number, text in enumerate(write_lines(predicates).to_pylist())]
    (rules / "1-first").write_text("".join(lines))

    schema = spark.createDataFrame(market.slice(0, 1)).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(incoming))
    query = (
        evenflow.match(stream, rules, keep=["symbol", "date"])
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start(str(alerts))
    )
    publish(market, years[:half], incoming)
    query.processAllAvailable()
    (rules / "2-later").write_text(LATER)  # takes effect at the next micro-batch
    publish(market, years[half:], incoming)
    query.processAllAvailable()
    query.stop()

    before = spark.createDataFrame(market.filter(pc.less(market["date"], years[half])))
    after = spark.createDataFrame(market.filter(pc.greater_equal(market["date"], years[half])))
    first = spark.createDataFrame(
        pa.table({"id": pa.array(map(str, range(len(lines)))), "subscription": write_lines(predicates)})
    )
    streamed = spark.read.parquet(str(alerts))
    batch = fingerprint(in_line_order(evenflow.match(before, first))) | fingerprint(
        in_line_order(evenflow.match(after, rules))
    )
    found = fingerprint(in_line_order(streamed))
    return {
        "quotes": market.num_rows,
        "alerts": sum(size for _, _, size, _ in found),
        "alerts of later subscriptions": streamed.where("array_contains(matches, 'everything')").count(),
        "differences from batch": len(found ^ batch),
    }


def in_line_order(alerts: DataFrame) -> DataFrame:
    """Sort each list: a DataFrame of subscriptions gives ids in their order, a directory in that of its lines."""
    return alerts.selectExpr("symbol", "date", "array_sort(matches) AS matches")


def main() -> None:
    """Run with 100,000 subscriptions, or as many as the first argument says."""
    spark = local_session(lanes=2)
    with tempfile.TemporaryDirectory() as folder:
        for name, number in run(spark, Path(folder), *map(int, sys.argv[1:])).items():
            print(f"{name}: {number:,}")
    spark.stop()


if __name__ == "__main__":
    main()
