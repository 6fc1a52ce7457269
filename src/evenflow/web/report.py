"""A report is one HTML page that opens anywhere, offline: scripts and styles are inside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, TypeGuard

from bokeh.embed import components
from bokeh.models import BasicTickFormatter, FactorRange, HoverTool, NumeralTickFormatter
from bokeh.models.annotations import Label, Span
from bokeh.models.annotations.legends import Legend
from bokeh.palettes import Category10_10
from bokeh.plotting import figure as bokeh_figure
from bokeh.resources import INLINE

from evenflow.experiments.figures import Figure, Mark, Series, Table
from evenflow.rundir import MADE_BY, PAGE

PUBLISHED = "#8e1b1b"  # the colour of what a publication states
NAMES_IN_A_LINE = 90  # characters below an axis
SEE_THROUGH: dict[str, Any] = {"background_fill_color": "#fff", "background_fill_alpha": 0.7}
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: 0; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; } caption, .caption { color: #666; text-align: left; }
th, td { padding: .2rem .9rem .2rem 0; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
"""


def write_report(path: Path, title: str, lead: str, parts: Sequence[Figure | Table]) -> Path:
    """Write one standalone page with figures and tables, in their order.

    Parameters
    ----------
    path
        The directory; the page in it is ``index.html``.
    title, lead
        The heading, and the sentence below it.
    parts
        What the page shows.

    Returns
    -------
    Path
        The page.
    """
    drawings = [draw(part) for part in parts if _has_values(part)]
    script, divs = components(drawings) if drawings else ("", ())
    shown = iter(divs)
    body = [
        _section(part, _table(part.columns, part.rows))
        if isinstance(part, Table)
        else _section(part, next(shown) if _has_values(part) else "<p>Nothing to show in this run.</p>")
        for part in parts
    ]
    page = path / PAGE
    page.write_text(
        "\n".join(
            [
                '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
                MADE_BY,
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                f"<title>{escape(title)}</title>",
                f"<style>{STYLE}</style>",
                INLINE.render() if drawings else "",
                f"</head><body><h1>{escape(title)}</h1><p>{escape(lead)}</p>",
                *body,
                script,
                "</body></html>\n",
            ]
        ),
        encoding="utf-8",
    )
    return page


def write_experiment_report(
    path: Path, result: Mapping[str, Any], summary: str, parts: Sequence[Figure | Table]
) -> Path:
    """Write the page of one experiment: its figures, the numbers over all seeds, each seed, and the settings."""
    rows = result["rows"]
    measures = ("total", "mean", "median", "max") if len(rows) > 1 else ("mean",)
    numbers = [[name, *(result[m].get(name) for m in measures)] for name in result["mean"]]
    headings = measures if len(rows) > 1 else ("value",)
    # Objects would make a column of braces; figures show them, and the JSON has them.
    fields = list(dict.fromkeys(name for row in rows for name, value in row.items() if not isinstance(value, Mapping)))
    seeds = f"seed {rows[0]['seed']}" if len(rows) == 1 else f"{len(rows)} seeds"
    tables = [
        *parts,
        Table("Numbers", ["", *headings], numbers, f"Over {seeds}; nulls are left out."),
        Table("Rows", fields, [[row.get(name) for name in fields] for row in rows], "One row per seed."),
        Table("Settings", ["setting", "value"], list(result["settings"].items())),
    ]
    return write_report(path, result["experiment"], f"{summary} ({seeds}, {result['seconds']} s)", tables)


def _has_values(part: Figure | Table) -> TypeGuard[Figure]:
    return isinstance(part, Figure) and any(y is not None for series in part.series for y in series.y)


def draw(part: Figure) -> Any:
    """Draw one figure description.

    Returns
    -------
    bokeh.plotting.figure
        The drawing, as wide as the page.
    """
    names = list(dict.fromkeys(str(x) for s in part.series if s.kind == "bars" for x in s.x))
    # Bars need their names before the first one is drawn; everything else finds its own range.
    x_range: dict[str, Any] = {"x_range": FactorRange(factors=names)} if names else {}
    plot = bokeh_figure(
        height=340,
        sizing_mode="stretch_width",
        x_axis_label=part.x_label,
        y_axis_label=part.y_label,
        tools="pan,wheel_zoom,box_zoom,reset,save",
        y_axis_type="log" if part.log else "auto",
        **x_range,
    )
    # Bars of one series have their names below them.
    plot.add_layout(Legend(click_policy="hide", visible=not names or len(part.series) > 1), "right")
    for number, series in enumerate(part.series):
        # Where two lines lie on each other, the first, wider, still shows.
        below = number == 0 and len(part.series) in {2, 3}
        _add_series(plot, series, Category10_10[number % 10], width=4 if below else 2)
    for number, mark in enumerate(part.marks):
        _add_mark(plot, mark, number)
    _set_axes(plot, part, names)
    plot.add_tools(HoverTool(tooltips=[(part.x_label, "@x"), (part.y_label, "@y")]))
    if plot.toolbar is not None:
        plot.toolbar.logo = None
    return plot


