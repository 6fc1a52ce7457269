"""The example on DDS runs with one command, ends by itself, and every reading has one verdict."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cyclonedds")

EXAMPLE = Path(__file__).parents[3] / "examples" / "temperature_sensors.py"


@pytest.mark.long
def test_sent_equals_processed_equals_alerted_or_not():
    ended = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        env={**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    found = re.fullmatch(r"(\d+) readings sent, (\d+) processed: (\d+) alerts, (\d+) without\n", ended.stdout)
    assert found, ended.stdout
    sent, processed, alerts, others = map(int, found.groups())
    assert sent == processed == alerts + others == 4000
    assert 20 < alerts < 200  # one reading in fifty is wrong; a sensor's first five are never judged
