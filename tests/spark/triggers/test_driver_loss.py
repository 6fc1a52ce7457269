"""A run of triggers goes on after the loss of its driver, at any moment of a round."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from trigger_drill import GRAPH, TOLERANCE, trigger_run

from evenflow.experiments.triggers.live import l1, normalised, power_iteration
from evenflow.spark.kit.storage import Storage
from evenflow.triggers.pagerank import PAGES, residual


def check(run) -> None:
    rows = run.rows(PAGES)
    assert len(rows) == len(GRAPH.pages)
    assert residual(rows) <= TOLERANCE
    assert l1(normalised(rows), power_iteration(GRAPH)) < 10 * TOLERANCE


def test_a_run_goes_on_after_its_last_complete_round(spark, tmp_path, monkeypatch):
    first = trigger_run(spark, str(tmp_path))
    first.round()
    assert first.instructed > 0
    before = first.rows(PAGES)

    def lost(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Storage, "write", lost)  # the driver is gone when the round is written, but not yet noted
        with pytest.raises(KeyboardInterrupt):
            first.round()
    second = trigger_run(spark, str(tmp_path))
    assert second.rows(PAGES) == before
    assert second.instructed == first.instructed, "what the master ordered after that round is ordered again"
    assert sum(report.executed for report in second.round()) > 0
    assert sum(report.counts.get("lent", 0) for report in second.reports[-1]) > 0
    assert json.loads((tmp_path / "last.json").read_text()) == {"round": 2, "lanes": 2}


@pytest.mark.long
def test_kills(spark, tmp_path):
    chance = random.Random(1)
    drill = [sys.executable, str(Path(__file__).with_name("trigger_drill.py")), str(tmp_path)]
    for _ in range(3):
        with subprocess.Popen(drill, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            said = {process.stdout.readline() for _ in range(chance.randint(3, 12))}
            assert said == {"round\n"}
            time.sleep(chance.uniform(0.0, 1.0))  # a round takes about so long: any moment of it
            process.kill()
    last = subprocess.run(drill, stdout=subprocess.PIPE, text=True, check=True)
    assert last.stdout.endswith("done\n")
    check(trigger_run(spark, str(tmp_path)))
