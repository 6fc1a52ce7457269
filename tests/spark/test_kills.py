from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from evenflow.errors import BadInput
from evenflow.experiments.slices import kill_drill as kills
from evenflow.experiments.slices.kill_drill import Drill, DrillError, Driver, Patience, drill
from evenflow.spark.kit.control_log import ControlLog
from evenflow.spark.kit.routes import MOVE, Entry, Routes
from evenflow.spark.kit.samples import Cost, Meter
from evenflow.spark.kit.state_transfer import Ship
from evenflow.spark.kit.storage import Storage


def check(found, kills):
    wrong = {
        name: found[name]
        for name in (
            "lost",
            "duplicated",
            "order_violations",
            "states_wrong",
            "owner_violations",
            "unfinished_sessions",
        )
    }
    assert not any(wrong.values()), found
    assert found["kills"] == kills
    assert found["moves"] >= 5 * kills, found
    return found


def test_a_state_that_a_living_driver_forgets_while_the_drill_looks_is_no_failure(tmp_path):
    checkpoint = Storage((tmp_path / "check").as_uri())
    place = checkpoint.under("evenflow")
    ControlLog(place, Routes(12, 2, 2)).append([Entry(MOVE, 0.0, 0, 0, 0, 1)])
    for batch in range(2):
        checkpoint.write(f"offsets/{batch}", b'v1\n{}\n{"evenflow": 1}')
        checkpoint.write(f"commits/{batch}", b"v1\n{}")
    meter = Meter()
    meter.add(0, Cost(held_rows=5))
    meter.write(place, 1, 1)
    looks = Drill(tmp_path)
    Ship(place).send(0, 0, b"x" * 100)
    assert looks._held_in_session()
    Ship(place).forget(0)
    assert not looks._held_in_session()


def test_a_wait_grows_with_the_load_and_says_what_did_not_come(monkeypatch):
    now, load = [0.0], [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(os, "getloadavg", lambda: (load[0], 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    patience = Patience("a batch", 100.0)
    now[0], load[0] = 1000.0, 25.0
    patience.check()
    load[0] = 1.0
    with pytest.raises(BadInput, match="1000 s without a batch, at a load of 1 on 2 cores"):
        patience.check()


class Small(Driver):
    """A process that does what a test says instead of a driver's work."""

    def _start(self):
        self._starts += 1
        with self._log.open("ab") as log:
            words = [sys.executable, "-c", self._directory.joinpath("program").read_text()]
            self.process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)


@pytest.mark.parametrize(
    ("program", "error", "said"),
    [
        ("raise SystemExit('a bug')", DrillError, "a bug"),
        (f"raise SystemExit({kills.NOT_UP!r})", DrillError, kills.NOT_UP),
        ("import time; time.sleep(60)", BadInput, "without the first batch of a driver"),
    ],
)
def test_a_driver_that_ends_is_told_from_one_that_is_slow(tmp_path, monkeypatch, program, error, said):
    (tmp_path / "program").write_text(program)
    monkeypatch.setattr(kills, "BEGIN_S", 0.5 if error is BadInput else 60.0)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    with Small(tmp_path) as child:
        if error is BadInput:
            os.killpg(child.process.pid, signal.SIGSTOP)
        with pytest.raises(error, match=said):
            Drill(tmp_path)._work(child, 1)
        # Spark gives a Python process ten seconds to come up: such a driver is started again, any other is not.
        assert child._starts == (kills.MOST_STARTS if said == kills.NOT_UP else 1)


def test_a_killed_driver_loses_doubles_and_disorders_nothing():
    check(drill(kills=1, seed=1, batches=2), 1)


def test_a_driver_that_wakes_up_ends_and_the_one_that_took_over_goes_on():
    found = check(drill(kills=0, naps=1, seed=3, batches=2), 0)
    assert found["superseded"] == found["naps"] == 1


@pytest.mark.long
def test_many_naps():
    found = check(drill(kills=0, naps=8, seed=5, batches=2), 0)
    assert found["superseded"] == found["naps"] == 8


@pytest.mark.long
def test_many_kills():
    check(drill(kills=3, seed=1, batches=2), 3)
    # only many kills fall into sessions often enough for a share to mean something
    assert check(drill(kills=14, seed=2), 14)["kills_in_session"] * 2 >= 14
