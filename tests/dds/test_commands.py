"""``evenflow node`` and ``evenflow balancer`` as a person starts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
DOMAIN = 90 + os.getpid() % 10


@pytest.fixture
def app_path(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))


@pytest.mark.usefixtures("app_path")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--app", "no_such_module:X"), "--app"),
        (("--app", "alarm_app:Nothing"), "--app"),
        (("--app", "alarm_app:NoTopic"), "topic"),
        (("--app", "alarm_app:Alarms", "--filter", "both"), "--filter"),
        (("--app", "alarm_app:Alarms", "--slices", "0"), "--slices"),
        (("--app", "alarm_app:Alarms", "--domain", "999"), "domain"),
        (("--app", "alarm_app:Alarms", "--commit-s", "0"), "--commit-s"),
    ],
)
def test_bad_input_is_one_sentence(evenflow, tmp_path, words, says):
    done = evenflow("node", "--name", "n", "--state", tmp_path, *words)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert len(done.err.strip().splitlines()) == 1


@pytest.mark.usefixtures("app_path")
def test_a_node_processes_commits_and_publishes_results(tmp_path):
    from alarm_app import Alarm, Heat

    from evenflow.dds import publish, subscribe

    alarms = []
    subscription = subscribe("alarms", alarms.append, type=Alarm, domain=DOMAIN)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    places = ("--domain", str(DOMAIN), "--slices", "4", "--monitor-s", "0.5")
    words = (
        ("balancer", "--state", tmp_path / "balancer"),
        ("node", "--app", "alarm_app:Alarms", "--name", "n", "--state", tmp_path / "n"),
    )
    running = [
        subprocess.Popen([sys.executable, "-m", "evenflow", *map(str, some), *places], env=environment)
        for some in words
    ]
    written = []

    def write():
        items = [Heat(i % 8, 70.0 + i) for i in range(40)]
        written.append(
            publish("heat", items, assign="modulo:sensor", slices=4, domain=DOMAIN, committed=True, patience_s=80)
        )

    thread = threading.Thread(target=write)
    try:
        thread.start()
        end = time.time() + 90
        while time.time() < end and (thread.is_alive() or len(alarms) < 29):
            subscription.poll()
    finally:
        for process in running:
            process.send_signal(signal.SIGINT)
        codes = [process.wait(30) for process in running]
        thread.join()
    assert codes == [0, 0]
    assert written == [40]  # what the filter refuses is settled too
    assert sorted(a.value["sensor"] for a in alarms) == sorted(i % 8 for i in range(11, 40))
    assert sum(a.value["count"] for a in alarms) == sum(sum(range(1, n + 1)) for n in (7, 7, 7, 8))
