"""Published numbers stand beside ours, in tables and as marks in figures."""

from __future__ import annotations

import pytest

from evenflow.experiments import published
from evenflow.experiments.figures import Figure, Table
from evenflow.experiments.registry import find
from evenflow.experiments.settings import parse_settings
from evenflow.web.report import draw


def test_our_numbers_stand_next_to_theirs_and_missing_ones_are_empty():
    rows = [{"seed": 1, "reduction_pct": 20.0, "fewer_pct": None}, {"seed": 2, "reduction_pct": 30.0}]
    table, differs = published.beside(published.AMI, rows)
    assert isinstance(table, Table)
    assert table.rows[0] == [
        "less overloaded in total, %", "26.44", "section 4.2, one run", 25.0, 20.0, 30.0, 2,
    ]  # fmt: skip
    assert table.rows[1][3:] == [None, None, None, 0]
    assert len(differs.rows) == len(published.AMI.differs)


@pytest.mark.parametrize(
    ("name", "words", "source"),
    [
        ("ami", ["seconds=40"], published.AMI),
        ("dlber", ["pages=60", "base_s=0.005", "edge_s=0.001"], published.DLBER),
        ("padres-local", ["seconds=300", "subscribers=60", "change_at=200", "join_until=100"], published.PADRES),
    ],
)
def test_every_stated_number_has_its_field_and_the_figures_are_marked(name, words, source):
    experiment = find(name)
    settings = parse_settings(experiment.settings, words)
    row = {"seed": 1, **experiment.run(settings, 1, None)}
    for stated in source.stated:
        holder = row
        for part in stated.field.split("."):
            assert part in holder, stated.field
            holder = holder[part]
    parts = experiment.figures([row], settings)
    assert parts[0].title == "As published, and here"
    marked = [part for part in parts if isinstance(part, Figure) and part.marks]
    assert marked
    for part in marked:
        drawing = draw(part)
        assert sum(type(layout).__name__ == "Span" for layout in drawing.center) == len(part.marks)


def test_slices_say_that_nothing_is_published():
    experiment = find("slices-join")
    settings = parse_settings(experiment.settings, ["rate=20", "sensors=40"])
    parts = experiment.figures([{"seed": 1, **experiment.run(settings, 1, None)}], settings)
    assert "None exist" in parts[0].caption


@pytest.mark.parametrize(
    ("name", "words", "kind"),
    [
        ("ami", ["seconds=60"], "tree"),
        ("dlber", ["pages=60", "base_s=0.005", "edge_s=0.001"], "flat"),
        ("padres-local", ["seconds=300", "subscribers=60", "change_at=200", "join_until=100"], "clusters"),
    ],
)
def test_a_trace_has_what_a_page_shows(name, words, kind):
    from evenflow.trace import Run
    from evenflow.web import board
    from evenflow.web.topology import layout_of

    experiment = find(name)
    records: list[dict] = []
    experiment.run(parse_settings(experiment.settings, words), 1, lambda record: records.append(dict(record)))
    run = Run.of(records)
    assert layout_of(run).kind == kind
    nodes = board.nodes_now(run)
    assert len(nodes) >= 4
    assert any(node.load > 0 for node in nodes) or name == "dlber"  # its queues are empty in the end
    assert all(run.nodes[node.name].samples for node in nodes)
    assert sum(node.units for node in nodes) > 0 or name == "dlber"
