"""The same test file through Spark Connect, in a process of its own: one process holds classic or Connect sessions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLANE = Path(__file__).with_name("test_plane.py")


def through_connect(*words: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(PLANE), *words],
        env={**os.environ, "EVENFLOW_TEST_CONNECT": "1"},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-6000:]


def test_moves_and_restarts_through_connect():
    through_connect("-k", "moves_and_restarts")


@pytest.mark.long
def test_the_whole_file_through_connect():
    through_connect()
