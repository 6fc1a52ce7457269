"""The planner's input as JSON: read into columns, and refused with the place when something is wrong.

Whole columns are checked at once; only when a check fails is the first offender looked for.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from evenflow import policies, strict_json
from evenflow.draft import Settings
from evenflow.errors import BadInput, nearest
from evenflow.model import ONE_DIMENSION, Snapshot
from evenflow.planner import Policy

MOST_UNITS = 10_000_000
MOST_UNLIKE = 1e300  # beyond this the highest load over the mean is no finite number
KEYS = {
    "": ("nodes", "units", "settings"),
    "nodes": ("id", "capacity"),
    "units": ("id", "node", "load", "pinned", "allowed"),
}
NEEDED = {"": ("nodes", "units"), "nodes": ("id", "capacity"), "units": ("id", "node", "load")}

Record = Mapping[str, Any]

_HALF = re.compile("[\ud800-\udfff]")  # half of a surrogate pair: JSON can write it, UTF-8 cannot


@dataclass(frozen=True, slots=True)
class Request:
    """What a file asks for. ``names`` gives ids back as the file wrote them, where it wrote numbers."""

    snapshot: Snapshot
    settings: Mapping[str, Any]
    names: tuple[Mapping[str, Any], Mapping[str, Any]]

    def node(self, node: str) -> Any:
        """Return a node's id as the file wrote it."""
        return self.names[0].get(node, node)

    def unit(self, unit: str) -> Any:
        """Return a unit's id as the file wrote it."""
        return self.names[1].get(unit, unit)


def read(data: bytes, where: str) -> Request:
    """Read a plan request from the bytes of a JSON file.

    Examples
    --------
    >>> request = read(b'{"nodes": [{"id": "a", "capacity": 1}], "units": [{"id": 7, "node": "a", "load": 2}]}', "x")
    >>> request.snapshot.node_load().tolist(), request.unit("7")
    ([[2.0]], 7)
    >>> read(b'{"nodes": [{"id": "a", "capacity": 0}], "units": []}', "x")
    Traceback (most recent call last):
    evenflow.errors.BadInput: x: nodes[0].capacity: given 0, allowed is a number above 0.
    """
    return _Reader(where).request(_parse(data, where))


def _parse(data: bytes, where: str) -> Record:
    if not data.strip():
        raise BadInput("an empty file", "a JSON object with nodes and units", where)
    if data.count(b'"node"') > MOST_UNITS:  # before parsing, which would take far more memory than the file
        raise BadInput(f"more than {MOST_UNITS} units", f"at most {MOST_UNITS}", f"{where}: units")
    try:
        found = strict_json.loads(data)
    except json.JSONDecodeError as error:
        place = f"{where}: line {error.lineno}, column {error.colno}"
        raise BadInput(f"malformed JSON ({error.msg})", "a JSON object", place) from error
    except UnicodeDecodeError as error:
        raise BadInput(f"a byte that is no UTF-8 at offset {error.start}", "JSON in UTF-8", where) from error
    except (RecursionError, ValueError) as error:
        raise BadInput(f"JSON that cannot be read ({error})", "a JSON object", where) from error
    if not isinstance(found, dict):
        raise BadInput(shown(found), "a JSON object with nodes and units", where)
    return found


