"""The example runs as a user would run it, only smaller."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[3] / "examples" / "price_alerts.py"


def test_the_stream_of_alerts_equals_batch_runs_while_subscriptions_change(spark: SparkSession, tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("price_alerts", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    found = example.run(spark, tmp_path, subscriptions=2_000, days=3)
    market = example.quotes(3)
    later = [date for date in market["date"].to_pylist() if date >= "2007"]
    assert found["differences from batch"] == 0
    assert found["quotes"] == market.num_rows
    assert found["alerts"] > 1_000
    assert 0 < found["alerts of later subscriptions"] < market.num_rows
    assert found["alerts of later subscriptions"] == len([d for d in later if d[:4] >= half_year(market)])


def half_year(market: object) -> str:
    years = sorted({date[:4] for date in market["date"].to_pylist()})  # type: ignore[index]
    return years[len(years) // 2]
