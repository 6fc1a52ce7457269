"""What the publications state, number by number, beside the field of our rows that measures the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from evenflow.experiments.figures import Figure, Mark, Table
from evenflow.experiments.registry import Row


@dataclass(frozen=True, slots=True)
class Stated:
    """One number of a publication: as it is written there, where, and which field of a row measures it here."""

    what: str
    value: str
    where: str
    field: str
    level: float | None = None  # as a number, where a figure can show it


@dataclass(frozen=True, slots=True)
class Source:
    """One publication: what it states of an experiment, and what is known to differ here."""

    title: str
    stated: Sequence[Stated]
    differs: Sequence[str]


AMI = Source(
    "T. Kotsantis, Know your neighbor, Chalmers 2014",
    (
        Stated("less overloaded in total, %", "26.44", "section 4.2, one run", "reduction_pct", 26.44),
        Stated("share of time with fewer overloaded units, %", "85.52", "section 4.2, one run", "fewer_pct", 85.52),
        Stated("the same, average", "80.83", "section 4.2, 15 runs", "fewer_pct", 80.83),
    ),
    (
        "How operators are placed, connected and sized, and how long a message takes, is not published; ours are settings.",
        "The default mode corrects the listings where they lose or double operators; mode=literal runs them as printed.",
        "One run says little: from seed to seed these numbers differ by 10 to 15 points.",
    ),
)
DLBER = Source(
    "M. Sun, C. Li, X. Zhou, K. Lu, H. Zhuang, DLBer, NPC 2014",
    (Stated("better than no balancing, %", "about 100", "section 3, PageRank on 8 workers", "better_pct", 100.0),),
    (
        "The graph, the placement of its pages and the times of triggers are not published; the gain depends on all three.",
        "Here time is virtual; the published run was on a cluster with Domino.",
        "The published number may be a speed or a time; here it is the time without balancing over the time with it, minus 1.",
    ),
)
SUBSCRIBERS = {"B1": 120, "B2": 240, "B3": 490, "B4": 1220}  # at the end of Cheung's Figure 5.11
PADRES = Source(
    "A. K. Y. Cheung, Dynamic Load Balancing in Distributed Content-based Publish/Subscribe, Toronto 2006",
    (
        Stated("input sessions up to 1065 s", "19", "section 5.2.1, Figure 5.4", "input_sessions", 19.0),
        Stated("convergence, s", "about 1800", "section 5.2.1, Figure 5.12", "convergence_s", 1800.0),
        Stated("balanced again after the change, s", "3400", "section 5.2.1", "last_move_after_change_s", 3400.0),
        Stated("standard deviation, input ratio", "0.02 to 0.04", "Figure 5.12", "std_input", 0.04),
        Stated("standard deviation, output ratio", "0.02 to 0.04", "Figure 5.12", "std_output", 0.04),
        Stated("matching delays, longest less shortest, s", "0.004", "section 5.2.1.3", "matching_delay_spread_s"),
        Stated("overhead before the change, %", "0.3", "Figure 5.15", "overhead_steady_pct", 0.3),
        Stated("overhead, highest after the change, %", "0.55", "Figure 5.15", "overhead_peak_pct", 0.55),
        Stated("overhead at the end, %", "0.2", "Figure 5.15", "overhead_end_pct", 0.2),
        *(
            Stated(
                f"subscribers at {broker}, %", f"{count / 20.7:.1f}", "section 5.2.1, Figure 5.11", f"shares.{broker}"
            )
            for broker, count in SUBSCRIBERS.items()
        ),
        Stated(
            "estimation error of input, offloader, points",
            "3.3 ± 5.4",
            "Figure 5.14a",
            "estimation.input.offloader.mean_points",
        ),
        Stated(
            "estimation error of input, acceptor, points",
            "-1.6 ± 5.2",
            "Figure 5.14a",
            "estimation.input.acceptor.mean_points",
        ),
        Stated(
            "estimation error of output, offloader, points",
            "0.12 ± 0.3",
            "Figure 5.14b",
            "estimation.output.offloader.mean_points",
        ),
        Stated(
            "estimation error of output, acceptor, points",
            "1.5 ± 1.9",
            "Figure 5.14b",
            "estimation.output.acceptor.mean_points",
        ),
    ),
    (
        "The thesis counts 2070 subscriptions at the end, those of the system included; here only subscribers count.",
        "The thesis shows one run; runs with other seeds differ by hundreds of seconds.",
        "The constants of its simulated broker (matching delay, size of messages) are not published; ours are settings.",
        "A subscriber that moves is given what it would have missed, so that nothing is lost; the thesis waits for a delay.",
        "The estimation errors are per cent there, ratio points here.",
    ),
)
PADRES_GLOBAL = Source(
    PADRES.title,
    (
        Stated("balanced before the change, s", "4700", "section 5.2.2", "last_move_before_change_s", 4700.0),
        Stated("balanced after the change, s", "10500", "section 5.2.2", "last_move_after_change_s", 10500.0),
        Stated("input ratio of B10 above B40, before the change", "0.2", "section 5.2.2.1", "first_last_gap"),
        Stated("delivery delay before the change, s", "0.06", "section 5.2.2.4", "delivery_delay_s", 0.06),
        Stated("delivery delay at the end, s", "0.09", "section 5.2.2.4", "delivery_delay_end_s", 0.09),
        Stated("overhead, highest after the change, %", "0.7", "section 5.2.2.6", "overhead_peak_pct", 0.7),
    ),
    PADRES.differs[1:4],
)
NONE_FOR_SLICES = Table(
    "Published numbers",
    ["", ""],
    [],
    "None exist: the evaluation of the DPSLB thesis is not among its published chapters. All numbers here are our own.",
)


def value_of(row: Row, field: str) -> float | None:
    """Return a number of a row; dots lead into its objects.

    Examples
    --------
    >>> value_of({"a": {"b": 2}}, "a.b"), value_of({"a": None}, "a.b")
    (2.0, None)
    """
    found: Any = row
    for name in field.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return float(found) if isinstance(found, (int, float)) and not math.isnan(found) else None


def beside(source: Source, rows: Sequence[Row]) -> list[Figure | Table]:
    """Put our numbers next to the published ones, and say what differs.

    Returns
    -------
    list
        Two tables.
    """
    lines: list[list[object]] = []
    for stated in source.stated:
        found = [value for row in rows if (value := value_of(row, stated.field)) is not None]
        ours = [fmean(found), min(found), max(found)] if found else [None, None, None]
        lines.append([stated.what, stated.value, stated.where, *(_short(value) for value in ours), len(found)])
    columns = ["number", "published", "where", "here, mean", "lowest", "highest", "seeds"]
    caption = (
        f"{source.title}. Its numbers belong to its settings; those of this run stand at the end of the page. "
        "An empty cell: no seed reached it."
    )
    return [
        Table("As published, and here", columns, lines, caption),
        Table("What differs", ["", ""], [[number, text] for number, text in enumerate(source.differs, 1)]),
    ]


def marks(source: Source, *fields: str, along: str = "y", scale: float = 1.0) -> list[Mark]:
    """Return the published values of these fields, to be drawn into a figure."""
    return [
        Mark(f"published: {stated.value}", stated.level * scale, along)
        for stated in source.stated
        if stated.field in fields and stated.level is not None
    ]


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
