"""The example programs run by themselves, and what they print is what a plain batch computation finds."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PROGRAMS = ("device_statistics", "sessions", "online_model", "event_sessions", "silent_devices")
PARTS = range(3)

# One after the other in one process: the JVM, which costs most, starts once.
RUN_ALL = """
import runpy, sys
for program in sys.argv[1:]:
    print("program", program)
    runpy.run_path(program, run_name="__main__")
"""


def print_of(*names: str) -> dict[str, list[str]]:
    ended = subprocess.run(
        [sys.executable, "-c", RUN_ALL, *(str(EXAMPLES / f"{name}.py") for name in names)],
        env={**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    parts = re.split(r"^program .*/(\w+)\.py\n", ended.stdout, flags=re.MULTILINE)[1:]
    return {name: text.splitlines() for name, text in zip(parts[::2], parts[1::2], strict=True)}


@pytest.fixture(scope="module")
def printed() -> dict[str, list[str]]:
    return print_of("sessions", "online_model", "event_sessions", "silent_devices")


def loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return __import__(name)


def numbers(line: str) -> list[float]:
    return [float(n) for n in re.findall(r"(?<![a-z\d.])-?\d+(?:\.\d+)?", line)]


def test_device_statistics(monkeypatch):
    printed = print_of("device_statistics")
    example = loaded("device_statistics", monkeypatch)
    values = defaultdict(list)
    for part in PARTS:
        for row in example.readings(part).to_pylist():
            values[row["device"]].append(row["value"])
    busiest = sorted(values, key=lambda device: -len(values[device]))[:5]
    expected = [(d, len(v), statistics.fmean(v), statistics.pstdev(v), max(v)) for d in busiest for v in [values[d]]]
    assert len(printed["device_statistics"]) == 5
    for line, wanted in zip(printed["device_statistics"], expected, strict=True):
        assert numbers(line) == pytest.approx(wanted, abs=0.00051), line


@pytest.mark.long
def test_sessions(printed, monkeypatch):
    example = loaded("sessions", monkeypatch)
    times = defaultdict(list)
    for part in PARTS:
        for row in example.clicks(part).to_pylist():
            times[row["visitor"]].append(row["at"])
    found = []
    for visitor, at in times.items():
        breaks = np.flatnonzero(np.diff(at) > example.GAP_S) + 1
        found += [(len(s), visitor, int(s[0]), int(s[-1])) for s in np.split(np.array(at), breaks)]
    assert len(found) > len(times)  # some visitor came back
    lines = [f"{len(found)} sessions of {len(times)} visitors"]
    lines += [f"{v}: {n} clicks from {began} s to {ended} s" for n, v, began, ended in sorted(found, reverse=True)[:5]]
    assert printed["sessions"] == lines


@pytest.mark.long
def test_online_model(printed, monkeypatch):
    example = loaded("online_model", monkeypatch)
    data = defaultdict(list)
    for part in PARTS:
        for row in example.readings(part).to_pylist():
            data[row["machine"]].append((1.0, row["load"], row["heat"]))
    assert len(printed["online_model"]) == len(data)
    for line, machine in zip(printed["online_model"], sorted(data), strict=True):
        rows = np.array(data[machine])
        ridge = np.sqrt(example.RIDGE) * np.eye(2)  # as two more readings
        x, y = np.vstack([rows[:, :2], ridge]), np.append(rows[:, 2], [0.0, 0.0])
        offset, slope = np.linalg.lstsq(x, y)[0]
        assert line.startswith(f"{machine}: ")
        assert numbers(line)[:3] == pytest.approx([offset, slope, len(rows)], abs=0.00051), line


@pytest.mark.long
def test_event_sessions(printed, monkeypatch):
    example = loaded("event_sessions", monkeypatch)
    times = defaultdict(list)
    for part in range(4):
        for visitor, at in example.clicks(part):
            times[visitor].append(int(at.timestamp()))
    watermark = max(map(max, times.values())) - 600
    found = []
    for visitor, at in times.items():
        sessions = np.split(np.array(at), np.flatnonzero(np.diff(at) > example.GAP_MS / 1000) + 1)
        last = sessions[-1:] if sessions[-1][-1] + example.GAP_MS / 1000 <= watermark else []
        found += [(-len(s), visitor, (s[-1] - s[0]) // 60) for s in [*sessions[:-1], *last]]
    lines = [f"{len(found)} sessions have ended"]
    lines += [f"{visitor}: {-n} clicks" for n, visitor, _ in sorted(found)[:5]]
    assert len(found) > 20
    assert printed["event_sessions"] == lines


@pytest.mark.long
def test_silent_devices(printed):
    assert printed["silent_devices"] == [
        "device 3 is silent since 00:02:50; its last value was 23.0",
        "device 7 is silent since 00:01:50; its last value was 27.0",
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_examples_are_short(name):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < 60
