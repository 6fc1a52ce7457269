"""The live trial: real quotes, many subscriptions that all join one broker, and deliveries equal to a plain match."""

from __future__ import annotations

import importlib
import random
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evenflow.brokers.settings import EVEN, BrokerSettings
from evenflow.errors import BadInput
from evenflow.experiments.brokers.quotes import TEXTS
from evenflow.invariants import Comparison, compare
from evenflow.spark.brokers.plane import Brokers, brokers
from evenflow.spark.brokers.stage import DELIVERY
from evenflow.spark.kit.pins import write_numbered
from evenflow.spark.matching.subscription_log import LiveIndex, current_version, line_of
from evenflow.spark.session import local_session
from evenflow.subscriptions.matching import Index

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TICKERS = ("AAPL", "FB", "GOOG", "IBM", "MSFT")
ENTRY = "B1.1"
DETECTION_S = 30.0  # the middle of the published detection interval
LAST = 10  # batches over which the end is judged: a single batch of a lane takes milliseconds and is noisy
TURNS = 4  # batches for measuring the matching delay


def real_quotes() -> pa.Table:
    """Return the daily quotes of the package bokeh_sampledata in the order of their days; a series is a ticker in a year."""
    try:
        stocks = importlib.import_module("bokeh_sampledata.stocks")
    except ImportError:
        raise BadInput("quotes=real", "the package bokeh_sampledata, or quotes=generated", "--set quotes") from None
    tables = []
    for ticker in TICKERS:
        table = pa.table({name: values for name, values in getattr(stocks, ticker).items() if name != "adj_close"})
        year = pc.utf8_slice_codeunits(table["date"], 0, 4)
        table = table.append_column("symbol", pc.binary_join_element_wise(ticker, year, "-"))
        tables.append(table.append_column("class", pa.array(["STOCK"] * table.num_rows)))
    columns = ["class", "symbol", "date", "open", "high", "low", "close", "volume"]
    return pa.concat_tables(tables).sort_by([("date", "ascending"), ("symbol", "ascending")]).select(columns)


def shuffled(market: pa.Table, seed: int) -> pa.Table:
    """Return the quotes in random order with numbers, so that every batch has some of each symbol."""
    order = np.random.default_rng([seed, 7]).permutation(market.num_rows)
    return market.take(pa.array(order)).append_column("number", pa.array(np.arange(market.num_rows)))


def draw(market: pa.Table, count: int, chance: random.Random) -> list[str]:
    """Draw subscriptions from the templates, each with the values of a random quote, rounded."""
    columns = {name: market.column(name).to_pylist() for name in ("symbol", "high", "low", "volume")}
    weights, texts = zip(*TEXTS, strict=True)
    chosen = chance.choices(texts, weights, k=count)
    rows = [chance.randrange(market.num_rows) for _ in range(count)]
    return [
        text.format(
            symbol=columns["symbol"][row],
            **{name: rounded(columns[name][row]) for name in ("high", "low", "volume")},
        )
        for text, row in zip(chosen, rows, strict=True)
    ]


def rounded(value: float) -> int:
    """Round to one digit, or to half of the next one.

    Examples
    --------
    >>> [rounded(v) for v in (131.9, 127.0, 24.2, 9616100)]
    [150, 150, 25, 9500000]
    """
    step = 10.0 ** max(0, len(str(int(value))) - 1) / 2
    return max(1, int(round(value / step) * step))


