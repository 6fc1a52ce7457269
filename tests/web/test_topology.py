from __future__ import annotations

import pytest

from evenflow.trace import Run
from evenflow.web.drawings import Map
from evenflow.web.topology import layout_of


def joined(name, **fields):
    return {"kind": "node", "at": 0.0, "node": name, "step": "joined", **fields}


def test_equals_stand_on_a_circle():
    layout = layout_of(Run.of([joined(f"n{i}") for i in range(5)]))
    assert layout.kind == "flat"
    assert [x * x + y * y for x, y in layout.places.values()] == pytest.approx([1.0] * 5)


def test_many_equals_stand_in_rows():
    layout = layout_of(Run.of([joined(f"n{i}") for i in range(500)]))
    assert layout.kind == "rows"
    assert len(set(layout.places.values())) == 500
    assert all(-1 <= x <= 1 and -1 <= y <= 1 for x, y in layout.places.values())
    first, second, last = (layout.places[f"n{i}"] for i in (0, 1, 499))
    assert first == (-1.0, 1.0)
    assert (second[0] > first[0], second[1], last[1]) == (True, 1.0, -1.0)


def test_names_stand_off_the_way_of_arrows():
    drawn = Map()
    drawn.show(Run.of([joined(f"n{i}") for i in range(4)]))  # top, right, bottom, left
    assert drawn.nodes.data["align"] == ["center", "left", "center", "right"]
    assert [round(d) for d in drawn.nodes.data["down"]] == [-20, 0, 20, 0]
    drawn.show(Run.of(CLUSTERS))
    assert set(drawn.nodes.data["down"]) == {20}


def test_a_tree_stands_by_its_levels():
    parents = {"r": None, "a": "r", "b": "r", "c": "a", "d": "a", "e": "b"}
    layout = layout_of(Run.of([joined(n, parent=p) for n, p in parents.items()]))
    assert layout.kind == "tree"
    assert sorted(layout.links) == sorted((p, n) for n, p in parents.items() if p)
    places = layout.places
    assert [places[n][1] for n in "racde"] == [1.0, 0.0, -1.0, -1.0, -1.0]
    assert places["a"][0] == pytest.approx((places["c"][0] + places["d"][0]) / 2)
    assert len(set(places.values())) == 6
    assert [places[n][0] for n in "cde"] == [-1.0, 0.0, 1.0]


def test_a_node_whose_parent_left_is_a_root():
    gone = {"kind": "node", "at": 2.0, "node": "a", "step": "left"}
    layout = layout_of(Run.of([joined("r"), joined("a", parent="r"), joined("b", parent="a"), gone]))
    assert set(layout.places) == {"r", "b"}


CLUSTERS = [
    joined("H1", cluster="C1", head=True, parent=None),
    joined("H2", cluster="C2", head=True, parent="H1"),
    *(joined(f"E{c}{i}", cluster=f"C{c}", head=False, parent=f"H{c}") for c in (1, 2) for i in range(3)),
]


def test_edge_nodes_stand_below_their_heads_in_the_box_of_their_cluster():
    run = Run.of(CLUSTERS)
    layout = layout_of(run)
    assert layout.kind == "clusters"
    assert ("H1", "H2") in layout.links
    assert len(set(layout.places.values())) == 8
    for name, left, right, bottom, top in layout.boxes:
        for node in run.nodes.values():
            x, y = layout.places[node.name]
            assert (left < x < right and bottom < y < top) == (node.cluster == name)
    assert all(layout.places[f"E{c}{i}"][1] < layout.places[f"H{c}"][1] for c in (1, 2) for i in range(3))


def test_the_picture_shows_heads_apart_and_moves_between_edges():
    session = {"kind": "session", "session": "s", "giver": "E10", "taker": "E21", "units": []}
    run = Run.of([*CLUSTERS, {**session, "at": 1.0, "step": "agreed"}, {**session, "at": 2.0, "step": "done"}])
    drawn = Map()
    drawn.show(run)
    assert drawn.heads.data["name"] == ["H1", "H2"]
    assert len(drawn.nodes.data["name"]) == 6
    assert len(drawn.links.data["x0"]) == 7
    assert drawn.boxes.data["name"] == ["C1", "C2"]
    assert sum(arrow.visible for arrow in drawn.arrows) == 1
