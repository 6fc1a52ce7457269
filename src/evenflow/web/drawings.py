"""The pictures of the live page: each knows how to take in a run's present."""

from __future__ import annotations

import math
from typing import Any

from bokeh.models import ColumnDataSource, FactorRange, HoverTool, LinearColorMapper, Range1d
from bokeh.models.annotations import Span
from bokeh.models.annotations.arrows import Arrow, NormalHead
from bokeh.palettes import Category10_10
from bokeh.plotting import figure as bokeh_figure

from evenflow.trace import Run
from evenflow.web import board
from evenflow.web.topology import Layout, layout_of

MANY = 24  # more nodes than this are squares, not bars; their lines are lowest, mean and highest
SHOWN_MOVES = 12  # arrows; older ones are in the table
COLD, WARM, HOT = "#7fb3d5", "#f5b041", "#c0392b"
COLOURS = [COLD, "#a9cce3", "#d4e6f1", "#fdebd0", WARM, "#e67e22", HOT]
figure: Any = bokeh_figure  # its stubs know neither fields with a transform nor ranges as pairs
ON_TOP = 0.3  # of the circle, or at its bottom: names stand in the middle there
LABELS_IN_A_LINE = 20  # of bars; more of them stand upright
SMALL: dict[str, Any] = {"text_font_size": "12px", "text_color": "#222"}
WIDE: dict[str, Any] = {"sizing_mode": "stretch_width", "tools": "", "toolbar_location": None}


def _ends() -> dict[str, str]:
    return {name: name for name in ("left", "right", "bottom", "top")}


def by_load() -> dict[str, Any]:
    """Return how to colour a node by its load relative to the mean; every page needs its own."""
    return {"field": "relative", "transform": LinearColorMapper(palette=COLOURS, low=0.5, high=1.5)}


