"""What the page costs: the CPU of its server, beside that of the live run it shows. A long test: it runs the demo."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from importlib.util import find_spec

import psutil
import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def spent(process: psutil.Process) -> float:
    """CPU seconds of a process and of everything it started; of what has ended, as its parent was told."""
    total = 0.0
    for one in (process, *process.children(recursive=True)):
        try:
            times = one.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


class Watch:
    """Compares a server with the run, from when its page can be opened."""

    def __init__(self, run: psutil.Process, directory) -> None:
        command = [sys.executable, "-m", "evenflow", "web", str(directory), "--port", "0", "--wait"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.run = run
        self.address = self.process.stderr.readline().split()[0]
        self.server = psutil.Process(self.process.pid)
        self.began = spent(self.server), spent(run)

    def look(self) -> None:
        """Remember how much both took; the last look before the end counts."""
        self.took = spent(self.server) - self.began[0], spent(self.run) - self.began[1]

    def share(self, what: str) -> float:
        self.process.terminate()
        self.process.communicate(timeout=30)
        server, run = self.took
        print(f"{what}: server {server:.2f} CPU-s of {run:.1f} CPU-s of the run, {100 * server / run:.2f} %")  # noqa: T201 - the numbers are what one looks for
        return server / run


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None or find_spec("pyspark") is None, reason="needs chromium and Spark")
def test_the_page_costs_little_beside_the_run(tmp_path):
    from playwright.sync_api import sync_playwright

    place = tmp_path / "demo"
    command = [sys.executable, "-m", "evenflow", "demo", "--plain", "--seconds", "60", "--place", str(place)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as demo:
        run = psutil.Process(demo.pid)
        unwatched = Watch(run, place / "runs" / "unbalanced" / "run")
        while not (place / "runs" / "balanced" / "run" / "trace.jsonl").exists():
            unwatched.look()
            time.sleep(0.5)
            assert demo.poll() is None
        without = unwatched.share("no page open")
        watched = Watch(run, place / "runs" / "balanced" / "run")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page()
            page.goto(watched.address)
            page.get_by_text("max over mean").first.wait_for(timeout=120_000)
            while demo.poll() is None:
                watched.look()
                time.sleep(0.5)
            browser.close()
        with_one = watched.share("one page open")
    assert demo.returncode == 0
    assert without <= 0.02
    assert with_one <= 0.10
