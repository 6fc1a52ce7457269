"""Scenario files in JSON: a tree, its operators and a schedule of changes; errors name the field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenflow import strict_json
from evenflow.errors import BadInput
from evenflow.experiments.operators.workload import Change, Scenario
from evenflow.operators.graph import Graph
from evenflow.operators.tree import Tree, from_parents

FIELDS = ("parent", "ops", "schedule")


def read_scenario(path: Path) -> Scenario:
    """Read a scenario file.

    Raises
    ------
    BadInput
        When the file cannot be read, or a field in it is not valid.
    """
    try:
        found = strict_json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"'{path}' ({error.strerror})", "a file that can be read", "--scenario") from None
    except ValueError as error:
        raise BadInput(f"'{path}' ({error})", "a JSON file", "--scenario") from None
    return parse_scenario(found, str(path))


def parse_scenario(found: Any, file: str) -> Scenario:
    """Check the content of a scenario file, and return the scenario."""
    if not isinstance(found, Mapping):
        raise BadInput(type(found).__name__, f"an object with {', '.join(FIELDS)}", file)
    for name in FIELDS:
        if not isinstance(found.get(name), list):
            raise BadInput("nothing" if name not in found else repr(found[name])[:40], "a list", f"{file}: {name}")
    tree = _tree(found["parent"], file)
    ids = [_op(entry, tree, f"{file}: ops[{n}]") for n, entry in enumerate(found["ops"])]
    if len(set(ids)) != len(ids):
        again = next(op for op in ids if ids.count(op) > 1)
        raise BadInput(f"id {again} twice", "an id per operator", f"{file}: ops")
    ops = found["ops"]
    try:
        graph = Graph.of(
            {o["id"]: o.get("down") for o in ops},
            {o["id"]: [tree.units[leaf] for leaf in o.get("meter_leaves", ())] for o in ops},
        )
    except ValueError as error:
        raise BadInput(str(error), "operators that form chains from meters upward", f"{file}: ops") from None
    where = {o["id"]: tree.units[o["node"]] for o in ops}
    for op, why in graph.misplaced(where, tree).items():
        raise BadInput(f"operator {op}: {why}", "a unit that its readings pass", f"{file}: ops")
    sizes = {o["id"]: float(o["size"]) for o in ops}
    schedule = [_change(c, where, f"{file}: schedule[{n}]") for n, c in enumerate(found["schedule"])]
    schedule.sort(key=lambda change: change[0])
    return Scenario(tree, graph, where, sizes, schedule)


def _tree(parents: list[Any], file: str) -> Tree:
    for number, above in enumerate(parents):
        if above is not None and not (_is_int(above) and 0 <= above < len(parents)):
            raise BadInput(repr(above), f"null or a unit from 0 to {len(parents) - 1}", f"{file}: parent[{number}]")
    try:
        return from_parents(parents)
    except ValueError as error:
        raise BadInput(str(error), "a tree", f"{file}: parent") from None


def _op(entry: Any, tree: Tree, where: str) -> int:
    if not isinstance(entry, Mapping):
        raise BadInput(repr(entry)[:40], "an object", where)
    if not _is_int(entry.get("id")):
        raise BadInput(repr(entry.get("id")), "a whole number", f"{where}.id")
    last = len(tree.units) - 1
    if not (_is_int(entry.get("node")) and 0 <= entry["node"] <= last):
        raise BadInput(repr(entry.get("node")), f"a unit from 0 to {last}", f"{where}.node")
    if not (_is_number(entry.get("size")) and entry["size"] >= 0):
        raise BadInput(repr(entry.get("size")), "a number of at least 0", f"{where}.size")
    if entry.get("down") is not None and not _is_int(entry["down"]):
        raise BadInput(repr(entry["down"]), "null or an operator's id", f"{where}.down")
    leaves = entry.get("meter_leaves", [])
    if not isinstance(leaves, list) or not all(_is_int(leaf) and 0 <= leaf <= last for leaf in leaves):
        raise BadInput(repr(leaves)[:40], f"a list of units from 0 to {last}", f"{where}.meter_leaves")
    for leaf in leaves:
        if tree.children[tree.units[leaf]]:
            raise BadInput(str(leaf), "a unit without children", f"{where}.meter_leaves")
    number: int = entry["id"]
    return number


def _change(entry: Any, ops: Mapping[int, str], where: str) -> Change:
    if not isinstance(entry, list) or len(entry) != 3:
        raise BadInput(repr(entry)[:40], "[time, operator, change]", where)
    at, op, change = entry
    if not (_is_number(at) and at >= 0):
        raise BadInput(repr(at), "a time of at least 0", where)
    if not _is_int(op) or op not in ops:
        raise BadInput(repr(op), "an operator's id", where)
    if not _is_number(change):
        raise BadInput(repr(change), "a number", where)
    return float(at), op, float(change)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
