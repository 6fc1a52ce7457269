"""Rounds of chaos for the planner alone: nodes come and go, loads are drawn anew, one slice may carry half of it all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from evenflow import imbalance
from evenflow.errors import BadInput
from evenflow.experiments.figures import SERIES
from evenflow.experiments.registry import Experiment, TraceWriter
from evenflow.experiments.settings import setting
from evenflow.experiments.slices.figures import quantiles, rounds_figures
from evenflow.model import ONE_DIMENSION, Snapshot
from evenflow.planner import plan
from evenflow.policies import named


@dataclass(frozen=True)
class RoundsSettings:
    """What `slices-rounds` can be told; the defaults are those of Dicer's published chaos test."""

    rounds: int = setting(1000, "rounds", low=1, high=1_000_000)
    nodes: int = setting(8, "nodes at most", low=2, high=1000)
    fewest: int = setting(6, "nodes at least", low=1, high=1000)
    slices: int = setting(128, "slices", low=1, high=100_000)
    load: float = setting(1.2, "highest total load over total capacity; each round draws from 0 up to it", low=0.0)
    hot: float = setting(0.5, "chance that one slice carries half of all load", low=0.0, high=1.0)
    noise: float = setting(0.005, "relative error of what the policy is shown of a slice's load", low=0.0, high=1.0)
    policy: str = setting("least_moves", "even_counts, load_classes, least_moves, or module:Class of your own")

    def __post_init__(self) -> None:
        named(self.policy)  # an unknown policy is refused before anything is written
        if self.fewest > self.nodes:
            raise BadInput(f"fewest {self.fewest} and nodes {self.nodes}", "fewest <= nodes", "--set fewest")


def run(settings: RoundsSettings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    """Plan round after round from where the last one ended; judge by true loads against what the floor allows."""
    chance = np.random.default_rng([seed, 128])
    policy = named(settings.policy)
    owner = chance.integers(0, settings.nodes, settings.slices)
    gaps, moved, needed = [], 0.0, 0.0
    moves = 0
    for number in range(settings.rounds):
        alive = np.sort(chance.permutation(settings.nodes)[: chance.integers(settings.fewest, settings.nodes + 1)])
        load = _loads(settings, len(alive), chance)
        owner = _adopted(owner, alive, load)
        shown = load * np.maximum(0.0, 1.0 + settings.noise * chance.standard_normal(len(load)))
        view = _snapshot(owner, alive, shown)
        result = plan(view, policy)
        rows = {name: row for row, name in enumerate(view.node_ids)}
        for move in result.moves:
            owner[int(move.unit)] = alive[rows[move.taker]]
        truth = _snapshot(owner, alive, load)
        gap = imbalance.gap(imbalance.peak(truth.node_load(), truth.capacity), imbalance.lower_bound(truth).value)
        gaps.append(100.0 * gap)
        moves += len(result.moves)
        moved += result.moved_load
        needed += result.needed_load
        if trace is not None:
            trace({"kind": "plan", "at": number, "moves": len(result.moves), "gap": gap, "nodes": len(alive)})
    return {
        "rounds": settings.rounds,
        "moves": moves,
        "imbalance_p50_pct": float(np.percentile(gaps, 50)),
        "imbalance_p95_pct": float(np.percentile(gaps, 95)),
        "imbalance_max_pct": float(np.max(gaps)),
        "moved_over_needed": moved / needed if needed else None,
        SERIES: {"above_pct": quantiles(gaps)},
    }


def _loads(settings: RoundsSettings, nodes: int, chance: np.random.Generator) -> np.ndarray:
    load = chance.exponential(1.0, settings.slices)
    if chance.random() < settings.hot:
        hot = chance.integers(settings.slices)
        load[hot] = load.sum() - load[hot]
    drawn: np.ndarray = load * (settings.load * chance.random() * nodes / load.sum())
    return drawn


def _adopted(owner: np.ndarray, alive: np.ndarray, load: np.ndarray) -> np.ndarray:
    """Give the slices of nodes that are gone to the emptiest of the others, heaviest first: somebody must have them."""
    owner = owner.copy()
    level = np.bincount(owner, weights=load, minlength=int(max(owner.max(), alive.max())) + 1)
    orphans = np.flatnonzero(~np.isin(owner, alive))
    for s in orphans[np.argsort(-load[orphans], kind="stable")]:
        taker = alive[np.argmin(level[alive])]
        owner[s] = taker
        level[taker] += load[s]
    return owner


def _snapshot(owner: np.ndarray, alive: np.ndarray, load: np.ndarray) -> Snapshot:
    return Snapshot(
        dimensions=ONE_DIMENSION,
        node_ids=[f"node-{n}" for n in alive.tolist()],
        capacity=np.ones((len(alive), 1)),
        unit_ids=[str(s) for s in range(len(load))],
        owner=np.searchsorted(alive, owner),
        load=load.reshape(-1, 1),
        pinned=np.zeros(len(load), np.bool_),
    )


ROUNDS = Experiment(
    "slices-rounds",
    "nodes come and go, loads are drawn anew, a hot slice may appear; how even is each plan.",
    RoundsSettings,
    run,
    rounds_figures,
    options=("rounds",),
)
