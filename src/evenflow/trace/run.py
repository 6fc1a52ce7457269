"""A run, rebuilt from its trace: the nodes and their loads, who owned what when, the sessions, the refusals."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenflow.errors import BadInput
from evenflow.trace.lines import read

ENDS = frozenset({"done", "rolled back"})
"""The steps that end a session."""

_LEFT = frozenset({"let go", "left"})
_KEPT = {"plan": "plans", "move": "moves", "fault": "faults", "note": "notes", "request": "notes"}


class Step(NamedTuple):
    """A session entered a step."""

    step: str
    at: float
    why: str = ""


@dataclass(slots=True)
class SessionHistory:
    """One session: who gave what to whom, step by step."""

    id: str
    giver: str
    taker: str
    units: tuple[str, ...]
    steps: list[Step] = field(default_factory=list)
    expects: dict[str, float] = field(default_factory=dict)  # node to its load afterwards, as planned
    effects: dict[str, float] = field(default_factory=dict)  # node to its load once it had settled
    what: str = ""  # the units in words, where they are not named

    @property
    def began(self) -> float:
        """When it entered its first step."""
        return self.steps[0].at

    @property
    def ended(self) -> float | None:
        """When it ended, or ``None`` while it goes on."""
        return self.steps[-1].at if self.steps[-1].step in ENDS else None

    @property
    def outcome(self) -> str | None:
        """``done``, ``rolled back``, or ``None`` while it goes on."""
        return self.steps[-1].step if self.steps[-1].step in ENDS else None

    def phase_seconds(self) -> dict[str, float]:
        """Return how long it stayed in each step; the step it is still in has no time yet."""
        seconds: dict[str, float] = {}
        for step, following in pairwise(self.steps):
            seconds[step.step] = seconds.get(step.step, 0.0) + following.at - step.at
        return seconds


@dataclass(slots=True)
class NodeHistory:
    """One node: when it was there, and every sample of it."""

    name: str
    joined: float
    left: float | None = None
    capacity: float = 1.0
    parent: str | None = None
    cluster: str | None = None
    head: bool = False
    sampled_at: list[float] = field(default_factory=list)
    samples: list[Mapping[str, Any]] = field(default_factory=list)

    def series(self, name: str = "load") -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the times and values of one measured property."""
        found = [(at, s[name]) for at, s in zip(self.sampled_at, self.samples, strict=True) if name in s]
        columns = np.array(found, np.float64).reshape(len(found), 2)
        return columns[:, 0], columns[:, 1]


@dataclass(slots=True)
class OwnerHistory:
    """Who owned one unit from when on; ``None`` while it belonged to nobody."""

    at: list[float] = field(default_factory=list)
    nodes: list[str | None] = field(default_factory=list)

    def add(self, at: float, node: str | None) -> None:
        """Note an owner; the same one again is no change. The order of the records counts, not their clocks."""
        if not self.nodes or self.nodes[-1] != node:
            self.at.append(max(at, self.at[-1]) if self.at else at)
            self.nodes.append(node)

    def owner(self, at: float = float("inf")) -> str | None:
        """Return the owner at a time."""
        index = bisect_right(self.at, at)
        return self.nodes[index - 1] if index else None


