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


@pytest.fixture
def start():
    """Start commands of evenflow; whatever is started is interrupted."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    running = []

    def begin(*words):
        command = [sys.executable, "-m", "evenflow", *map(str, words), "--slices", "4", "--monitor-s", "0.5"]
        running.append(subprocess.Popen(command, env=environment))
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.wait()


def interrupted(processes):
    for process in processes:
        process.send_signal(signal.SIGINT)
    return [process.wait(30) for process in processes]


def publishing(*arguments, **options):
    """Publish beside the test; return the thread and what ``publish`` returned."""
    from evenflow.dds import publish

    written = []
    thread = threading.Thread(
        target=lambda: written.append(publish(*arguments, committed=True, patience_s=80, **options))
    )
    thread.start()
    return thread, written


def poll(subscription, holds, seconds=90):
    end = time.time() + seconds
    while time.time() < end and not holds():
        subscription.poll()


@pytest.mark.usefixtures("app_path")
@pytest.mark.parametrize("kills", [0, pytest.param(1, marks=pytest.mark.long)])
def test_nodes_process_commit_and_publish_results(tmp_path, start, kills):
    """Two nodes share the slices; the alarms of both arrive, also after one of them was killed and started again."""
    from alarm_app import Alarm, Heat

    from evenflow.dds import subscribe

    alarms = []
    subscription = subscribe("alarms", alarms.append, type=Alarm, domain=DOMAIN)
    balancer = start("balancer", "--state", tmp_path / "balancer", "--domain", DOMAIN)
    words = ["node", "--app", "alarm_app:Alarms", "--domain", DOMAIN]
    nodes = {n: start(*words, "--name", n, "--state", tmp_path / n) for n in ("n", "m")}
    poll(subscription, lambda: all(owns(tmp_path / name) for name in nodes))
    disturb(Heat)
    made = []
    for turn in range(kills + 1):
        items = [Heat(i % 8, 70.0 + i) for i in range(40)]
        thread, written = publishing("heat", items, assign="modulo:sensor", slices=4, domain=DOMAIN)
        poll(subscription, lambda: not thread.is_alive() and len(alarms) >= 29 * (turn + 1))  # noqa: B023
        thread.join()
        assert written == [40]  # what the filter refuses is settled too
        made += [i % 8 for i in range(11, 40)]
        assert sorted(a.value["sensor"] for a in alarms) == sorted(made)
        if turn < kills:
            nodes["m"].kill()
            nodes["m"].wait()
            nodes["m"] = start(*words, "--name", "m", "--state", tmp_path / "m")
    assert len({a.id >> 40 for a in alarms}) == 2
    per_slice = [n * (kills + 1) for n in (7, 7, 7, 8)]  # each slice counts on from where it was
    assert sum(a.value["count"] for a in alarms) == sum(sum(range(1, n + 1)) for n in per_slice)
    assert interrupted([balancer, *nodes.values()]) == [0, 0, 0]


def disturb(kind):
    """Write samples that do not fit, as octets: each of them once ended a process."""
    from alerting import control
    from cyclonedds._clayer import ddspy_write
    from mutations import cache_sample

    from evenflow.dds.bus import CACHES, CONTROL, Bus
    from evenflow.dds.wire.idl import CacheTopic, Control, item_type
    from evenflow.slices.messages import Leave

    bus = Bus(DOMAIN)
    writers = {
        CONTROL: bus.writer(CONTROL, Control),
        CACHES: bus.writer(CACHES, CacheTopic),
        "heat": bus.writer("heat", item_type(kind)),
    }
    end = time.time() + 30
    while time.time() < end and not all(w.get_matched_subscriptions() for w in writers.values()):
        time.sleep(0.05)
    large = f'["Notification", "x", 4, [["cpu", 1.0]], [[0, {10**400}]], 1.0, "sample"]'
    samples = [
        (CONTROL, control("balancer", "x", "?")[1].replace(b"?", b"\xff")),
        control("balancer", "x", large),
        *(control(name, "x", Leave()) for name in ("n", "m")),
        *((CACHES, cache_sample("x", name, 0, b"ARROW1").serialize()) for name in ("n", "m")),
        ("heat", item_type(kind)(5, 0, 99, float("nan"), 1, 99.0).serialize()),
        ("heat", item_type(kind)(5, 0, 0, float("nan"), 1, 99.0).serialize()),
    ]
    for topic, data in samples:
        assert ddspy_write(writers[topic]._ref, data) == 0


def owns(directory):
    segments = sorted(directory.glob("segment-*.jsonl"))
    return bool(segments) and '"owning"' in segments[-1].read_text()


@pytest.mark.usefixtures("app_path")
def test_a_topic_that_is_not_balanced_is_acknowledged_and_its_results_come(tmp_path, start):
    from alarm_app import Alarm, Heat

    from evenflow.dds import subscribe

    echoes = []
    domain = DOMAIN + 10
    subscription = subscribe("echoes", echoes.append, type=Alarm, domain=domain)
    words = ["node", "--app", "alarm_app:Everywhere", "--domain", domain]
    nodes = [start(*words, "--name", n, "--state", tmp_path / n) for n in ("n", "m")]
    until_there(subscription, domain)
    thread, written = publishing("news", [Heat(i, 1.0) for i in range(20)], domain=domain)
    poll(subscription, lambda: not thread.is_alive() and len(echoes) >= 40)
    thread.join()
    assert written == [20]
    assert sorted(e.value["sensor"] for e in echoes) == sorted([*range(20)] * 2)  # every node sees every item
    assert interrupted(nodes) == [0, 0]


def until_there(subscription, domain):
    """Wait until both nodes read the topic."""
    from alarm_app import Heat

    from evenflow.dds.bus import Bus
    from evenflow.dds.wire.idl import item_type

    writer = Bus(domain).writer("news", item_type(Heat))
    poll(subscription, lambda: len(writer.get_matched_subscriptions()) == 2)
