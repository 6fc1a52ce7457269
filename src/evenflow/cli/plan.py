"""``evenflow plan``: what would move, what it would bring, and what was refused. A dry run: it changes nothing."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.output import print_json, print_rich
from evenflow.errors import BadInput

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from evenflow.model import Plan
    from evenflow.planfile import Request

SHOWN = 20  # rows of a table that a person reads


def plan(
    file: Annotated[str, typer.Argument(help="JSON with nodes, units and settings; - reads standard input.")],
    policy: Annotated[
        str, typer.Option(help="even_counts, load_classes, least_moves, or module:Class of your own.")
    ] = "least_moves",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Plan which units should move, without moving any."""
    from evenflow import planfile, planner

    collecting = gc.isenabled()
    gc.disable()  # a million records and no cycles among them: the collector would only look at them again and again
    try:
        where, data = _read(file)
        request = planfile.read(data, where)
        del data
        chosen, settings = planfile.choose(request, policy, where)
        start = perf_counter()
        result = planner.plan(request.snapshot, chosen, settings)
        seconds = perf_counter() - start
        if json:
            print_json(as_json(request, result, policy, seconds))
        else:
            print_rich(*as_text(request, result, policy, seconds))
    finally:
        if collecting:
            gc.enable()


def _read(file: str) -> tuple[str, bytes]:
    """Return what to call the input, and its bytes."""
    if file == "-":
        return "standard input", sys.stdin.buffer.read()
    try:
        return file, Path(file).read_bytes()
    except OSError as error:
        raise BadInput(
            f"{file!r} ({error.strerror or error})", "a file that can be read, or - for standard input", "FILE"
        ) from error


def as_json(request: Request, result: Plan, policy: str, seconds: float) -> dict[str, Any]:
    """Return the plan in the shape that ``--json`` prints."""
    node, unit = request.node, request.unit
    return {
        "policy": policy,
        "moves": [
            {"unit": unit(m.unit), "giver": node(m.giver), "taker": node(m.taker), "why": m.why} for m in result.moves
        ],
        "before": {"max_over_mean": result.max_over_mean[0]},
        "after": {"max_over_mean": result.max_over_mean[1]},
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "moved_load_pct": 100.0 * result.moved_load,
        "needed_load_pct": 100.0 * result.needed_load,
        "refusals": dict(result.refusals),
        "floor": result.floor,
        "failed": list(result.failed),
        "missed": list(result.missed),
        "seconds": seconds,
    }


def as_text(request: Request, result: Plan, policy: str, seconds: float) -> list[Any]:
    """Return the plan as tables and sentences for a person."""
    parts: list[Any] = [_nodes(request, result)]
    if result.moves:
        parts.append(_moves(result))
    before, after = result.max_over_mean
    parts += [
        f"{policy}: {len(result.moves)} moves, max/mean {before:.4f} → {after:.4f}, planned in {seconds:.3f} s.",
        f"Moved load {result.moved_load:.2%}, above the lower bound now {result.needed_load:.2%}.",
        f"Highest load over capacity {result.peak[1]:.6g}, lower bound {result.lower_bound:.6g}, gap {result.gap:.2%}.",
        f"{result.floor[:1].upper()}{result.floor[1:]}.",
    ]
    parts += [f"Refused: {name} × {count}." for name, count in result.refusals.items()]
    parts += [f"The plan failed: {sentence}." for sentence in result.failed]
    parts += [f"Goal missed: {sentence}." for sentence in result.missed]
    return parts


def _nodes(request: Request, result: Plan) -> Table:
    """Return bars of load over capacity before and after, the hottest nodes first."""
    import numpy as np
    from rich.table import Table

    from evenflow import imbalance

    snapshot = request.snapshot
    before = imbalance.utilisation(snapshot.node_load(), snapshot.capacity)
    after = imbalance.utilisation(_load_after(request, result), snapshot.capacity)
    top = max(float(before.max(initial=0.0)), float(after.max(initial=0.0))) or 1.0
    order = np.lexsort((np.arange(len(before)), -before))
    table = Table("node", "before", "", "after", "", title="load over capacity", title_justify="left")
    for n in order[:SHOWN].tolist():
        table.add_row(
            str(snapshot.node_ids[n]),
            f"{before[n]:.4g}", _bar(before[n] / top, "yellow"),
            f"{after[n]:.4g}", _bar(after[n] / top, "green"),
        )  # fmt: skip
    if len(order) > SHOWN:
        table.caption = f"and {len(order) - SHOWN} nodes that are loaded less"
    return table


def _bar(share: float, colour: str) -> Text:
    from rich.text import Text

    return Text("█" * round(24 * share), style=colour)


def _load_after(request: Request, result: Plan) -> Any:
    snapshot = request.snapshot
    load = snapshot.node_load()
    nodes = {node: row for row, node in enumerate(snapshot.node_ids)}
    moved = {m.unit for m in result.moves}
    units = {unit: row for row, unit in enumerate(snapshot.unit_ids) if unit in moved}
    for m in result.moves:
        weight = snapshot.load[units[m.unit]]
        load[nodes[m.giver]] -= weight
        load[nodes[m.taker]] += weight
    return load


def _moves(result: Plan) -> Table:
    from rich.table import Table

    table = Table("unit", "from", "to", "why", title="moves", title_justify="left")
    for m in result.moves[:SHOWN]:
        table.add_row(*(str(text) for text in (m.unit, m.giver, m.taker, m.why)))
    if len(result.moves) > SHOWN:
        table.caption = f"and {len(result.moves) - SHOWN} more; --json lists all"
    return table
