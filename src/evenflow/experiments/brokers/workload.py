"""The workload of Cheung 2006, section 5.1: stock quotes, publishers with rates, subscribers from six templates."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.brokers.catalogue import Catalogue
from evenflow.experiments.brokers.quotes import TEXTS, quotes
from evenflow.subscriptions.language import Subscription, parse_subscription
from evenflow.subscriptions.matching import Index

Quotes = Literal["independent", "real"]
DAYS = 400  # quotes per stock
SILENT = 10  # symbols without a publisher

WITH_SYMBOL = 4  # the first templates name a symbol, which may have no publisher


def advertisement(symbol: str) -> str:
    """Return the advertisement of one stock's quotes (section 2.1.2)."""
    numbers = "".join(f",[{name},isPresent,0]" for name in ("open", "high", "low", "close", "volume"))
    return f"[class,eq,'STOCK'],[symbol,eq,'{symbol}']{numbers}"


@dataclass(frozen=True, slots=True)
class QuotePublisher:
    """Publishes one stock, with rates that may change over time."""

    symbol: int
    joins: float
    rates: tuple[tuple[float, float], ...]  # from when, messages per minute
    phase: float


@dataclass(frozen=True, slots=True)
class QuoteWorkload:
    """Everything that happens in a run, apart from balancing.

    Parameters
    ----------
    catalogue
        All subscriptions by number.
    kinds
        For each quote (stock after stock, day after day) the subscriptions it matches.
    publishers, subscribers
        Who joins when; a subscriber is a time and a subscription number.
    times, quotes
        The publications in order: when, and which quote.
    """

    catalogue: Catalogue
    symbols: Sequence[str]
    kinds: tuple[tuple[int, ...], ...]
    publishers: Sequence[QuotePublisher]
    subscribers: Sequence[tuple[float, int]]
    times: list[float]
    quotes: list[int]


class GivenWorkload(Protocol):
    """The parts of a workload that a file sets (see `workload_file`)."""

    @property
    def symbols(self) -> list[str]:
        """The stocks that are published."""
        ...

    @property
    def subscribers(self) -> Mapping[str, tuple[float, Subscription, str]]:
        """Time, subscription and broker of each."""
        ...

    def sources(self) -> list[QuotePublisher]:
        """Return the publishers."""
        ...


def build(
    chance: random.Random,
    *,
    seed: int,
    publishers: int,
    subscribers: int,
    zero_traffic: float,
    joins: tuple[float, float],
    seconds: float,
    change_at: float,
    series: Quotes,
    days: int = DAYS,
    given: GivenWorkload | None = None,
) -> QuoteWorkload:
    """Draw a workload: publishers at 0 to 60 messages per minute, half of which double at ``change_at``.

    The parts that a workload file sets are not drawn.
    """
    symbols = given.symbols if given else [f"S{number:02}" for number in range(publishers)]
    market = quotes(seed, symbols, days)
    catalogue = Catalogue()
    if given and given.subscribers:
        people = [(at, catalogue.key(one)) for at, one, _ in given.subscribers.values()]
    else:
        people = draw_subscribers(chance, catalogue, market, symbols, subscribers, zero_traffic, joins)
    sources = given.sources() if given else draw_publishers(chance, publishers, change_at)
    times, which = publications(chance, sources, seconds, series, days)
    return QuoteWorkload(catalogue, symbols, match_all(catalogue, market), sources, people, times, which)


def draw_publishers(chance: random.Random, count: int, change_at: float) -> list[QuotePublisher]:
    """Draw the publishers' rates, and which ones double."""
    doubling = set(chance.sample(range(count), count // 2))
    found = []
    for number in range(count):
        rate = chance.uniform(0.0, 60.0)
        changes = ((0.0, rate), (change_at, 2 * rate)) if number in doubling else ((0.0, rate),)
        found.append(QuotePublisher(number, 5.0 + 0.1 * number, changes, chance.random()))
    return found


def draw_subscribers(
    chance: random.Random,
    catalogue: Catalogue,
    market: pa.Table,
    symbols: Sequence[str],
    count: int,
    zero_traffic: float,
    joins: tuple[float, float],
) -> list[tuple[float, int]]:
    """Draw subscriptions from the templates, each with the values of a random quote; some for silent symbols."""
    columns = {name: market.column(name).to_pylist() for name in ("symbol", "high", "low", "volume")}
    weights = [weight for weight, _ in TEXTS]
    texts = [text for _, text in TEXTS]
    silent = set(chance.sample(range(count), round(count * zero_traffic)))
    found = []
    for number in range(count):
        row = chance.randrange(market.num_rows)
        values = {name: column[row] for name, column in columns.items()}
        if number in silent:
            values["symbol"] = f"Z{chance.randrange(SILENT)}"
            text = chance.choices(texts[:WITH_SYMBOL], weights[:WITH_SYMBOL])[0]
        else:
            text = chance.choices(texts, weights)[0]
        found.append((chance.uniform(*joins), catalogue.key(parse_subscription(text.format(**values)))))
    assert set(columns["symbol"]) == set(symbols)
    return sorted(found)


def match_all(catalogue: Catalogue, market: pa.Table) -> tuple[tuple[int, ...], ...]:
    """Return for every quote the subscriptions that it matches."""
    index = Index((key, catalogue.subscription(key)) for key in range(len(catalogue)))
    lists = index.match(market).lists()
    return tuple(map(tuple, lists.to_pylist()))


def publications(
    chance: random.Random, publishers: Sequence[QuotePublisher], seconds: float, series: Quotes, days: int = DAYS
) -> tuple[list[float], list[int]]:
    """Return times and quotes of all publications in order; each publisher sends at a steady rate."""
    generator = np.random.default_rng(chance.getrandbits(63))
    times, which = [], []
    for publisher in publishers:
        mine = _message_times(publisher, seconds)
        drawn = generator.integers(0, days, len(mine)) if series == "independent" else np.arange(len(mine)) % days
        times.append(mine)
        which.append(publisher.symbol * days + drawn)
    at, quote = np.concatenate(times), np.concatenate(which)
    order = np.argsort(at, kind="stable")
    return at[order].tolist(), quote[order].tolist()


def _message_times(publisher: QuotePublisher, seconds: float) -> npt.NDArray[np.float64]:
    """Return the times of one publisher's messages; a change of rate takes effect immediately."""
    found: list[npt.NDArray[np.float64]] = [np.zeros(0)]
    edges = [max(publisher.joins, begin) for begin, _ in publisher.rates] + [seconds]
    done = publisher.phase  # share of the way to the next message
    for (_, per_minute), begin, end in zip(publisher.rates, edges[:-1], edges[1:], strict=True):
        rate = per_minute / 60.0
        total = done + rate * (end - begin)
        count = int(total)
        if rate > 0 and count:
            found.append(np.asarray(begin + (np.arange(1, count + 1) - done) / rate, dtype=np.float64))
        done = total - count
    return np.concatenate(found)
