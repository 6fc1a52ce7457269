"""``--web`` on what runs on Spark: the page is there while the stream flows, and gone afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline.toml"
JAVA = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def scraped(process: subprocess.Popen, lines: list[str]) -> tuple[str, str]:
    """Return the address that the page's server tells, and what it says of the nodes once it knows any."""
    for line in process.stderr:
        lines.append(line)
        if line.startswith("http://"):
            address = line.split()[0]
            break
    else:
        raise AssertionError("".join(lines))
    while process.poll() is None:
        with urllib.request.urlopen(f"{address}metrics", timeout=30) as answer:
            text = answer.read().decode()
        if "evenflow_node_load{" in text:
            return address, text
        time.sleep(0.2)
    raise AssertionError(process.stderr.read())


def test_a_page_of_virtual_time_is_refused(evenflow):
    ended = evenflow("demo", "--virtual", "--web")
    assert (ended.code, ended.out) == (2, "")


@pytest.mark.long  # Spark
def test_a_pipeline_is_watched(tmp_path):
    text = EXAMPLE.read_text().replace('trigger = "availableNow"', 'trigger = "1 second"')
    (tmp_path / "endless.toml").write_text(text)
    (tmp_path / "pipeline.py").write_text(EXAMPLE.with_suffix(".py").read_text())
    command = [sys.executable, "-m", "evenflow", "run", "endless.toml", "--web"]
    with subprocess.Popen(command, cwd=tmp_path, env=JAVA, stderr=subprocess.PIPE, text=True) as process:
        address, text = scraped(process, [])
        assert 'evenflow_node_units{node="lane-1"} 8.0' in text
        process.send_signal(signal.SIGINT)
        process.stderr.read()
    assert process.returncode == 130
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=5)


@pytest.mark.long  # Spark, twice the stream
def test_the_demo_is_watched(tmp_path):
    words = ["demo", "--web", "--plain", "--seconds", "10", "--lanes", "2", "--place", str(tmp_path / "demo")]
    command = [sys.executable, "-m", "evenflow", *words]
    with subprocess.Popen(command, env=JAVA, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        address, text = scraped(process, [])
        assert 'evenflow_node_load{node="lane-1"}' in text
        process.stderr.read()
    assert process.returncode == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=5)