def _set_axes(plot: Any, part: Figure, names: Sequence[str]) -> None:
    """Make ticks that can be read: whole seeds, long names aslant, thousands instead of powers of ten."""
    heights = [abs(y) for s in part.series for y in s.y if y is not None]
    if names:
        plot.y_range.start = 0
        plot.xaxis.major_label_orientation = 0.4 if sum(map(len, names)) > NAMES_IN_A_LINE else "horizontal"
    elif all(float(x).is_integer() for s in part.series for x in s.x):
        plot.xaxis.ticker.min_interval = 1
    if any(mark.along == "y" for mark in part.marks):
        plot.y_range.range_padding = 0.15  # the highest mark has its name above it
    if max(heights, default=0.0) >= 10_000:
        plot.yaxis.formatter = NumeralTickFormatter(format="0,0")
    elif part.log:
        plot.yaxis.formatter = BasicTickFormatter(use_scientific=False)


def _add_series(plot: Any, series: Series, color: str, width: int) -> None:
    data: dict[str, list[Any]] = {
        "x": [str(x) for x in series.x] if series.kind == "bars" else list(series.x),
        "y": [float("nan") if y is None else y for y in series.y],
    }
    common = {"source": data, "legend_label": series.name, "color": color}
    if series.kind == "bars":
        plot.vbar(x="x", top="y", width=0.8, alpha=0.7, **common)
    elif series.kind == "points":
        plot.scatter(x="x", y="y", size=6, **common)
    elif series.kind == "step":
        plot.step(x="x", y="y", mode="after", line_width=width, **common)
    else:
        plot.line(x="x", y="y", line_width=width, **common)


def _add_mark(plot: Any, mark: Mark, number: int) -> None:
    """Draw a published value as a dashed line with its name; an empty glyph makes the range reach it.

    The names stand side by side, or above each other beside upright lines: close values do not hide each other.
    """
    upright = mark.along == "x"
    line: dict[str, Any] = {"line_dash": "dashed", "line_color": PUBLISHED, "line_width": 1.5}
    plot.add_layout(Span(location=mark.at, dimension="height" if upright else "width", **line))
    at: dict[str, Any] = (
        {"x": mark.at, "y": 12 + 16 * number, "y_units": "screen", "x_offset": 4}
        if upright
        else {"x": 12 + 150 * number, "x_units": "screen", "y": mark.at, "y_offset": 2}
    )
    plot.add_layout(Label(text=mark.name, text_font_size="12px", text_color=PUBLISHED, **SEE_THROUGH, **at))
    if not upright and not isinstance(plot.x_range, FactorRange):
        xs = [x for glyph in plot.renderers for x in glyph.data_source.data["x"]]
        plot.scatter([min(xs, default=0.0)], [mark.at], size=0, line_alpha=0, fill_alpha=0)


def _section(part: Figure | Table, content: str) -> str:
    caption = f'<p class="caption">{escape(part.caption)}</p>' if part.caption else ""
    return f'<section><h2>{escape(part.title)}</h2>{caption}<div class="wide">{content}</div></section>'


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    if not rows:
        return ""
    kinds = [' class="number"' * all(row[i] is None or _is_number(row[i]) for row in rows) for i in range(len(columns))]
    head = "".join(
        f"<th{kind}>{escape(column.replace('_', ' '))}</th>" for column, kind in zip(columns, kinds, strict=True)
    )
    body = "".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _cell(value: object) -> str:
    """Show a value; four digits of a fraction say enough, the JSON has them all."""
    if isinstance(value, float):
        return f'<td class="number">{value:{",.0f" if abs(value) >= 1000 else ".4g"}}</td>'
    if isinstance(value, int) and not isinstance(value, bool):
        return f'<td class="number">{value:,}</td>'
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    return f"<td>{escape(text)}</td>"
