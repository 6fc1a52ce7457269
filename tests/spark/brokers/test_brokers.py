"""Brokers live: whoever was moved, deliveries are those of a plain match, and each subscriber is on one lane."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenflow.brokers.settings import EVEN, BrokerSettings
from evenflow.errors import BadInput
from evenflow.experiments.brokers.live_trial import draw, rounded, shuffled
from evenflow.experiments.brokers.quotes import quotes
from evenflow.spark.brokers.meter import WINDOW
from evenflow.spark.brokers.plane import brokers, scaled
from evenflow.spark.brokers.subscribers import SubscriptionSource
from evenflow.subscriptions.language import parse_subscription
from evenflow.subscriptions.matching import Index

ROWS = 60


@pytest.fixture(scope="module")
def market():
    return shuffled(quotes(1, ["A", "B", "C", "D"], 150), 1)


@pytest.fixture(scope="module")
def run(spark, market, tmp_path_factory):
    """Eight batches of 60 quotes for 400 subscribers who all join one of four brokers; some come and go."""
    place = tmp_path_factory.mktemp("brokers")
    rules = place / "rules"
    rules.mkdir()
    chance = random.Random(1)
    texts = {str(n): text for n, text in enumerate(draw(market, 400, chance))}
    (rules / "1").write_text("".join(f"+{n}\t{text}\n" for n, text in texts.items()))
    frame = spark.createDataFrame(market.slice(0, 1))
    records = []
    live = brokers(
        frame, str(rules), 4, 2, place=place / "run", entry="B1.1", trace=records.append, engine="numpy",
        settings=BrokerSettings(**EVEN, press_samples=30), clock=lambda seen: 15.0 * seen / ROWS,
    )  # fmt: skip
    # What a lane measures depends on the machine; here delays are what the number of subscribers makes of them.
    measured = live.meter.load

    def modelled(name):
        load = measured(name)
        delay = load.n_subs * 2.0 / 400 / max(load.input_rate, 4.0)
        slope = 2.0 / 400 / 4.0
        return load._replace(matching_delay=delay, slope=slope, per_bit=0.0, cpu=min(1.0, delay * load.input_rate))

    live.meter.load = modelled
    wanted, windows = {}, []
    for batch in range(16):
        if batch == 5:
            (rules / "2").write_text("+new\t[class,eq,'STOCK']\n-0\n-1\nnonsense\n")
            texts["new"] = "[class,eq,'STOCK']"
            del texts["0"], texts["1"]
        part = market.slice(batch * ROWS % 540, ROWS)
        before = dict(live.where)
        live(spark.createDataFrame(part), batch)
        moved = {place for name, place in live.where.items() if before.get(name, place) != place}
        moved |= {before[name] for name, place in live.where.items() if before.get(name, place) != place}
        windows.append((moved, dict(live.meter.lengths)))
        index = Index((name, parse_subscription(text)) for name, text in texts.items())
        for number, names in zip(part.column("number").to_pylist(), index.match(part).lists().to_pylist(), strict=True):
            wanted[batch, number] = Counter(names)
    live.windows_seen, live.pinned_where = windows, before  # what the last batch decided is in no pin yet
    return live, wanted, records


def test_deliveries_equal_a_plain_match(run, spark):
    live, wanted, _ = run
    rows = live.deliveries().select("number", "matches").collect()
    total = sum((Counter(row["matches"]) for row in rows), Counter())
    assert total == sum(wanted.values(), Counter())
    numbers = {number for (_, number), names in wanted.items() if names}
    assert {row["number"] for row in rows} == numbers


def test_everybody_is_on_one_lane_and_the_lanes_share(run):
    live, _, _ = run
    assert set(live.where) == set(live.texts) == set(live.mailbox.subscribers)
    assert all(live.mailbox.subscribers[name].home == where for name, where in live.where.items())
    shares = Counter(live.where.values())
    assert shares["B1.1"] < 350
    assert sum(shares.values()) == 399
    (fault,) = live.subscriptions.faults
    assert fault.startswith("2: expected +id, a tab and a subscription, or -id")


def test_publications_go_only_where_somebody_wants_them(run):
    live, _, _ = run
    covers = live._pinned(0)["covers"]
    assert {lane for lane, _ in covers} == {live.lane["B1.1"]}
    first = live.place / "batches" / "batch=0" / "kind=0"
    assert [folder.name for folder in first.iterdir()] == [f"lane={live.lane['B1.1']}"]


def test_a_lane_is_measured_since_somebody_last_moved_to_or_from_it(run):
    live, _, _ = run
    moves, longest, before = 0, 0, dict.fromkeys(live.edges, 0)
    for batch, (moved, lengths) in enumerate(live.windows_seen):
        expected = {name: 0 if name in moved else min(WINDOW, before[name] + 1) for name in live.edges}
        assert batch in (0, 5) or lengths == expected  # then some join and leave
        moves, longest, before = moves + bool(moved), max(longest, *lengths.values()), lengths
    assert moves >= 2
    assert longest >= 3
    assert max(load.input_rate for load in live.loads.values()) == pytest.approx(ROWS / 15.0)


def test_the_trace_tells_a_session_from_request_to_measured(run):
    _, _, records = run
    done = next(r for r in records if r["kind"] == "broker_session" and r["moved"])
    mine = [r for r in records if r.get("session") == done["session"]]
    assert [r["what"] for r in mine if r["kind"] == "broker_message"] == ["Request", "Reply", "Announce", "Done"]
    offload = next(r for r in mine if r["kind"] == "offload")
    assert offload["samples"] >= 30
    assert any(r["kind"] == "broker_status" and r["to"] == "BUSY" for r in records)


def test_a_repeated_batch_delivers_the_same_and_moves_nobody(run, spark, market):
    live, _, _ = run
    before = live.deliveries().count()
    where = dict(live.where)
    live(spark.createDataFrame(market.slice(15 * ROWS % 540, ROWS)), 15)  # as Spark does after a crash
    assert live.deliveries().count() == before
    assert live.where == where


def test_a_driver_that_died_goes_on_where_the_last_batch_had_everybody(run, spark, market):
    old, wanted, _ = run
    log = old._log_of("B1.1")
    before = log.stat().st_size
    with log.open("a") as torn:  # a move that was never pinned, half written
        torn.write("-5\n+nobody\t[class,eq,'STO")
    rules = old.subscriptions.source
    (rules / "3").write_text("+late\t[class,eq,'STOCK']\n-7\n")
    new = brokers(old.publications, str(rules), 4, 2, place=old.place, settings=None, entry="B2.2", engine="numpy")
    assert new.where == old.pinned_where
    new(spark.createDataFrame(market.slice(15 * ROWS % 540, ROWS)), 15)  # not committed: Spark repeats it
    repeated = pq.read_table(old.place / "batches" / "batch=15" / "kind=0", partitioning=None)
    numbers = repeated.column("number").to_pylist()
    names = repeated.column("matches").to_pylist()
    got = Counter(pair for number, found in zip(numbers, names, strict=True) for pair in ((number, n) for n in found))
    assert got == Counter((n, name) for (b, n), found in wanted.items() if b == 15 for name in found.elements())
    assert (new.where.get("late"), "7" in new.where) == ("B2.2", False)
    assert {n: w for n, w in new.where.items() if n != "late"} == {
        n: w for n, w in old.pinned_where.items() if n != "7"
    }
    with log.open("r+b") as torn:
        torn.truncate(before)


def test_bad_input_is_refused(spark, tmp_path):
    frame = spark.createDataFrame([("STOCK",)], "class string")
    with pytest.raises(BadInput, match="2 brokers in 3 clusters"):
        brokers(frame, str(tmp_path), 2, 3, place=tmp_path)
    with pytest.raises(BadInput, match=r"B9\.9"):
        brokers(frame, str(tmp_path), 4, 2, place=tmp_path, entry="B9.9")
    with pytest.raises(BadInput, match="id and subscription"):
        SubscriptionSource(frame).changes()


def test_a_register_of_a_frame_is_read_once(spark):
    subscriptions = SubscriptionSource(
        spark.createDataFrame([(7, "[x,>,1]"), (8, "[x")], "id int, subscription string")
    )
    assert list(subscriptions.changes()) == ["7"]
    assert subscriptions.changes() == {}
    assert len(subscriptions.faults) == 1


def test_intervals_are_scaled():
    short = scaled(BrokerSettings(), 0.01)
    assert (short.local_pie_s, short.stable_s, short.normalization_s) == pytest.approx((0.3, 0.3, 0.001))
    assert short.local_ratio == BrokerSettings().local_ratio


def test_subscriptions_are_round(market):
    texts = draw(market, 500, random.Random(2))
    assert len(set(texts)) < 200
    assert rounded(0.4) == 1
    assert isinstance(market, pa.Table)
    assert np.array_equal(np.sort(market.column("number").to_numpy()), np.arange(600))