class _Reader:
    def __init__(self, where: str) -> None:
        self.where = where

    def request(self, found: Record) -> Request:
        """Check everything and build the columns."""
        self.keys([found], "")
        nodes, units = self.records(found, "nodes"), self.records(found, "units")
        if not nodes:
            self.refuse("no nodes", "at least one node", "nodes")
        if len(units) > MOST_UNITS:
            self.refuse(f"{len(units)} units", f"at most {MOST_UNITS}", "units")
        settings: Any = {} if found.get("settings") is None else found["settings"]
        if not isinstance(settings, dict):
            self.refuse(shown(settings), "an object of settings", "settings")
        node_ids, node_names = self.ids(nodes, "nodes")
        unit_ids, unit_names = self.ids(units, "units")
        rows = {node: row for row, node in enumerate(node_ids)}
        dimensions = self.dimensions(nodes, units)
        snapshot = Snapshot(
            dimensions=dimensions,
            node_ids=node_ids,
            capacity=self.loads(nodes, "nodes", "capacity", dimensions),
            unit_ids=unit_ids,
            owner=self.owners(units, rows),
            load=self.loads(units, "units", "load", dimensions),
            pinned=self.pinned(units),
            allowed=self.allowed(units, rows),
        )
        with np.errstate(over="ignore"):
            if not np.isfinite(snapshot.load.sum(axis=0) / snapshot.capacity.min(axis=0)).all():
                self.refuse("loads whose sum is no finite number", "loads that can be added", "units")
            if not (snapshot.capacity.sum(axis=0) / snapshot.capacity.min(axis=0) < MOST_UNLIKE).all():
                given = "capacities that are too unlike to be compared"
                self.refuse(given, f"{MOST_UNLIKE:g} times the lowest in all", "nodes")
        return Request(snapshot, settings, (node_names, unit_names))

    def refuse(self, given: str, allowed: str, place: str) -> NoReturn:
        """Say what is wrong and where."""
        raise BadInput(given, allowed, f"{self.where}: {place}")

    def first(self, values: Iterable[Any], wrong: Callable[[Any], bool], place: str, key: str, allowed: str) -> None:
        """Refuse the first wrong value of a column."""
        for i, value in enumerate(values):
            if wrong(value):
                self.refuse(shown(value), allowed, f"{place}[{i}].{key}")

    def records(self, found: Record, key: str) -> Sequence[Record]:
        """Return a list of objects, each with the keys it needs and no others."""
        records = found[key]
        if not isinstance(records, list):
            self.refuse(shown(records), "a list of objects", key)
        if set(map(type, records)) - {dict}:
            for i, record in enumerate(records):
                if not isinstance(record, dict):
                    self.refuse(shown(record), "an object", f"{key}[{i}]")
        self.keys(records, key)
        checked: Sequence[Record] = records
        return checked

    def keys(self, records: Sequence[Record], place: str) -> None:
        """Refuse unknown and missing keys; most records have one of a few combinations of keys."""
        kinds = set(map(tuple, records))
        good = {keys for keys in kinds if set(NEEDED[place]) <= set(keys) <= set(KEYS[place])}
        for i, record in enumerate(records if kinds > good else ()):
            if tuple(record) in good:
                continue
            at = f"{place}[{i}]" if place else "the file"
            for key in record:
                if key not in KEYS[place]:
                    self.refuse(f"the key {key!r}", nearest(key, KEYS[place]), at)
            missing = next(key for key in NEEDED[place] if key not in record)
            self.refuse(
                "a unit on no node" if missing == "node" else f"no {missing}", f"an object with {missing!r}", at
            )

    def ids(self, records: Sequence[Record], place: str) -> tuple[list[str], Mapping[str, Any]]:
        """Return ids as text, and the numbers among them by their text."""
        raw = [record["id"] for record in records]
        kinds = set(map(type, raw))
        if kinds - {str, int}:
            self.first(raw, lambda v: type(v) not in (str, int), place, "id", "a text or a whole number")
        texts = raw if kinds <= {str} else [str(v) for v in raw]
        if not all(map(str.isascii, texts)):
            self.first(texts, lambda v: _HALF.search(v) is not None, place, "id", "whole characters")
        if len(set(texts)) < len(texts):
            seen: dict[str, int] = {}
            for i, text in enumerate(texts):
                if text in seen:
                    self.refuse(
                        f"the id {shown(raw[i])} again",
                        f"ids that differ (it is {place}[{seen[text]}]'s)",
                        f"{place}[{i}].id",
                    )
                seen[text] = i
        return texts, {} if kinds <= {str} else {str(v): v for v in raw if not isinstance(v, str)}

    def owners(self, units: Sequence[Record], rows: Mapping[str, int]) -> NDArray[np.int64]:
        """Return the row of every unit's node."""
        raw = [unit["node"] for unit in units]
        found = [rows.get(node) if type(node) is str else self.row(node, rows) for node in raw]
        if None in set(found):
            i = found.index(None)
            given = "a unit on no node" if raw[i] is None else shown(raw[i])
            self.refuse(given, f"the id of a node: {nearest(str(raw[i]), rows)[:200]}", f"units[{i}].node")
        return np.array(found, np.int64)

    @staticmethod
    def row(node: Any, rows: Mapping[str, int]) -> int | None:
        """Return the row of a node that was not named by a text."""
        return rows.get(str(node)) if type(node) is int else None

    def dimensions(self, nodes: Sequence[Record], units: Sequence[Record]) -> tuple[str, ...]:
        """Return the dimensions of the first unit's load; everything else must agree with them."""
        first = units[0]["load"] if units else nodes[0]["capacity"]
        if not isinstance(first, dict):
            return ONE_DIMENSION
        if not first:
            self.refuse("{}", "at least one dimension", "units[0].load" if units else "nodes[0].capacity")
        return tuple(sorted(first))

    def loads(
        self, records: Sequence[Record], place: str, key: str, dimensions: tuple[str, ...]
    ) -> NDArray[np.float64]:
        """Return loads or capacities, one column per dimension."""
        raw = [record[key] for record in records]
        plain = dimensions == ONE_DIMENSION and not (raw and isinstance(raw[0], dict))
        columns = np.empty((len(raw), len(dimensions)))
        if plain or (key == "capacity" and not any(isinstance(v, dict) for v in raw)):
            columns[:] = self.numbers(raw, place, key)[:, None]
            return columns
        wanted = set(dimensions)
        for i, value in enumerate(raw):
            if isinstance(value, dict) and value.keys() == wanted:
                continue
            if key == "capacity" and not isinstance(value, dict):
                raw[i] = dict.fromkeys(dimensions, value)  # a plain capacity stands for every dimension
                continue
            self.refuse(shown(value), f"the dimensions {', '.join(dimensions)}", f"{place}[{i}].{key}")
        for d, name in enumerate(dimensions):
            columns[:, d] = self.numbers([value[name] for value in raw], place, f"{key}.{name}")
        return columns

    def numbers(self, values: list[Any], place: str, key: str) -> NDArray[np.float64]:
        """Return a column of finite numbers: loads of at least 0, capacities above 0."""
        allowed = "a number above 0" if key.startswith("capacity") else "a number of at least 0"
        if set(map(type, values)) - {int, float}:
            self.first(values, lambda v: type(v) not in (int, float), place, key, allowed)
        try:
            column = np.array(values, np.float64)
        except OverflowError:
            column = np.array([float(v) if abs(v) < 1e308 else np.inf for v in values])
        wrong = ~np.isfinite(column) | (column < 0) | ((column == 0) & key.startswith("capacity"))
        if wrong.any():
            i = int(wrong.argmax())
            self.refuse(shown(values[i]), allowed, f"{place}[{i}].{key}")
        return column

    def pinned(self, units: Sequence[Record]) -> NDArray[np.bool_]:
        """Return which units must stay."""
        values = [unit.get("pinned", False) for unit in units]
        if set(map(type, values)) - {bool}:
            self.first(values, lambda v: type(v) is not bool, "units", "pinned", "true or false")
        return np.array(values, np.bool_)

    def allowed(self, units: Sequence[Record], rows: Mapping[str, int]) -> dict[int, NDArray[np.int64]]:
        """Return the node rows that units may run on; units with the same nodes share one column."""
        found: dict[int, NDArray[np.int64]] = {}
        shared: dict[tuple[Any, ...], NDArray[np.int64]] = {}
        for i, unit in enumerate(units):
            nodes = unit.get("allowed")
            if nodes is None:
                continue
            if not isinstance(nodes, list) or not nodes:
                self.refuse(shown(nodes), "a list of at least one node", f"units[{i}].allowed")
            key = tuple(map(str, nodes))
            if key not in shared or set(map(type, nodes)) - {str, int}:  # 1.0 and true are no ids, however they look
                chosen = [rows.get(node) if type(node) is str else self.row(node, rows) for node in nodes]
                if None in chosen:
                    j = chosen.index(None)
                    near = nearest(str(nodes[j]), rows)[:200]
                    self.refuse(shown(nodes[j]), f"the id of a node: {near}", f"units[{i}].allowed[{j}]")
                shared[key] = np.unique(np.array(chosen, np.int64))
            found[i] = shared[key]
        return found