class Loads:
    """Load over capacity of every node: bars, or squares when there are many, the hottest first."""

    def __init__(self) -> None:
        self.bars = ColumnDataSource({"name": [], "load": [], "relative": [], "units": [], "state": []})
        self.squares = ColumnDataSource({"x": [], "y": [], "name": [], "load": [], "relative": [], "units": []})
        tips = [("node", "@name"), ("load over capacity", "@load{0.000}"), ("of the mean", "@relative{0.00}")]
        self.few = figure(height=260, x_range=FactorRange(), title="Load over capacity, now", **WIDE)
        colour = by_load()
        self.few.vbar(x="name", top="load", width=0.8, source=self.bars, fill_color=colour, line_color="#555")
        self.few.add_tools(HoverTool(tooltips=[*tips, ("units", "@units"), ("state", "@state")]))
        self.few.y_range.start = 0
        self.few.xgrid.grid_line_color = None
        self.mean = Span(location=0, dimension="width", line_dash="dashed", line_color="#222")
        self.limit = Span(location=0, dimension="width", line_color=HOT, line_width=2, visible=False)
        self.few.add_layout(self.mean)
        self.few.add_layout(self.limit)
        self.many = figure(height=260, title="Load over capacity, now: the hottest node first", visible=False, **WIDE)
        self.many.rect(x="x", y="y", width=0.92, height=0.92, source=self.squares, fill_color=colour, line_color=None)
        self.many.add_tools(HoverTool(tooltips=[*tips, ("units", "@units")]))
        self.many.axis.visible = False
        self.many.grid.visible = False

    def show(self, run: Run) -> None:
        """Take in the nodes as they are."""
        nodes = board.nodes_now(run)
        self.few.visible, self.many.visible = len(nodes) <= MANY, len(nodes) > MANY
        if len(nodes) > MANY:
            self._show_many(nodes)
            return
        names = list(dict.fromkeys(name for n in nodes for name in n.parts))
        bars = _by_dimension(nodes, names) if len(names) > 1 else [(n, n.name, n.load, n.relative) for n in nodes]
        self.few.title.text = "Load over capacity, now" + (f": {', '.join(names)}" if len(names) > 1 else "")
        self.few.x_range.factors = [factor for _, factor, _, _ in bars]
        self.few.xaxis.major_label_orientation = "vertical" if len(bars) > LABELS_IN_A_LINE else "horizontal"
        self.bars.data = {
            "name": [factor for _, factor, _, _ in bars],
            "load": [load for _, _, load, _ in bars],
            "relative": [relative for _, _, _, relative in bars],
            "units": [n.units for n, *_ in bars],
            "state": [n.state for n, *_ in bars],
        }
        capacity = sum(n.capacity for n in nodes)
        self.mean.location = sum(n.load * n.capacity for n in nodes) / capacity if capacity else 0
        self.mean.visible = len(names) <= 1  # of several dimensions each has its own
        limits = {n.limit for n in nodes}
        self.limit.visible = len(limits) == 1 and None not in limits
        self.limit.location = max((limit for limit in limits if limit is not None), default=0)

    def _show_many(self, nodes: list[board.NodeNow]) -> None:
        hottest = sorted(nodes, key=lambda n: -n.relative)
        across = max(1, math.ceil(math.sqrt(len(nodes) * 4)))
        self.squares.data = {
            "x": [i % across for i in range(len(nodes))],
            "y": [-(i // across) for i in range(len(nodes))],
            "name": [n.name for n in hottest],
            "load": [n.load for n in hottest],
            "relative": [n.relative for n in hottest],
            "units": [n.units for n in hottest],
        }


def _by_dimension(nodes: list[board.NodeNow], names: list[str]) -> list[tuple[board.NodeNow, Any, float, float]]:
    """Return a bar for every dimension of every node, with its load and how that stands to the mean of the dimension."""
    mean = {name: sum(n.parts.get(name, 0.0) for n in nodes) / len(nodes) for name in names}
    return [
        (n, (n.name, name), n.parts.get(name, 0.0), n.parts.get(name, 0.0) / mean[name] if mean[name] else 1.0)
        for n in nodes
        for name in names
    ]


class History:
    """Load over time: a line per node, or lowest, mean and highest when there are many; below it the moves.

    The height of a live run is that of the loads after each node's first: the first batch warms up, takes many times
    as long as any other, and would flatten all of them. Its line leaves the picture.
    """

    def __init__(self) -> None:
        self.lines = ColumnDataSource({"xs": [], "ys": [], "name": [], "colour": []})
        self.moves = ColumnDataSource({"x": [], "y": [], "what": []})
        self.ratio = ColumnDataSource({"x": [], "y": [], "mean": []})
        self.bound = ColumnDataSource({"x": [], "y": []})
        self.single = ColumnDataSource({"x": [], "y": [], "name": [], "colour": []})
        title = "Load over capacity; dashed is the mean, a mark below is a move"
        self.loads = figure(height=260, title=title, y_range=Range1d(start=0, end=1), **WIDE)
        lines = self.loads.multi_line("xs", "ys", source=self.lines, line_color="colour", line_width=2)
        self.loads.scatter("x", "y", source=self.single, size=6, color="colour")  # one sample makes no line
        self.loads.line("x", "mean", source=self.ratio, line_dash="dashed", line_width=2, color="#222")
        self.loads.add_tools(HoverTool(tooltips=[("node", "@name")], renderers=[lines]))
        marks = self.loads.scatter("x", "y", source=self.moves, marker="triangle", size=9, color="#222")
        self.loads.add_tools(HoverTool(tooltips=[("move", "@what")], renderers=[marks]))
        title = "Max over mean: 1 is even; blue is what no plan can go below"
        self.even = figure(height=180, title=title, x_range=self.loads.x_range, **WIDE)
        self.even.step("x", "y", source=self.bound, mode="after", line_width=2, color="#2471a3")
        self.even.step("x", "y", source=self.ratio, mode="after", line_width=2, color=HOT)
        self.even.add_layout(Span(location=1, dimension="width", line_dash="dashed", line_color="#222"))
        for plot in (self.loads, self.even):
            plot.xaxis.axis_label = "seconds"

    def show(self, run: Run) -> None:
        """Take in everything that was sampled."""
        start = board.beginning(run)
        series = []
        for node in sorted(run.nodes.values(), key=lambda n: board.natural(n.name)):
            at, load = node.series()
            if at.size:
                series.append((node.name, [t - start for t in at.tolist()], load.tolist()))
        self.loads.y_range.update(**_heights(series, warms_up=start > 0))
        if len(series) > MANY:
            series = _band(series)
        colours = [Category10_10[i % 10] for i in range(len(series))]
        self.lines.data = {
            "xs": [at for _, at, _ in series],
            "ys": [load for _, _, load in series],
            "name": [name for name, _, _ in series],
            "colour": colours,
        }
        single = [
            (name, at[0], load[0], c) for (name, at, load), c in zip(series, colours, strict=True) if len(at) == 1
        ]
        self.single.data = {key: [one[i] for one in single] for i, key in enumerate(("name", "x", "y", "colour"))}
        moves = board.moves_seen(run)
        self.moves.data = {
            "x": [m.at - start for m in moves],
            "y": [0.0] * len(moves),
            "what": [f"{m.units}: {m.giver} → {m.taker}" for m in moves],
        }
        times, ratio, mean = board.evenness(run)
        self.ratio.data = {"x": [t - start for t in times], "y": ratio, "mean": mean}
        times, bound = board.bounds(run)
        self.bound.data = {"x": [t - start for t in times], "y": bound}


def _heights(series: list[tuple[str, list[float], list[float]]], *, warms_up: bool) -> dict[str, float]:
    shown = ((loads[1:] if warms_up else loads) or loads for _, _, loads in series)
    top = max((load for loads in shown for load in loads), default=0.0) or 1.0
    return {"start": -0.06 * top, "end": 1.06 * top}


class Map:
    """The nodes as they are linked (circle, tree, clusters), coloured by load; arrows are the latest moves."""

    def __init__(self) -> None:
        fields = ("x", "y", "name", "label", "relative", "size", "right", "down", "align")
        self.nodes = ColumnDataSource({field: [] for field in fields})
        self.plot = figure(
            height=360, min_width=420, title="Who gave to whom: the latest moves",
            x_range=(-1.35, 1.35), y_range=(-1.25, 1.25), **WIDE,
        )  # fmt: skip
        colour = by_load()
        self.links = ColumnDataSource({"x0": [], "y0": [], "x1": [], "y1": []})
        self.boxes = ColumnDataSource({"left": [], "right": [], "bottom": [], "top": [], "name": [], "middle": []})
        self.heads = ColumnDataSource({"x": [], "y": [], "name": []})
        self.plot.quad(source=self.boxes, fill_color="#f4f6f8", line_color="#c8ced4", **_ends())
        self.plot.text("middle", "top", text="name", source=self.boxes, y_offset=-2, text_align="center", **SMALL)
        self.plot.segment("x0", "y0", "x1", "y1", source=self.links, line_color="#9aa5b1", line_width=1.5)
        self.plot.scatter("x", "y", size=16, marker="diamond", source=self.heads, fill_color="#fff", line_color="#333")
        self.plot.text("x", "y", text="name", source=self.heads, y_offset=-10, text_align="center", **SMALL)
        self.plot.text(
            "x", "y", text="label", source=self.nodes, x_offset="right", y_offset="down", text_align="align",
            text_baseline="middle", **SMALL,
        )  # fmt: skip
        dots = self.plot.scatter("x", "y", size="size", source=self.nodes, fill_color=colour, line_color="#555")
        self.plot.add_tools(HoverTool(tooltips=[("node", "@name"), ("of the mean", "@relative")], renderers=[dots]))
        self.plot.axis.visible = False
        self.plot.grid.visible = False
        self.arrows = [Arrow(end=NormalHead(size=9, fill_color="#222"), visible=False) for _ in range(SHOWN_MOVES)]
        for arrow in self.arrows:
            self.plot.add_layout(arrow)

    def show(self, run: Run) -> None:
        """Take in the nodes and the latest moves."""
        nodes = board.nodes_now(run)
        layout = layout_of(run)
        place = layout.places
        self._show_links(run, layout)
        self.nodes.data = {
            "x": [place[n.name][0] for n in nodes],
            "y": [place[n.name][1] for n in nodes],
            "name": [n.name for n in nodes],
            "relative": [round(n.relative, 3) for n in nodes],
            "label": [n.name if len(nodes) <= MANY else "" for n in nodes],
            "size": [22 if len(nodes) <= MANY else 9] * len(nodes),
            **_beside(layout, [place[n.name] for n in nodes]),
        }
        recent = [m for m in board.moves_seen(run) if m.giver in place and m.taker in place][:SHOWN_MOVES]
        for arrow, move in zip(self.arrows, [*recent, *[None] * SHOWN_MOVES], strict=False):
            arrow.visible = move is not None
            if move is not None:
                (x0, y0), (x1, y1) = place[move.giver], place[move.taker]
                arrow.update(  # not from middle to middle: both ends stay to be seen
                    x_start=x0 + 0.08 * (x1 - x0),
                    y_start=y0 + 0.08 * (y1 - y0),
                    x_end=x1 - 0.08 * (x1 - x0),
                    y_end=y1 - 0.08 * (y1 - y0),
                )

    def _show_links(self, run: Run, layout: Layout) -> None:
        ends = [(*layout.places[a], *layout.places[b]) for a, b in layout.links]
        self.links.data = {name: [end[i] for end in ends] for i, name in enumerate(("x0", "y0", "x1", "y1"))}
        boxes = {
            name: [box[i] for box in layout.boxes] for i, name in enumerate(("name", "left", "right", "bottom", "top"))
        }
        self.boxes.data = {**boxes, "middle": [(box[1] + box[2]) / 2 for box in layout.boxes]}
        heads = [name for name in layout.places if run.nodes[name].head]
        self.heads.data = {
            "x": [layout.places[name][0] for name in heads],
            "y": [layout.places[name][1] for name in heads],
            "name": heads,
        }


def _beside(layout: Layout, places: list[tuple[float, float]]) -> dict[str, list[Any]]:
    """Return where names stand, off the way of arrows: outside a circle, below brokers, right of what is in a tree."""
    if layout.kind == "flat":
        return {
            "right": [16 * x for x, _ in places],
            "down": [-20 * y for _, y in places],
            "align": ["center" if abs(x) < ON_TOP else "left" if x > 0 else "right" for x, _ in places],
        }
    right, down, align = (15, 0, "left") if layout.kind == "tree" else (0, 20, "center")
    return {"right": [right] * len(places), "down": [down] * len(places), "align": [align] * len(places)}


def _band(series: list[tuple[str, list[float], list[float]]]) -> list[tuple[str, list[float], list[float]]]:
    """Return the lowest, the mean and the highest load at each moment at which something was sampled."""
    by_time: dict[float, list[float]] = {}
    for _, at, load in series:
        for t, value in zip(at, load, strict=True):
            by_time.setdefault(round(t, 1), []).append(value)
    times = sorted(by_time)
    return [
        ("lowest", times, [min(by_time[t]) for t in times]),
        ("mean", times, [sum(by_time[t]) / len(by_time[t]) for t in times]),
        ("highest", times, [max(by_time[t]) for t in times]),
    ]
