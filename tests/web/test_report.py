from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from evenflow.experiments.figures import Figure, Series, Table
from evenflow.web.report import write_report


class Loads(HTMLParser):
    """Collects what a browser would fetch: attributes of elements, not texts inside scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.fetched += [value for name, value in attrs if name in {"src", "href", "srcset", "data"} and value]


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("seeds", [["--seed", "3"], ["--seeds", "1-3"]])
def test_an_experiment_reports_on_one_page_that_needs_no_network(evenflow, tmp_path: Path, seeds):
    ended = evenflow(
        "experiment", "toy-double", *seeds, "--set", "policy=<b>mine</b>", "--report", tmp_path / "r", "--json"
    )
    assert ended.code == 0
    assert [p.name for p in (tmp_path / "r").iterdir()] == ["index.html"]
    page = (tmp_path / "r" / "index.html").read_text()
    loads = Loads()
    loads.feed(page)
    assert loads.fetched == []
    assert "@import" not in page
    assert "Bokeh" in page
    assert page.count("data-root-id") == 2  # both figures
    assert "&lt;b&gt;mine&lt;/b&gt;" in page
    assert "<b>mine</b>" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    for text in ("toy-double", "Numbers", "Settings", "nodes", "Rows", "Items &lt;per&gt; seed"):
        assert text in page
    assert "b" not in loads.tags


def test_a_page_of_tables_alone_carries_no_script(tmp_path: Path):
    page = write_report(
        tmp_path, "Title", "Lead.", [Table("T", ["a_b"], [[1234567], [None], [True], [{"k": 1}], [0.5]])]
    )
    text = page.read_text()
    assert "<script" not in text
    for cell in ("a b", "1,234,567", "<td></td>", "true", "{&quot;k&quot;: 1}", "0.5"):
        assert cell in text


@pytest.mark.parametrize("kind", ["line", "step", "points"])
def test_every_kind_of_series_is_drawn(tmp_path: Path, kind):
    figure = Figure("F", "time", "load", [Series("n", [0.0, 1.0, 2.0], [1.0, None, 3.0], kind)], caption="See the gap.")
    assert "See the gap." in write_report(tmp_path, "Title", "Lead.", [figure]).read_text()


def test_a_figure_without_values_says_so(tmp_path: Path):
    empty = Figure("None", "x", "y", [Series("n", [], [], "bars")])
    page = write_report(tmp_path, "Title", "Lead.", [empty]).read_text()
    assert "Nothing to show in this run." in page
    assert "data-root-id" not in page


def test_many_series_have_a_colour_each_or_share_one(tmp_path: Path):
    series = [Series(f"s{i}", [0.0, 1.0], [float(i), float(i)]) for i in range(12)]
    assert "s11" in write_report(tmp_path, "Title", "Lead.", [Figure("F", "x", "y", series)]).read_text()
