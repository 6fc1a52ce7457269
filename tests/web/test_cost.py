"""What the page costs: the CPU of its server, beside that of the live run it shows. A long test: it runs the demo."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec

import psutil
import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Spent:
    """CPU seconds of a process and of everything it started, those that have ended included as last seen."""

    def __init__(self, process: psutil.Process) -> None:
        self.process = process
        self.seen: dict[tuple[int, float], float] = {}
        self.look()

    def look(self) -> None:
        """See who is there; what a process spends after its last look is not counted."""
        try:
            present = [self.process, *self.process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for one in present:
            with suppress(psutil.NoSuchProcess):
                times = one.cpu_times()
                self.seen[one.pid, one.create_time()] = times.user + times.system

    def seconds(self) -> float:
        return sum(self.seen.values())


class Watch:
    """Compares a server with the run, from when its page can be opened."""

    def __init__(self, run: Spent, directory) -> None:
        command = [sys.executable, "-m", "evenflow", "web", str(directory), "--port", "0", "--wait"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.run = run
        self.address = self.process.stderr.readline().split()[0]
        self.server = Spent(psutil.Process(self.process.pid))
        self.run.look()
        self.began = self.server.seconds(), self.run.seconds()

    def look(self) -> None:
        self.server.look()
        self.run.look()

    def share(self, what: str) -> float:
        self.process.terminate()
        self.process.communicate(timeout=30)
        server, run = (
            spent.seconds() - began for spent, began in zip((self.server, self.run), self.began, strict=True)
        )
        assert run > 1
        print(f"{what}: server {server:.2f} CPU-s of {run:.1f} CPU-s of the run, {100 * server / run:.2f} %")  # noqa: T201 - the numbers are what one looks for
        return server / run


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None or find_spec("pyspark") is None, reason="needs chromium and Spark")
def test_the_page_costs_little_beside_the_run(tmp_path):
    from playwright.sync_api import sync_playwright

    place = tmp_path / "demo"
    command = [sys.executable, "-m", "evenflow", "demo", "--plain", "--seconds", "60", "--place", str(place)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as demo:
        run = Spent(psutil.Process(demo.pid))
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
