"""Seeded stock quotes: a random walk for each symbol, as Cheung 2006, section 5.1, uses real ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

SYMBOLS = tuple(f"S{number:02}" for number in range(40))


SILENT = tuple(f"Z{number:02}" for number in range(10))  # symbols without a publisher


DAYS = 1300


def quotes(seed: int, symbols: Sequence[str] = SYMBOLS, days: int = DAYS) -> pa.Table:
    """Make daily quotes: a random walk for each symbol.

    Examples
    --------
    >>> quotes(1, ["A"], 3).column_names
    ['class', 'symbol', 'open', 'high', 'low', 'close', 'volume']
    """
    random = np.random.default_rng([seed, 1])
    size = len(symbols) * days
    walk = np.cumsum(random.normal(0, 0.02, (len(symbols), days)), axis=1)
    close = (random.uniform(10, 200, (len(symbols), 1)) * np.exp(walk)).ravel()
    first = close * np.exp(random.normal(0, 0.01, size))
    high = np.maximum(first, close) * np.exp(np.abs(random.normal(0, 0.01, size)))
    low = np.minimum(first, close) * np.exp(-np.abs(random.normal(0, 0.01, size)))
    scale = random.uniform(12, 16, (len(symbols), 1))
    volume = np.exp(scale + random.normal(0, 0.5, (len(symbols), days))).ravel().astype(np.int64)
    symbol = np.repeat(np.arange(len(symbols), dtype=np.int32), days)
    return pa.table(
        {
            "class": pa.array(["STOCK"] * size),
            "symbol": pa.DictionaryArray.from_arrays(symbol, pa.array(symbols)).cast(pa.string()),
            "open": np.round(first, 2),
            "high": np.round(high, 2),
            "low": np.round(low, 2),
            "close": np.round(close, 2),
            "volume": volume,
        }
    )


TEXTS = (  # Table 5.1: how many of a hundred, and what they say
    (20, "[class,eq,'STOCK'],[symbol,eq,'{symbol}'],[high,>,{high}]"),
    (20, "[class,eq,'STOCK'],[symbol,eq,'{symbol}'],[low,<,{low}]"),
    (20, "[class,eq,'STOCK'],[symbol,eq,'{symbol}'],[volume,>,{volume}]"),
    (34, "[class,eq,'STOCK'],[symbol,eq,'{symbol}']"),
    (5, "[class,eq,'STOCK'],[volume,>,{volume}]"),
    (1, "[class,eq,'STOCK']"),
)
