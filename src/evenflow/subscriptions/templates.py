"""The subscriptions that people have to stock quotes, as Cheung 2006 found them (Table 5.1)."""

from __future__ import annotations

TEXTS = (  # Table 5.1: how many of a hundred, and what they say
    (20, "[class,eq,'STOCK'],[symbol,eq,'{symbol}'],[high,>,{high}]"),
    (20, "[class,eq,'STOCK'],[symbol,eq,'{symbol}'],[low,<,{low}]"),
    (20, "[class,eq,'STOCK'],[symbol,eq,'{symbol}'],[volume,>,{volume}]"),
    (34, "[class,eq,'STOCK'],[symbol,eq,'{symbol}']"),
    (5, "[class,eq,'STOCK'],[volume,>,{volume}]"),
    (1, "[class,eq,'STOCK']"),
)
