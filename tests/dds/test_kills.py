"""A reader that is killed again and again loses and repeats nothing: the journal and the memory alone, without Spark."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from evenflow.experiments.dds.publishers import ENOUGH, FINDINGS, ITEMS, KEPT, SETTINGS, planned

CHILD = Path(__file__).with_name("stream_child.py")
PATIENCE_S = 240.0


def killed(directory, kills, items, seed):
    domain = 100 + os.getpid() % 90
    (directory / SETTINGS).write_text(json.dumps({"items": items, "domain": domain}))
    chance = random.Random(seed)
    publisher = subprocess.Popen([sys.executable, "-m", "evenflow.experiments.dds.publishers", str(directory)])
    child = None
    try:
        for kill in range(1, kills + 1):
            child = subprocess.Popen([sys.executable, str(CHILD), str(directory)])
            end = time.monotonic() + PATIENCE_S
            while planned(directory) < kill * items // (kills + 1) and time.monotonic() < end:
                assert child.poll() is None
                time.sleep(0.01)
            time.sleep(chance.uniform(0.0, 0.3))
            child.kill()
            child.wait()
        (directory / ENOUGH).touch()
        child = subprocess.Popen([sys.executable, str(CHILD), str(directory)], stdout=subprocess.PIPE, text=True)
        repeated = json.loads(child.communicate(timeout=PATIENCE_S)[0])
        (directory / FINDINGS).touch()
        assert publisher.wait(60) == 0
    finally:
        for process in (publisher, child):
            if process is not None:
                process.kill()
                process.wait()
    return repeated


def numbers(directory, topic, column):
    files = sorted((directory / topic / "out").iterdir(), key=lambda path: int(path.stem))
    return [row[column] for path in files for row in json.loads(path.read_text())]


@pytest.mark.parametrize("kills", [2, pytest.param(12, marks=pytest.mark.long)])
def test_every_sample_is_read_once(tmp_path, kills):
    items = 200 * kills
    repeated = killed(tmp_path, kills, items, seed=kills)
    assert Counter(numbers(tmp_path, ITEMS, "sensor")) == Counter(range(items))
    assert numbers(tmp_path, KEPT, "number") == list(range(items))
    assert repeated[1] >= items * kills // (kills + 1) - 100  # the history came again and was known
    assert not list((tmp_path / KEPT / "journal").glob("rows-*"))  # committed rows are gone
