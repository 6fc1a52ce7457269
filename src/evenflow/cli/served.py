"""``--web``: the page of a run, served by a process of its own for as long as the run goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evenflow.extras import need


def check_web() -> None:
    """Refuse ``--web`` before anything is started, where the page could not be served."""
    need("prometheus_client", "--web")


@contextmanager
def served(directory: Path, *, wanted: bool = True) -> Iterator[None]:
    """Serve a run directory or checkpoint while the body runs; its trace may not be there yet.

    A process of its own: a busy page takes nothing from the run's interpreter, and its cost can be measured.
    """
    if not wanted:
        yield
        return
    check_web()
    command = [sys.executable, "-m", "evenflow", "web", str(directory), "--port", "0", "--wait"]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        server.terminate()
        server.wait()
