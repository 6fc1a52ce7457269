"""The live page in a real browser, while its run goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from traces import lanes, move, write


@pytest.fixture
def serve():
    running = []

    def start(directory, *words):
        command = [sys.executable, "-m", "evenflow", "web", str(directory), "--port", "0", *words]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        running.append(process)
        return process.stderr.readline().split()[0]

    yield start
    for process in running:
        process.terminate()
        process.communicate(timeout=20)


def opened(browser, address):
    page = browser.new_page(viewport={"width": 1300, "height": 1500})
    page.errors = []
    page.on("console", lambda message: page.errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.goto(address)
    return page


def test_a_move_appears_and_a_lane_is_drained_from_the_page(browser, serve, tmp_path):
    run = write(tmp_path, lanes(4), live=True)
    page = opened(browser, serve(run))
    page.get_by_text("max over mean 2.29").wait_for(timeout=30_000)
    steps = move(1, 2.0, 0, 0, 3)
    for more in (steps[:2], [*steps[2:], {"kind": "sample", "at": 4.0, "node": "lane-0", "load": 1.0}]):
        with (run / "trace.jsonl").open("a") as trace:
            trace.write("".join(json.dumps(r) + "\n" for r in more))
        page.get_by_text("release" if more == steps[:2] else "done", exact=True).wait_for(timeout=30_000)
    page.get_by_text("max over mean 1.00").wait_for(timeout=30_000)
    page.get_by_text("1 moves, 0 under way").wait_for(timeout=30_000)
    page.get_by_label("lane", exact=True).select_option("lane-2")
    page.get_by_role("button", name="drain lane").focus()
    page.keyboard.press("Enter")  # everything can be reached without a mouse
    page.get_by_role("button", name="confirm").click()
    deadline = time.monotonic() + 20
    while not (tmp_path / "requests").is_dir() and time.monotonic() < deadline:
        page.wait_for_timeout(100)
    (request,) = (tmp_path / "requests").iterdir()
    assert json.loads(request.read_text())["value"] == [2]
    assert page.errors == []
    page.screenshot(path=tmp_path / "page.png")


def test_five_hundred_nodes(browser, serve, tmp_path):
    address = serve(write(tmp_path, [*lanes(500, hot=7), *move(1, 2.0, 7, 7, 8)]))
    page = opened(browser, address)
    page.get_by_text("500 nodes").wait_for(timeout=30_000)
    assert page.errors == []


def test_without_the_token_there_is_nothing_to_see(browser, serve, tmp_path):
    address = serve(write(tmp_path, lanes(2)), "--token", "tell-me")
    page = opened(browser, address)
    page.wait_for_timeout(1500)
    assert "max over mean" not in page.content()
    assert page.goto(f"{address}metrics").status == 403
    page.goto(f"{address}?token=tell-me")
    page.get_by_text("max over mean").wait_for(timeout=30_000)
