"""The benchmark's rows: every engine named, agreeing on pairs and checksum, with ratios against the baseline."""

from __future__ import annotations

import json

import pytest

from evenflow.bench import match as bench
from evenflow.bench.match_engines import Pairs
from evenflow.cli.main import main


def test_rows_say_what_was_measured_and_the_engines_agree(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "match", "--no-spark", "--turns", "2", "--seconds", "0.02", "--subscriptions", "300", "--json"]
    assert main(words) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["bench"] == "match"
    assert {row["workload"] for row in result["rows"]} == {"stock", "flat"}
    for workload in ("stock", "flat"):
        rows = [row for row in result["rows"] if row["workload"] == workload]
        assert {"duckdb", "polars", "evenflow pairs (numpy)", "evenflow counts (numba)"} <= {
            row["engine"] for row in rows
        }
        assert len({(row["pairs"], row["checksum"]) for row in rows}) == 1
        assert rows[0]["pairs"] > 0
        assert all(row["events_per_cpu_s"] > 0 and row["subscriptions"] == 300 for row in rows)
        baseline = next(row for row in rows if row["engine"] == row["baseline"])
        assert baseline["ratio"] == 1
    stock, flat = result["index"]
    assert (stock["workload"], stock["subscriptions"], stock["added"]) == ("stock", 300, 12)
    assert stock["add_us"] > 0
    assert stock["index_mb"] > 0
    assert 0 < stock["covering_size"] <= 300
    assert flat["covering_s"] is None


def test_an_engine_that_loses_pairs_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Pairs.summed
    monkeypatch.setattr(Pairs, "summed", lambda self, count: (right(self, count)[0] - 1, right(self, count)[1]))
    with pytest.raises(AssertionError, match="the engines differ on stock with 50 subscriptions"):
        bench.bench_match(["stock"], [50], turns=1, seconds=0.01, spark=False)


@pytest.mark.parametrize("words", ["--workload stocks", "--subscriptions 0"])
def test_bad_options_are_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "match", "--no-spark", *words.split()]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words.split(maxsplit=1)[0] in captured.err


def test_workloads_come_from_the_seed_alone() -> None:
    for make in bench.WORKLOADS.values():
        one, same, other = make(50, 200, 1), make(50, 200, 1), make(50, 200, 2)
        assert one.events.equals(same.events)
        assert one.rules.equals(same.rules)
        assert not one.rules.equals(other.rules)


def test_stock_follows_the_templates() -> None:
    rules = bench.WORKLOADS["stock"](10, 20_000, 1).rules.to_pylist()
    share = {
        "symbol alone": sum(
            r["symbol_is"] and not (r["high_above"] or r["low_below"] or r["volume_above"]) for r in map(_flags, rules)
        ),
        "class alone": sum(not any((r["symbol_is"], r["volume_above"])) for r in map(_flags, rules)),
        "silent": sum((r["symbol_is"] or "").startswith("Z") for r in rules),
    }
    assert 0.30 < share["symbol alone"] / len(rules) < 0.38
    assert 0.004 < share["class alone"] / len(rules) < 0.012
    assert 0.23 < share["silent"] / len(rules) < 0.27


def _flags(rule: dict[str, object]) -> dict[str, bool]:
    return {name: value is not None for name, value in rule.items()}
