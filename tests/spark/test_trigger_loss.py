"""A run of triggers goes on after the loss of its driver, at any moment of a round."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from trigger_drill import GRAPH, TOLERANCE, trigger_run

from evenflow.experiments.dlber_live import l1, normalised, power_iteration
from evenflow.spark.storage import Storage
from evenflow.triggers.pagerank import PAGES, residual


def check(run) -> None:
    rows = run.rows(PAGES)
    assert len(rows) == len(GRAPH.pages)
    assert residual(rows) <= TOLERANCE
    assert l1(normalised(rows), power_iteration(GRAPH)) < 10 * TOLERANCE


def test_a_run_goes_on_after_its_last_complete_round(spark, tmp_path, monkeypatch):
    first = trigger_run(spark, str(tmp_path))
    first.round()
    first.round()
    assert first.instructed > 0

    def lost(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Storage, "write", lost)  # the driver is gone when the round is written, but not yet noted
        with pytest.raises(KeyboardInterrupt):
            first.round()
    second = trigger_run(spark, str(tmp_path))
    assert len(second.reports) == 0
    assert second.instructed > 0, "what the master ordered after the second round is ordered again"
    assert second.run() > 1
    check(second)
    third = trigger_run(spark, str(tmp_path))
    check(third)
    assert third.run() == 1  # it was at rest


def test_an_empty_folder_is_nothing_to_go_on_with(spark, tmp_path):
    run = trigger_run(spark, str(tmp_path / "a"))
    assert not run.reports
    assert (tmp_path / "a" / "even").is_dir()


@pytest.mark.long
def test_kills(spark, tmp_path):
    chance = random.Random(1)
    drill = [sys.executable, str(Path(__file__).with_name("trigger_drill.py")), str(tmp_path)]
    kills = 0
    while True:
        with subprocess.Popen(drill, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            said = [process.stdout.readline() for _ in range(chance.randint(1, 3))]
            if "done\n" in said:
                break
            time.sleep(chance.uniform(0.0, 1.0))  # a round takes about so long: any moment of it
            process.kill()
            kills += 1
        assert said[0] == "round\n"
        assert kills < 50, "no progress"
    assert kills >= 2
    check(trigger_run(spark, str(tmp_path)))
