"""A report of each kind, opened in a real browser that has no network."""

from __future__ import annotations

import pytest

from evenflow.bench.match_figures import LEAD, match_figures
from evenflow.web.report import write_report

SMALL = {
    "slices-join": ("rate=20", "sensors=40", "seconds=30"),
    "ami": ("levels=3", "operators=40", "seconds=60"),
    "dlber": ("pages=100",),
    "padres-local": ("subscribers=20", "publishers=4", "seconds=200", "change_at=120", "join_until=40"),
}
FIGURES = """() => {
    const places = [...document.querySelectorAll("[data-root-id]")]
    return places.every(place => place.firstElementChild) && places.length
}"""


def look(browser, report) -> int:
    """Open a report without network, and return how many figures it drew."""
    context = browser.new_context(offline=True)
    wrong: list[str] = []
    page = context.new_page()
    page.on("request", lambda request: wrong.append(request.url) if not request.url.startswith("file:") else None)
    page.on("console", lambda message: wrong.append(message.text) if message.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto((report / "index.html").as_uri())
    figures = page.wait_for_function(FIGURES).json_value()
    context.close()
    assert wrong == []
    return figures


@pytest.mark.parametrize("name", SMALL)
def test_an_experiment(browser, evenflow, tmp_path, name):
    words = [word for setting in SMALL[name] for word in ("--set", setting)]
    ended = evenflow("experiment", name, "--seed", "1", *words, "--report", tmp_path / "r", "--json")
    assert ended.code == 0, ended.err
    assert look(browser, tmp_path / "r") >= 3


def test_the_matching_bench(browser, tmp_path):
    about = {"workload": "stock", "subscriptions": 2000, "turns": 5, "pairs": 7, "checksum": 1, "baseline": "duckdb"}
    rows = [
        {**about, "engine": name, "events_per_cpu_s": rate, "ratio": rate / 1e5}
        for name, rate in (("duckdb", 1e5), ("evenflow counts (numba)", 2e6))
    ]
    (tmp_path / "r").mkdir()
    write_report(tmp_path / "r", "bench match", LEAD, match_figures({"bench": "match", "rows": rows, "index": []}))
    assert look(browser, tmp_path / "r") == 1
