"""Live brokers without Spark: lanes that cost what their subscribers make them cost, and the brokers' sessions between batches."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from evenflow.brokers.settings import EVEN, BrokerSettings
from evenflow.spark.brokers.plane import Brokers
from evenflow.subscriptions.language import parse_subscription

SYMBOLS = [f"S{n}" for n in range(60)]
ROWS = 200


class SubscriptionSource:
    """Whoever joins, before the next batch."""

    def __init__(self):
        self.waiting = {}

    def changes(self):
        changes, self.waiting = self.waiting, {}
        return changes


class Lanes(Brokers):
    """A federation whose batches are drawn and not run."""

    def begin(self, seed, subscribers, batch_s, slow=lambda _lane, _batch: 1.0):
        self.draw, self.batch_s, self.slow = random.Random(seed), batch_s, slow
        self.key_of = {name: self.catalogue.key(parse_subscription(f"[symbol,eq,'{name}']")) for name in SYMBOLS}
        self.symbol_of = {key: name for name, key in self.key_of.items()}
        self.full = subscribers
        self.join(subscribers)
        return self

    def join(self, count):
        first = len(self.texts)
        for number in range(first, first + count):
            text = f"[symbol,eq,'{self.draw.choice(SYMBOLS)}']"
            self.subscriptions.waiting[str(number)] = (parse_subscription(text), text)

    def step(self, rows=ROWS):
        """Run a batch: all subscribers on one lane would keep it busy twice over."""
        self._admit()
        self._batch += 1
        published = [self.draw.choice(SYMBOLS) for _ in range(rows)]
        seen, self.lists = {}, {}
        for name in self.edges:
            here = Counter(self.symbol_of[key] for key in self.mailbox.edges[name].subscribers.key_of.values())
            mine = [symbol for symbol in published if here[symbol]]
            if mine:
                found = sum(here[symbol] for symbol in mine)
                work = 0.3 * here.total() * len(mine) / self.full + 0.7 * found / (self.full / len(SYMBOLS))
                seconds = work * 2.0 * self.batch_s / ROWS * self.slow(name, self._batch)
                sizes = {"bytes": 100 * found, "memory": 100 * here.total()}
                seen[name] = {"publications": len(mine), "cpu_us": seconds * 1e6, "deliveries": found, **sizes}
                self.lists[self.lane[name]] = [(self.key_of[symbol],) for symbol in mine]
                self.mailbox.edges[name].message_size = 800.0
        self.loads = self.meter.read(seen, self.meter.now + self.batch_s)
        self._negotiate(Path("batch"))

    def _matched(self, folder):
        return self.lists.get(int(folder.name.removeprefix("lane=")), [])

    def sizes(self):
        return {name: self._subscribers(name) for name in self.edges}


@pytest.fixture
def lanes(tmp_path):
    records = []

    def make(brokers=4, **more):
        live = Lanes(
            None, SubscriptionSource(), brokers, 2, place=tmp_path / str(len(records)), entry="B1.1", mbps=100.0,
            settings=BrokerSettings(**EVEN), trace=records.append,
        )  # fmt: skip
        live.records = records
        return live.begin(**{"seed": 1, "subscribers": 2000, "batch_s": 15.0, **more})

    return make


@pytest.mark.parametrize("batch_s", [10.0, 15.0, 31.0])  # the last is longer than PRESS waits for publications
def test_subscribers_spread_whatever_a_batch_lasts(lanes, batch_s):
    live = lanes(batch_s=batch_s)
    for _ in range(60):
        live.step()
    sizes = live.sizes()
    assert sum(sizes.values()) == len(live.where) == 2000
    assert max(sizes.values()) - min(sizes.values()) < 200
    assert sum(r["moved"] for r in live.records if r["kind"] == "broker_session") < 2 * 2000


@pytest.mark.parametrize("seed", range(1, 6))
def test_batches_that_take_long_now_and_then_overload_nobody(lanes, seed):
    chance = random.Random(seed)
    live = lanes(seed=seed, slow=lambda _lane, _batch: chance.choice([1.0] * 9 + [6.0]))
    for _ in range(40):
        live.step()
    settled = len(live.records)
    for _ in range(60):
        live.step()
    sessions = [r for r in live.records[settled:] if r["kind"] == "broker_session"]
    assert not [r for r in sessions if r["overloaded"]]
    assert sum(r["moved"] for r in sessions) < 500
    assert max(live.sizes().values()) - min(live.sizes().values()) < 200


def test_a_broker_is_not_judged_by_what_it_was_before_a_move(lanes):
    live = lanes(subscribers=400)
    judged = 0
    for number in range(60):
        live.step(rows=0 if number % 3 == 2 else 40)  # samples come in parts, and end when PRESS has waited long enough
        for name, edge in live.mailbox.edges.items():
            if edge.load is not None and edge.load.n_subs:
                judged += 1
                assert edge.load.n_subs == live._subscribers(name)
    assert judged > 60


def test_sessions_begin_only_when_both_have_been_measured_for_three_batches(lanes):
    live = lanes()
    moved_at = {}
    for _ in range(40):
        count = len(live.records)
        live.step()
        for record in live.records[count:]:
            if record["kind"] == "offload":
                for side in ("giver", "taker"):
                    assert live._batch - moved_at.get(record[side], -9) > 3
            if record["kind"] == "broker_session" and record["moved"]:
                moved_at |= {record["giver"]: live._batch, record["taker"]: live._batch}
    assert moved_at