@dataclass(slots=True)
class Run:
    """What happened in a run, a fold over its records.

    Owners come from what the nodes themselves noted (``owner``); of units without such records, from the balancer's
    view: a session that is done or rolled back, a move. Units and sessions are known by their ids as strings.

    Examples
    --------
    >>> run = Run.of([
    ...     {"kind": "sample", "at": 0.0, "node": "a", "load": 0.9},
    ...     {"kind": "move", "at": 0.0, "unit": 7, "giver": None, "taker": "a"},
    ...     {"kind": "session", "at": 1.0, "session": 1, "step": "ship", "giver": "a", "taker": "b", "slices": [7]},
    ...     {"kind": "session", "at": 1.5, "session": 1, "step": "done", "giver": "a", "taker": "b", "slices": [7]},
    ...     {"kind": "refusal", "at": 2.0, "name": "pinned", "why": "unit 3 is pinned"},
    ... ])
    >>> run.owners_at(1.2), run.owners_at(2)
    ({'7': 'a'}, {'7': 'b'})
    >>> run.sessions["1"].phase_seconds(), run.refusals["pinned"], list(run.nodes)
    ({'ship': 0.5}, 1, ['a', 'b'])
    """

    nodes: dict[str, NodeHistory] = field(default_factory=dict)
    owners: dict[str, OwnerHistory] = field(default_factory=dict)
    sessions: dict[str, SessionHistory] = field(default_factory=dict)
    refusals: Counter[str] = field(default_factory=Counter)
    moves: list[Mapping[str, Any]] = field(default_factory=list)
    plans: list[Mapping[str, Any]] = field(default_factory=list)
    faults: list[Mapping[str, Any]] = field(default_factory=list)
    notes: list[Mapping[str, Any]] = field(default_factory=list)  # notes and requests
    counts: Counter[str] = field(default_factory=Counter)  # records by kind, of every kind
    began: float | None = None
    ended: float | None = None
    torn: str | None = None  # the sentence about a torn last line
    _told: set[str] = field(default_factory=set, repr=False)  # units whose nodes note owners themselves

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> Run:
        """Rebuild a run from its records."""
        run = cls()
        for record in records:
            run.add(record)
        return run

    @classmethod
    def read(cls, path: str | os.PathLike[str], seed: int | None = None) -> Run:
        """Rebuild a run from its file; of a file with the runs of several seeds, the one of ``seed``."""
        run, seeds = cls(), set()

        def on_torn(sentence: str) -> None:
            run.torn = sentence

        for record in read(path, on_torn):
            seeds.add(record.get("seed"))
            if seed is None and len(seeds) > 1:
                raise BadInput("runs of several seeds", "one run, or the seed of the one to read", os.fspath(path))
            if seed is None or record.get("seed") == seed:
                run.add(record)
        if seed is not None and seed not in seeds:
            given = ", ".join(sorted(str(s) for s in seeds if s is not None)) or "no seeds"
            raise BadInput(f"seed {seed}", f"a seed of this file: {given}", os.fspath(path))
        return run

    def add(self, record: Mapping[str, Any]) -> None:
        """Take in one more record; of kinds without a meaning here, only the count."""
        kind, at = record["kind"], float(record["at"])
        self.counts[kind] += 1
        self.began = at if self.began is None else min(self.began, at)
        self.ended = at if self.ended is None else max(self.ended, at)
        kept = _KEPT.get(kind)
        if kept is not None:
            getattr(self, kept).append(record)
        fold = getattr(self, f"_fold_{kind}", None)
        if fold is not None:
            fold(record, at)

    def owners_at(self, at: float = float("inf")) -> dict[str, str]:
        """Return unit to owner at a time, without the units that belong to nobody then."""
        owners = ((unit, history.owner(at)) for unit, history in self.owners.items())
        return {unit: node for unit, node in owners if node is not None}

    def nodes_at(self, at: float = float("inf")) -> list[str]:
        """Return the nodes that are there at a time, in order of their first appearance."""
        return [n.name for n in self.nodes.values() if n.joined <= at and (n.left is None or at < n.left)]

    # -- one fold per kind ----------------------------------------------------------------------

    def _node(self, name: str, at: float) -> NodeHistory:
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = NodeHistory(name, at)
        return node

    def _fold_sample(self, record: Mapping[str, Any], at: float) -> None:
        node = self._node(record["node"], at)
        node.sampled_at.append(at)
        node.samples.append(record)

    def _fold_node(self, record: Mapping[str, Any], at: float) -> None:
        node = self._node(record["node"], at)
        node.capacity = record.get("capacity", node.capacity)
        node.parent = record.get("parent", node.parent)
        node.cluster = record.get("cluster", node.cluster)
        node.head = record.get("head", node.head)
        if record["step"] == "joined":
            node.left = None  # it may come back
        elif record["step"] in _LEFT and node.left is None:
            node.left = at

    def _fold_owner(self, record: Mapping[str, Any], at: float) -> None:
        unit = str(record["unit"] if "unit" in record else record["slice"])
        self._node(record["node"], at)
        if unit not in self._told:
            self._told.add(unit)
            self.owners[unit] = OwnerHistory()  # what the balancer thought before counts no more
        history = self.owners[unit]
        if record["owns"]:
            history.add(at, record["node"])
        elif history.owner() == record["node"]:
            history.add(at, None)

    def _view(self, unit: str, at: float, node: str) -> None:
        if unit not in self._told:
            self.owners.setdefault(unit, OwnerHistory()).add(at, node)

    def _fold_move(self, record: Mapping[str, Any], at: float) -> None:
        for name in (record["giver"], record["taker"]):
            if name:
                self._node(name, at)
        if "unit" in record:
            self._view(str(record["unit"]), at, record["taker"])

    def _fold_session(self, record: Mapping[str, Any], at: float) -> None:
        key, giver, taker, step = str(record["session"]), record["giver"], record["taker"], record["step"]
        for name in (giver, taker):
            if name:  # the first node is granted its units by nobody
                self._node(name, at)
        session = self.sessions.get(key)
        if session is None:
            units = record["units"] if "units" in record else record.get("slices", ())
            session = self.sessions[key] = SessionHistory(key, giver, taker, tuple(str(u) for u in units))
            session.what = record.get("what", "")
        session.steps.append(Step(step, at, record.get("why", "")))
        session.expects.update(record.get("expects", {}))
        if step in ENDS:
            for unit in session.units:
                self._view(unit, at, taker if step == "done" else giver)

    def _fold_effect(self, record: Mapping[str, Any], _: float) -> None:
        session = self.sessions.get(str(record["session"]))
        if session is not None:
            session.effects[record["node"]] = float(record["load"])

    def _fold_refusal(self, record: Mapping[str, Any], _: float) -> None:
        self.refusals[record.get("name") or record["why"]] += 1
