"""The live page: what the nodes carry, what moved and why, why nothing moved, and what an operator may ask."""

from __future__ import annotations

import getpass
import json
import os
import time
import uuid
from collections.abc import Callable, Collection
from html import escape
from pathlib import Path
from typing import Any

from bokeh.document import Document
from bokeh.layouts import column, row
from bokeh.models import ColumnDataSource
from bokeh.models.widgets import Button, DataTable, Div, NumberFormatter, Select, Spinner, TableColumn

from evenflow.errors import BadInput
from evenflow.policies import NAMES
from evenflow.spark.kit.requests import Askable, checked
from evenflow.trace import Run
from evenflow.web import board
from evenflow.web.drawings import History, Loads, Map
from evenflow.web.follow import Followed

EVERY_MS = 1000
REST = 20  # times as long as a refresh took, before the next one: a long trace costs no more than a short one
MOST_ROWS = 500  # of the table of moves
MOVES = {"at": "at, s", "units": "unit", "giver": "from", "taker": "to", "why": "why", "outcome": "step"}
WIDTHS = {"why": 280, "phases": 420, "units": 130, "predicted": 150, "actual": 150}
TIMES = {"seconds": "took, s", "predicted": "predicted", "actual": "actual", "phases": "phases"}
ROUNDED = {"at": "0.000", "seconds": "0.000"}


def make_page(document: Document, followed: Followed) -> None:
    """Fill a document, and keep it up to date while somebody looks at it."""
    page = Page(followed)
    document.title = "evenflow"
    document.add_root(page.layout)
    page.refresh()
    document.add_periodic_callback(page.tick, EVERY_MS)


class Page:
    """One open page."""

    def __init__(self, followed: Followed) -> None:
        self.followed = followed
        self.head = Div(sizing_mode="stretch_width")
        self.loads, self.history, self.map = Loads(), History(), Map()
        self.moves = ColumnDataSource({name: [] for name in (*MOVES, *TIMES)})
        self.refusals = ColumnDataSource({"why": [], "times": []})
        columns = [
            TableColumn(field=name, title=title, width=WIDTHS.get(name, 70))
            for name, title in (*MOVES.items(), *TIMES.items())
        ]
        for shown in columns:
            if shown.field in ROUNDED:
                shown.formatter = NumberFormatter(format=ROUNDED[shown.field], null_format="", nan_format="")
        table = DataTable(
            source=self.moves,
            columns=columns,
            height=260,
            sizing_mode="stretch_width",
            index_position=None,
            reorderable=False,
            autosize_mode="none",  # it would cut the words that say why
        )
        why = [TableColumn(field="why", title="why nothing moved"), TableColumn(field="times", title="times", width=60)]
        refused = DataTable(
            source=self.refusals, columns=why, height=320, width=420, index_position=None, reorderable=False
        )
        self.controls = Controls(followed)
        self.layout = column(
            self.head,
            self.controls.layout,
            self.loads.few,
            self.loads.many,
            self.history.loads,
            self.history.even,
            Div(
                text="<h2>Moves, the newest first</h2>predicted, actual: the load of both nodes after the move, "
                "or the highest load over the mean after the plan of the move"
            ),
            table,
            row(self.map.plot, refused, sizing_mode="stretch_width"),
            sizing_mode="stretch_width",
            margin=(8, 16, 16, 16),
        )
        self._shown = -1
        self._resting_until = 0.0

    def tick(self) -> None:
        """Refresh, unless the last time was dear."""
        began = time.monotonic()
        if began < self._resting_until:
            return
        self.refresh()
        ended = time.monotonic()
        self._resting_until = ended + REST * (ended - began)

    def refresh(self) -> None:
        """Look at the trace and show what is new."""
        self.followed.look()
        total = self.followed.run.counts.total()
        if total != self._shown:
            self._shown = total
            self._show(self.followed.run)

    def _show(self, run: Run) -> None:
        self.head.text = _head(self.followed)
        for part in (self.loads, self.history, self.map):
            part.show(run)
        start = board.beginning(run)
        moves = [m._replace(at=m.at - start) for m in board.moves_seen(run)[:MOST_ROWS]]
        _show(self.moves, {name: [getattr(m, name) for m in moves] for name in (*MOVES, *TIMES)})
        found = board.refusals(run)
        _show(self.refusals, {"why": [why for why, _ in found], "times": [times for _, times in found]})
        self.controls.show(run)


