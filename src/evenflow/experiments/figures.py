"""What a report shows, as plain data: an experiment describes it, the web layer draws it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["line", "step", "points", "bars"]

SERIES = "series"
"""The field of a row that only figures read: curves, not numbers; tables leave it out."""


@dataclass(frozen=True, slots=True)
class Series:
    """One curve; a ``None`` in ``y`` leaves a gap. The ``x`` of bars are the names below them."""

    name: str
    x: Sequence[float] | Sequence[str]
    y: Sequence[float | None]
    kind: Kind = "line"


@dataclass(frozen=True, slots=True)
class Mark:
    """A published value: a dashed line at a height (``along="y"``) or at a moment (``along="x"``)."""

    name: str
    at: float
    along: str = "y"


@dataclass(frozen=True, slots=True)
class Figure:
    """One picture: curves over common axes, and a sentence that says what to see."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    caption: str = ""
    marks: Sequence[Mark] = ()
    log: bool = False  # a logarithmic height, where a first spike would flatten the rest


@dataclass(frozen=True, slots=True)
class Table:
    """One table; cells are shown as they are."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""
