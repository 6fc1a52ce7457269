"""The live page in a real browser, beside a stream that runs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time

import pytest

from evenflow.experiments.slices.trial import OUTPUT, follow, put, stream_of
from evenflow.spark.kit.controller import Balancing
from evenflow.spark.slices.balance import balance

pytestmark = pytest.mark.long  # a stream, its server and a browser at once

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LANES = 3
BARS = """() => {
    const source = [...Bokeh.documents[0].all_models].find(m => m.type == "ColumnDataSource" && "state" in m.data)
    return Object.fromEntries(["name", "load", "units"].map(name => [name, [...source.data[name]]]))
}"""


@pytest.fixture
def page():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": 1300, "height": 1500})
        shown.errors = []
        shown.on("console", lambda message: shown.errors.append(message.text) if message.type == "error" else None)
        shown.on("pageerror", lambda error: shown.errors.append(str(error)))
        yield shown
        browser.close()


@pytest.fixture
def query(spark, tmp_path):
    put(tmp_path / "in", 0)
    divided = balance(
        stream_of(spark, tmp_path / "in"), by="device", slices=6, lanes=LANES, balancing=Balancing(policy="")
    )
    writer = divided.process(follow, OUTPUT).writeStream.format("noop")
    started = writer.option("checkpointLocation", str(tmp_path / "check")).start()
    yield started
    started.stop()


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
def test_bars_change_a_move_appears_and_a_lane_is_drained(query, page, tmp_path):
    files = iter(range(1, 1000))

    def goes_on(until):
        """Let batches flow until the page shows something."""
        end = time.monotonic() + 120
        while not until() and time.monotonic() < end:
            put(tmp_path / "in", next(files))
            query.processAllAvailable()
            page.wait_for_timeout(500)
        assert until(), page.evaluate(BARS)

    def units():
        bars = page.evaluate(BARS)
        lanes = [name if isinstance(name, str) else name[0] for name in bars["name"]]
        return dict(zip(lanes, bars["units"], strict=True))

    query.processAllAvailable()
    command = [sys.executable, "-m", "evenflow", "web", str(tmp_path / "check"), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            page.goto(server.stderr.readline().split()[0])
            page.get_by_text(f"{LANES} nodes").wait_for(timeout=60_000)
            assert units() == {"lane-0": 2, "lane-1": 2, "lane-2": 2}
            before = page.evaluate(BARS)["load"]
            goes_on(lambda: page.evaluate(BARS)["load"] != before)
            query.move({0: 1})
            goes_on(lambda: units() == {"lane-0": 1, "lane-1": 3, "lane-2": 2})
            page.get_by_text("1 moves, 0 under way").wait_for(timeout=30_000)
            page.get_by_label("lane", exact=True).select_option("lane-1")
            page.get_by_role("button", name="drain lane").click()
            page.get_by_role("button", name="confirm").click()
            goes_on(lambda: units().get("lane-1") == 0)
            assert sum(units().values()) == 6
            goes_on(lambda: page.get_by_text("done", exact=True).count() == 4)  # the table of moves
            page.screenshot(path=tmp_path / "page.png", full_page=True)
        finally:
            server.terminate()
    assert page.errors == []
