from __future__ import annotations

from evenflow.spark.kit.notebook import query_html

NODES = [(0, True, 3, 0, 0, 1000, 0.9, 1.0), (1, True, 1, 0, 0, 100, 0.1, 0.2), (2, False, 0, 0, 0, 0, 0.0, 0.0)]


def test_a_notebook_shows_lanes_and_moves():
    page = query_html("a <b>", NODES, [(1, 7, 0, 1, 5.0, True, "least <moves>"), (2, 8, 0, 1, 6.0, False, "")])
    assert "a &lt;b&gt;" in page
    assert "2 of 3 lanes in use, max over mean 1.80" in page
    assert page.index("under way") < page.index("least &lt;moves&gt;")  # the newest first
    assert page.count("#c0392b") == 1  # one lane is hot
    assert "<script" not in page


def test_before_the_first_batch():
    assert "no batch yet" in query_html("q", [(0, True, 4, 0, 0, 0, 0.0, 0.0)], [])
