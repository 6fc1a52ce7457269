"""The same test files through Spark Connect, in a process of its own: one process holds classic or Connect sessions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def through_connect(*words: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *(str(HERE / word) for word in words)],
        env={**os.environ, "EVENFLOW_TEST_CONNECT": "1"},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-6000:]


def test_sessions_matching_moves_and_restarts_through_connect():
    through_connect(
        "test_session.py::test_a_session_runs_our_functions",
        "matching/test_match.py::test_frames_directories_and_streams_match_on_any_session",
        "slices/test_balance.py::test_moves_and_restarts_change_nothing_of_the_output",
    )


@pytest.mark.long
def test_the_whole_file_through_connect():
    through_connect("slices/test_balance.py")