def choose(request: Request, policy: str, where: str) -> tuple[Policy, Settings]:
    """Return the policy with its settings, and the planner's, from the settings of a file.

    Examples
    --------
    >>> file = b'{"nodes": [{"id": "a", "capacity": 1}], "units": [], "settings": {"target": 0, "churn": 0.1}}'
    >>> choose(read(file, "x"), "least_moves", "x")
    (LeastMoves(ceiling=0.0075, target=0, gain=0.0, effort=2000000), Settings(limit=None, churn=0.1, cooling=frozenset(), gap=0.01))
    """
    own = {field.name for field in dataclasses.fields(Settings)}
    theirs = policies.settings_of(policies.kind_of(policy))
    for key in request.settings:
        if key not in own and theirs is not None and key not in theirs:
            raise BadInput(f"the setting {key!r}", nearest(key, own | theirs), f"{where}: settings")
        value = request.settings[key]
        if type(value) is int and abs(value) > sys.float_info.max:
            raise BadInput(shown(value), "a number that a float can hold", f"{where}: settings: {key}")
    planner = {key: value for key, value in request.settings.items() if key in own}
    rest = {key: value for key, value in request.settings.items() if key not in own}
    try:
        return policies.named(policy, **rest), _planner_settings(request, planner)
    except BadInput as refusal:
        raise BadInput(refusal.given, refusal.allowed, f"{where}: settings: {refusal.where}") from refusal