@dataclass
class Trial:
    """The brokers of the trial, its files, and the comparison with a plain match."""

    live_brokers: Brokers
    rules: Path
    incoming: Path
    market: pa.Table
    plain: LiveIndex
    compared: Comparison = field(default_factory=Comparison)
    deliveries: int = 0

    def batch(self, number: int, rows: int, process: Callable[[], None]) -> None:
        """Publish one batch, and compare its deliveries with a plain match of all subscriptions."""
        part = part_of(self.market, number, rows)
        write_numbered(self.incoming, number, part)
        index = self.plain.at(current_version(self.rules))
        process()
        wanted = np.sort(pairs_of(part.column("number"), index, part))
        got = np.sort(self.delivered(number))
        self.deliveries += len(got)
        same = np.array_equal(got, wanted)  # a full comparison of many deliveries takes long
        self.compared += Comparison(len(wanted)) if same else compare(wanted.tolist(), got.tolist())

    def delivered(self, number: int) -> Any:
        """Return what a batch delivered, one number for each publication and subscriber."""
        folder = self.live_brokers.place / "batches" / f"batch={number}" / f"kind={DELIVERY}"
        found = [np.zeros(0, dtype=np.int64)]
        for file in sorted(folder.glob("**/*.parquet")):
            table = pq.ParquetFile(file).read(columns=["number", "matches"]).combine_chunks()
            found.append(_pairs(table.column("number"), table.column("matches").combine_chunks()))
        return np.concatenate(found)


def part_of(market: pa.Table, number: int, rows: int) -> pa.Table:
    """Return the publications of a batch; after the last full batch of quotes the first one follows."""
    return market.slice(number * rows % max(1, market.num_rows - rows), rows)


def pairs_of(numbers: pa.ChunkedArray, index: Index, events: pa.Table) -> Any:
    """Return the matches of all subscriptions in one index."""
    return _pairs(numbers, index.match(events).lists())


def _pairs(numbers: pa.ChunkedArray, lists: pa.ListArray) -> Any:
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    size = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    who = lists.flatten().cast(pa.int64()).to_numpy()
    return np.repeat(numbers.to_numpy().astype(np.int64), size) * (1 << 32) + who


def delay_of(session: SparkSession, rules: Path, parts: list[pa.Table], place: Path) -> float:
    """Return the matching delay in seconds of a broker that has all subscriptions.

    A single broker takes some batches; the first one is a warm-up.
    """
    incoming = place / "in"
    incoming.mkdir(parents=True)
    alone = brokers(_stream(session, parts[0], incoming), rules, 1, 1, place=place / "run", settings=None)
    query = alone.start()
    try:
        for number, part in enumerate(parts):
            write_numbered(incoming, number, part)
            query.processAllAvailable()
            if number == 0:
                alone.meter.reset(ENTRY)
    finally:
        query.stop()
    delay = alone.loads[ENTRY].matching_delay
    if not delay > 0:
        raise BadInput("subscriptions that match no publication", "some that do", "--set subscriptions")
    return delay


def _stream(session: SparkSession, like: pa.Table, incoming: Path) -> DataFrame:
    schema = session.createDataFrame(like.slice(0, 1)).schema
    return session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(incoming))


