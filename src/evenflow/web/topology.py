"""Where nodes stand in a picture: on a circle or in rows, as the tree they form, or as clusters below their heads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from evenflow.trace import NodeHistory, Run
from evenflow.web.board import natural

Place = tuple[float, float]
ON_A_CIRCLE = 24


class Layout(NamedTuple):
    """The place of every node within -1 and 1, what links them, and the boxes of clusters."""

    kind: str
    places: Mapping[str, Place]
    links: Sequence[tuple[str, str]]
    boxes: Sequence[tuple[str, float, float, float, float]]  # cluster, left, right, bottom, top


def layout_of(run: Run) -> Layout:
    """Return how the nodes of a run that are there should stand."""
    nodes = [run.nodes[name] for name in sorted(run.nodes_at(), key=natural)]
    if any(node.head for node in nodes):
        return clusters(nodes)
    if any(node.parent is not None for node in nodes):
        return tree(nodes)
    return circle(nodes) if len(nodes) <= ON_A_CIRCLE else rows(nodes)


def rows(nodes: Sequence[NodeHistory]) -> Layout:
    """Put many equals in rows, in order of their names: on a circle they would hide each other."""
    across = math.ceil(math.sqrt(2 * len(nodes)))
    deep = math.ceil(len(nodes) / across)
    places = {
        node.name: (2 * (i % across) / (across - 1) - 1, 1 - 2 * (i // across) / max(deep - 1, 1))
        for i, node in enumerate(nodes)
    }
    return Layout("rows", places, (), ())


def circle(nodes: Sequence[NodeHistory]) -> Layout:
    """Put equals on a circle."""
    turns = [2 * math.pi * i / len(nodes) for i in range(len(nodes))]
    return Layout("flat", {n.name: (math.sin(t), math.cos(t)) for n, t in zip(nodes, turns, strict=True)}, (), ())


def tree(nodes: Sequence[NodeHistory]) -> Layout:
    """Put the root at the top, every node above the middle of its children."""
    present = {node.name for node in nodes}
    below: dict[str | None, list[str]] = {}
    for node in nodes:
        below.setdefault(node.parent if node.parent in present else None, []).append(node.name)
    leaves, depth, order = 0, {}, []
    waiting = [(name, 0) for name in reversed(below.get(None, []))]
    while waiting:  # from the root down, children from left to right
        name, level = waiting.pop()
        depth[name] = level
        order.append(name)
        waiting += [(child, level + 1) for child in reversed(below.get(name, []))]
    across: dict[str, float] = {}
    for name in order:
        if name not in below:
            across[name] = float(leaves)
            leaves += 1
    for name in reversed(order):
        if name in below:
            across[name] = sum(across[child] for child in below[name]) / len(below[name])
    deepest, widest = max(depth.values(), default=0), max(leaves - 1, 1)
    places = {n: (2 * across[n] / widest - 1, 1 - 2 * depth[n] / max(deepest, 1)) for n in order}
    return Layout("tree", places, [(node.parent, node.name) for node in nodes if node.parent in present], ())


def clusters(nodes: Sequence[NodeHistory]) -> Layout:
    """Put clusters side by side, each head above its edge nodes."""
    names = list(dict.fromkeys(node.cluster or "" for node in nodes))
    present = {node.name for node in nodes}
    wide = 2 / len(names)
    places: dict[str, Place] = {}
    boxes = []
    for number, name in enumerate(names):
        left = -1 + number * wide
        inside = [node for node in nodes if (node.cluster or "") == name]
        edges = [node for node in inside if not node.head]
        for node in inside:
            if node.head:
                places[node.name] = (left + wide / 2, 0.6)
        for place, node in enumerate(edges):
            # in two rows where there are several: names and arrows need room
            row = place % 2 if len(edges) * len(names) > 3 else 0
            places[node.name] = (left + wide * (place + 0.5) / len(edges), -0.25 - 0.5 * row)
        boxes.append((name, left + 0.03 * wide, left + 0.97 * wide, -1.05, 1.0))
    links = [(node.parent, node.name) for node in nodes if node.parent in present]
    return Layout("clusters", places, links, boxes)