def _planner_settings(request: Request, values: Mapping[str, Any]) -> Settings:
    """Check the planner's own settings."""
    for key in ("churn", "gap"):
        if values.get(key) is not None and not _is_number(values[key], 0.0):
            raise BadInput(shown(values[key]), "a number of at least 0", key)
    limit = values.get("limit")
    if limit is not None:
        parts = limit if isinstance(limit, dict) else {None: limit}
        for name, value in parts.items():
            if name is not None and name not in request.snapshot.dimensions:
                raise BadInput(f"the dimension {name!r}", nearest(name, request.snapshot.dimensions), "limit")
            if not _is_number(value, 0.0) or not value:
                raise BadInput(shown(value), "a number above 0, or one for each dimension", "limit")
    cooling: Any = [] if values.get("cooling") is None else values["cooling"]
    if not isinstance(cooling, list):
        raise BadInput(shown(cooling), "a list of unit ids", "cooling")
    known = set(request.snapshot.unit_ids) if cooling else set()
    for unit in cooling:
        if str(unit) not in known:
            raise BadInput(shown(unit), "the id of a unit", "cooling")
    default = Settings()
    gap = default.gap if values.get("gap") is None else float(values["gap"])
    return Settings(limit, values.get("churn"), frozenset(map(str, cooling)), gap)


def _is_number(value: Any, least: float) -> bool:
    return type(value) in (int, float) and least <= value <= sys.float_info.max


def shown(value: Any) -> str:
    """Show a value in a message as JSON writes it, shortened.

    Examples
    --------
    >>> shown(float("nan")), shown("x" * 100)[-5:]
    ('NaN', 'xxxx…')
    """
    text = json.dumps(value, ensure_ascii=False)
    text = json.dumps(value) if _HALF.search(text) else text
    return text if len(text) <= 60 else text[:59] + "…"
