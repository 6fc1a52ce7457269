"""Seeded workloads for the matching benchmarks: events and subscriptions, straight as columns.

*Stock* has the subscription templates of Cheung 2006, Table 5.1, over quotes of 40 symbols; a quarter of the
subscriptions ask for symbols that nobody publishes. *Flat* has 20 numbers per event and three to six ranges per subscription.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.experiments.brokers.quotes import SILENT, TEXTS, quotes
from evenflow.subscriptions import columns as op
from evenflow.subscriptions.columns import Int8s, Predicates

ZERO_TRAFFIC = 0.25

BY_HIGH, BY_LOW, BY_VOLUME, BY_SYMBOL, ALL_BY_VOLUME, ALL = range(6)
TEMPLATES = {kind: share / 100 for kind, (share, _) in enumerate(TEXTS)}


@dataclass(frozen=True, slots=True)
class Workload:
    """Events, and subscriptions in two forms: as predicates, and as the nullable columns a join is written with.

    Parameters
    ----------
    events
        One column per attribute, and ``event``, the number of the event.
    predicates
        The subscriptions, numbered from 0.
    rules
        One row per subscription: ``subscription`` and its bounds, null where it has none.
    """

    name: str
    events: pa.Table
    predicates: Predicates
    rules: pa.Table


def from_templates(market: pa.Table, count: int, seed: int) -> tuple[Predicates, pa.Table]:
    """Draw subscriptions from the templates of Table 5.1; each takes its operand from a random quote of its symbol.

    Parameters
    ----------
    market
        Quotes with ``symbol``, ``high``, ``low`` and ``volume``.
    """
    random = np.random.default_rng([seed, 2])
    template = random.choice(len(TEMPLATES), size=count, p=list(TEMPLATES.values())).astype(np.int8)
    silent = random.random(count) < ZERO_TRAFFIC
    general = silent & (template >= ALL_BY_VOLUME)  # these have no symbol that could be silent
    template[general] = random.choice(BY_SYMBOL + 1, size=int(general.sum()))
    quote = random.integers(0, market.num_rows, count)
    encoded = market.column("symbol").combine_chunks().dictionary_encode()
    names = [*encoded.dictionary.to_pylist(), *SILENT]
    symbol = encoded.indices.to_numpy()[quote].astype(np.int32)
    symbol[silent] = len(encoded.dictionary) + random.integers(0, len(SILENT), int(silent.sum()))
    operand = {
        BY_HIGH: market.column("high").to_numpy()[quote],
        BY_LOW: market.column("low").to_numpy()[quote],
        BY_VOLUME: market.column("volume").to_numpy()[quote],
    }
    return _template_predicates(template, symbol, operand, names), _template_rules(template, symbol, operand, names)


def _template_predicates(
    template: Int8s, symbol: npt.NDArray[np.int32], operand: Mapping[int, npt.NDArray[np.generic]], names: list[str]
) -> Predicates:
    """Lay three places out for each subscription (class, symbol, range) and leave out the empty ones."""
    count = len(template)
    has_symbol, has_range = template <= BY_SYMBOL, (template <= BY_VOLUME) | (template == ALL_BY_VOLUME)
    used = np.stack([np.ones(count, dtype=bool), has_symbol, has_range], axis=1)
    ranged = np.where(template == ALL_BY_VOLUME, BY_VOLUME, np.minimum(template, BY_VOLUME))
    attribute = np.zeros((count, 3), dtype=np.int32)
    attribute[:, 1], attribute[:, 2] = 1, 2 + ranged
    operator = np.full((count, 3), op.EQ, dtype=np.int8)
    operator[:, 2] = np.where(ranged == BY_LOW, op.LESS, op.MORE)
    number = np.zeros((count, 3), dtype=np.float64)
    number[:, 2] = np.choose(ranged, [operand[BY_HIGH], operand[BY_LOW], operand[BY_VOLUME]])
    text = np.full((count, 3), -1, dtype=np.int32)
    text[:, 0], text[:, 1] = len(names), symbol
    owner = np.repeat(np.arange(count, dtype=np.int32), used.sum(axis=1))
    return Predicates(
        count,
        owner,
        attribute[used],
        operator[used],
        number[used],
        np.zeros(len(owner), dtype=np.int16),
        text[used],
        ("class", "symbol", "high", "low", "volume"),
        (*names, "STOCK"),
    )


def _template_rules(
    template: Int8s, symbol: npt.NDArray[np.int32], operand: Mapping[int, npt.NDArray[np.generic]], names: list[str]
) -> pa.Table:
    by_volume = (template == BY_VOLUME) | (template == ALL_BY_VOLUME)
    return pa.table(
        {
            "subscription": np.arange(len(template), dtype=np.int32),
            "class_is": pa.array(["STOCK"] * len(template)),
            "symbol_is": pa.DictionaryArray.from_arrays(
                pa.array(symbol, mask=template > BY_SYMBOL), pa.array(names)
            ).cast(pa.string()),
            "high_above": pa.array(operand[BY_HIGH], mask=template != BY_HIGH),
            "low_below": pa.array(operand[BY_LOW], mask=template != BY_LOW),
            "volume_above": pa.array(operand[BY_VOLUME], mask=~by_volume),
        }
    )


def stock(events: int, subscriptions: int, seed: int = 1) -> Workload:
    """Make the stock workload.

    Examples
    --------
    >>> stock(10, 1000).events.num_rows
    10
    """
    market = quotes(seed)
    predicates, rules = from_templates(market, subscriptions, seed)
    chosen = np.random.default_rng([seed, 3]).integers(0, market.num_rows, events)
    table = market.take(pa.array(chosen)).append_column("event", pa.array(np.arange(events, dtype=np.int32)))
    return Workload("stock", table.combine_chunks(), predicates, rules)


FLAT_ATTRIBUTES = tuple(f"a{number}" for number in range(20))


def flat(events: int, subscriptions: int, seed: int = 1) -> Workload:
    """Make the flat workload.

    Examples
    --------
    >>> sorted(set(np.bincount(flat(1, 100).predicates.owner).tolist()))
    [6, 8, 10, 12]
    """
    random = np.random.default_rng([seed, 4])
    values = np.round(random.random((len(FLAT_ATTRIBUTES), events)), 6)
    columns = dict(zip(FLAT_ATTRIBUTES, values, strict=True))
    table = pa.table({**columns, "event": np.arange(events, dtype=np.int32)})
    ranges = random.integers(3, 7, subscriptions)
    chosen = np.argsort(random.random((subscriptions, len(FLAT_ATTRIBUTES)), dtype=np.float32), axis=1)
    used = np.zeros((subscriptions, len(FLAT_ATTRIBUTES)), dtype=bool)
    np.put_along_axis(used, chosen, np.arange(len(FLAT_ATTRIBUTES)) < ranges[:, None], axis=1)
    owner, attribute = np.nonzero(used)
    width = random.uniform(0.05, 0.35, len(owner))
    low = np.round(random.uniform(0, 1 - width), 6)
    high = np.round(low + width, 6)
    size = len(owner)
    both = np.tile(np.array([op.AT_LEAST, op.AT_MOST], dtype=np.int8), size)
    predicates = Predicates(
        subscriptions,
        np.repeat(owner, 2).astype(np.int32),
        np.repeat(attribute, 2).astype(np.int32),
        both,
        np.stack([low, high], axis=1).ravel(),
        np.zeros(2 * size, dtype=np.int16),
        np.full(2 * size, -1, dtype=np.int32),
        FLAT_ATTRIBUTES,
        (),
    )
    rules = {"subscription": pa.array(np.arange(subscriptions, dtype=np.int32))}
    wide = np.full((2, subscriptions, len(FLAT_ATTRIBUTES)), np.nan)
    wide[0][used], wide[1][used] = low, high
    for number, name in enumerate(FLAT_ATTRIBUTES):
        rules[f"{name}_from"] = pa.array(wide[0][:, number], from_pandas=True)
        rules[f"{name}_to"] = pa.array(wide[1][:, number], from_pandas=True)
    return Workload("flat", table, predicates, pa.table(rules))