def live(
    seed: int,
    *,
    subscriptions: int = 100_000,
    count: int = 8,
    clusters: int = 2,
    batches: int = 80,
    rows: int = 1000,
    overload: float = 2.0,
    batch_s: float = 15.0,
    changes: int = 200,
    balancer: Literal["even", "default", "none"] = "even",
    market: pa.Table | None = None,
    trace: Callable[[Mapping[str, Any]], object] | None = None,
    spark: SparkSession | None = None,
) -> dict[str, Any]:
    """Run the trial.

    Parameters
    ----------
    rows, batch_s
        Publications of a batch, and the seconds of the thesis that it represents; they set the ``time_scale``.
    overload
        How much faster publications arrive than one broker with all subscriptions can match them.
    changes
        Subscriptions that join, and that leave, before every fifth batch.
    market
        Quotes to publish; without it, real ones.
    """
    chance = random.Random(f"{seed}/live")
    market = shuffled(real_quotes() if market is None else market, seed)
    session = spark or local_session(lanes=2, name="evenflow padres-live")
    with tempfile.TemporaryDirectory(prefix="evenflow-brokers-", ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        rules, incoming = place / "rules", place / "in"
        rules.mkdir()
        incoming.mkdir()
        texts = draw(market, subscriptions, chance)
        (rules / "00000").write_text("".join(line_of(str(n), text) for n, text in enumerate(texts)))
        parts = [part_of(market, number, rows) for number in range(TURNS)]
        rate = overload / delay_of(session, rules, parts, place / "alone")
        stream = _stream(session, market, incoming)
        published = BrokerSettings(**(EVEN if balancer == "even" else {}))
        records: list[Mapping[str, Any]] = []

        def note(record: Mapping[str, Any]) -> None:
            records.append(record)
            if trace is not None:
                trace(record)

        live_brokers = brokers(
            stream, rules, count, clusters, place=place / "run", entry=ENTRY, trace=note, seed=seed,
            settings=None if balancer == "none" else published, time_scale=rows / rate / batch_s,
            clock=lambda seen: seen / rate,
        )  # fmt: skip
        trial = Trial(live_brokers, rules, incoming, market, LiveIndex(rules))
        query = live_brokers.start()
        try:
            changed = _flow(trial, query.processAllAvailable, texts, chance, batches, rows, changes)
        finally:
            query.stop()
            if spark is None:
                session.stop()
        return {**findings(trial, records, batch_s), "rate": rate, "batches": batches, **changed}


def _flow(
    trial: Trial,
    process: Callable[[], None],
    texts: list[str],
    chance: random.Random,
    batches: int,
    rows: int,
    changes: int,
) -> dict[str, int]:
    """Publish all batches while subscriptions join and leave."""
    present, following = list(range(len(texts))), len(texts)
    added = removed = 0
    for number in range(batches):
        if number and number % 5 == 0 and changes:
            gone = [present.pop(chance.randrange(len(present))) for _ in range(min(changes, len(present) - 1))]
            new = [(following + n, text) for n, text in enumerate(draw(trial.market, changes, chance))]
            lines = [line_of(str(n), None) for n in gone] + [line_of(str(n), text) for n, text in new]
            (trial.rules / f"{number:05}").write_text("".join(lines))
            present += [name for name, _ in new]
            following += len(new)
            added, removed = added + len(new), removed + len(gone)
        trial.batch(number, rows, process)
    return {"added": added, "removed": removed}


def findings(trial: Trial, records: list[Mapping[str, Any]], batch_s: float) -> dict[str, Any]:
    """Return the results of the trial."""
    live_brokers, compared = trial.live_brokers, trial.compared.judged("padres-live")
    curve = [ratios[ENTRY] for ratios in live_brokers.history]
    higher = (live_brokers.settings or BrokerSettings()).higher
    over = [n for n, ratio in enumerate(curve) if ratio > higher]
    relieved = next((n for n in range(over[0] if over else 0, len(curve)) if curve[n] <= higher), None)
    last = live_brokers.history[-LAST:]
    end = {name: sum(ratios[name] for ratios in last) / len(last) for name in live_brokers.edges}
    sessions = [r for r in records if r["kind"] == "broker_session"]
    moves = [s for s in sessions if s["moved"]]
    cluster_of = live_brokers.cluster_of
    estimates = [r for r in records if r["kind"] == "estimate"]
    errors = [100.0 * abs(e["expected"]["input"] - e["measured"]["input"]) for e in estimates]
    return {
        "subscribers": len(live_brokers.where),
        "distinct": len(live_brokers.catalogue),
        "publications": live_brokers.published,
        "deliveries": trial.deliveries,
        "differing": compared.differing,
        "equal": compared.equal,
        "overloaded": bool(over),
        "relieved_intervals": None if relieved is None or not over else (relieved - over[0]) * batch_s / DETECTION_S,
        "entry_max_input": max(curve),
        "spread_end": max(end.values()) - min(end.values()),
        "input_end": end,
        "shares": {name: sum(where == name for where in live_brokers.where.values()) for name in live_brokers.edges},
        "sessions": len(sessions),
        "moved": sum(s["moved"] for s in moves),
        "cross_cluster": sum(cluster_of[s["giver"]] != cluster_of[s["taker"]] for s in moves),
        "estimates": len(estimates),
        "estimation_error_points": sum(errors) / len(errors) if errors else None,
        "messages": live_brokers.mailbox.messages,
        "faults": len(live_brokers.subscriptions.faults),
        "curves": {name: [round(r[name], 4) for r in live_brokers.history] for name in live_brokers.edges},
    }
