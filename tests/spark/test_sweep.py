"""Seeds as tasks of Spark give the rows, the trace and the refusals that processes of this machine give."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from evenflow.errors import BadInput
from evenflow.spark.sweep import sweep

WORDS = ("slices-rounds", "--set", "rounds=3", "--set", "slices=20", "--seeds", "1-3", "--json")


class Lasting:
    """The tests' session, which a command must not stop."""

    def __init__(self, session):
        self._session = session

    def __getattr__(self, name):
        return getattr(self._session, name)

    def stop(self):
        pass


@pytest.fixture
def on_spark(spark, monkeypatch):
    monkeypatch.setattr("evenflow.spark.submitted.session", lambda name: Lasting(spark))


def test_the_same_numbers_with_and_without(evenflow, on_spark, tmp_path):
    results = []
    for name, more in (("plain", ()), ("spark", ("--spark",))):
        ended = evenflow("experiment", *WORDS, "--run", tmp_path / name, *more)
        assert ended.code == 0, ended.err
        results.append({**json.loads(ended.out), "seconds": 0})
    assert results[0] == results[1]
    traces = [(tmp_path / name / "trace.jsonl").read_bytes() for name in ("plain", "spark")]
    assert traces[0] == traces[1] != b""
    rows = pq.read_table(tmp_path / "spark" / "rows.parquet").to_pylist()
    numbers = {name for name, value in rows[0].items() if isinstance(value, (int, float))}
    assert {"seed", "moves", "imbalance_max_pct"} <= numbers
    for row, wanted in zip(rows, results[0]["rows"], strict=True):
        assert {name: row[name] for name in numbers} == {name: wanted[name] for name in numbers}


def test_a_refusal_in_a_task_is_one_sentence(evenflow, on_spark):
    ended = evenflow("experiment", *WORDS, "--spark", "--set", "policy=least_move")
    assert (ended.code, ended.out) == (2, "")
    assert "'least_moves'" in ended.err.splitlines()[-1]


def test_an_exception_that_cannot_travel_is_told(spark):
    class Local(Exception):
        pass

    def fail(item):
        if item == 2:
            raise BadInput("2", "another number", "here")
        raise Local("cannot be pickled")

    with pytest.raises(BadInput, match="another number"):
        sweep(spark, fail, [2], lambda item, result: None)
    with pytest.raises(RuntimeError, match="Local: cannot be pickled"):
        sweep(spark, fail, [1], lambda item, result: None)