def _show(source: ColumnDataSource, data: dict[str, Any]) -> None:
    """Give a table new rows; Bokeh draws a table again only when the number of rows changes."""
    if data != dict(source.data):
        source.data = {name: [] for name in data}
        source.data = data


class Controls:
    """Pause, drain, pin, exchange the policy: asked, confirmed, then written where the live query looks."""

    def __init__(self, followed: Followed) -> None:
        self.folder = followed.requests
        self.askable = askable(followed)
        self.word = Div(text="")
        self.node = Select(title="lane", options=[])
        self.unit = Spinner(title="slice", low=0, value=0, width=90)
        self.policy = Select(title="policy", options=sorted(self.askable.policies or NAMES), value="least_moves")
        self._waiting: tuple[str, Any] | None = None
        self.confirm = Button(label="confirm", button_type="danger", visible=False)
        self.confirm.on_click(self._confirmed)
        buttons = [
            self._button("pause balancing", lambda: ("paused", True)),
            self._button("resume", lambda: ("paused", False)),
            self._button("drain lane", lambda: ("rest", [self._lane()])),
            self._button("use lane", lambda: ("use", [self._lane()])),
            self._button("pin slice to lane", lambda: ("pin", [_whole(self.unit.value), self._lane()])),
            self._button("use policy", lambda: ("policy", self.policy.value)),
        ]
        parts = [self.node, self.unit, self.policy, *buttons, self.confirm]
        self.layout = column(row(*parts), self.word, visible=self.folder is not None)

    def show(self, run: Run) -> None:
        """Offer the lanes that are there."""
        names: list[Any] = sorted(run.nodes, key=board.natural)
        if names != self.node.options:
            self.node.options = names
            self.node.value = self.node.value or (names[0] if names else None)

    def _lane(self) -> int | None:
        lane = str(self.node.value).rpartition("-")[2]
        return int(lane) if lane.isdigit() else None

    def _button(self, label: str, asks: Callable[[], tuple[str, Any]]) -> Button:
        button = Button(label=label, margin=(22, 5, 5, 5))

        def clicked() -> None:
            what, value = self._waiting = asks()
            self.word.text = f"{escape(label)}: {escape(what)} {escape(json.dumps(value))}?"
            self.confirm.visible = True

        button.on_click(clicked)
        return button

    def _confirmed(self) -> None:
        self.confirm.visible = False
        if self._waiting is None or self.folder is None:
            return
        what, value = self._waiting
        self._waiting = None
        try:
            ask(self.folder, what, value, f"{getpass.getuser()}, on the page", self.askable)
        except BadInput as error:
            self.word.text = f"not asked: {escape(str(error))}"
            return
        self.word.text = f"asked: {escape(what)} {escape(json.dumps(value))}; carried out before the next batch"


def askable(followed: Followed) -> Askable:
    """Return what a live query has, as far as its run directory says."""
    settings = followed.settings.get("settings", {})
    own: Collection[str] = [settings.get("policy", ""), *settings.get("policies", ())]
    return Askable(settings.get("slices"), settings.get("lanes"), {*NAMES, *own} - {""})


def ask(folder: Path, what: str, value: Any, by: str, about: Askable) -> Path:
    """Leave a request where a live query looks; it appears whole or not at all.

    Raises
    ------
    BadInput
        When the query could not carry it out.
    """
    request = checked({"what": what, "value": value, "by": by}, about)
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{time.time_ns():020}-{uuid.uuid4().hex[:8]}"
    part = folder.parent / f".{name}"
    with part.open("w", encoding="utf-8") as file:
        file.write(json.dumps(request))
        file.flush()
        os.fsync(file.fileno())
    return part.rename(folder / name)


def _whole(value: float | None) -> Any:
    """Return what a person typed as a whole number, if it is one: an empty field is no slice."""
    return int(value) if value is not None and value == int(value) else value


def _head(followed: Followed) -> str:
    found = board.summary(followed.run)
    name = escape(str(followed.settings.get("experiment", followed.directory.name)))
    gap = "" if found["gap"] is None else f" · last plan {100 * found['gap']:.1f} % above the bound"
    live = "live" if followed.requests is not None else "recorded"
    return (
        f"<h1 style='margin:0'>{name} <small>({live})</small></h1>"
        f"<p style='font-size:1.1em'>{found['nodes']} nodes · {found['units']} units · "
        f"<b>max over mean {found['max_over_mean']:.2f}</b> · {found['moves']} moves, {found['under_way']} under way · "
        f"{found['refusals']} refusals{gap}</p>"
    )
