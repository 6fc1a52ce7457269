"""A family of experiments so small that a test can predict every number."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evenflow.errors import BadInput
from evenflow.experiments.figures import Figure, Series, Table
from evenflow.experiments.registry import Experiment, Row, TraceWriter
from evenflow.experiments.settings import setting


@dataclass(frozen=True)
class Settings:
    nodes: int = setting(4, "nodes at the start", low=1, high=1000)
    skew: float = setting(1.0, "exponent of the load", low=0)
    drift: Literal["jump", "slow"] = "jump"
    verbose: bool = False
    policy: str = "even_counts"
    rounds: int | None = setting(None, "how many rounds", low=1)

    def __post_init__(self) -> None:
        if self.policy == "none" and self.drift == "slow":
            raise BadInput("policy 'none' with drift 'slow'", "a policy that moves", "--set policy")


def double(settings: Settings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    if trace is not None:
        trace({"kind": "note", "at": 0.0, "nodes": settings.nodes})
        trace({"kind": "note", "at": 1.5, "load": np.float64(seed)})
    return {
        "items": np.int64(2 * seed),
        "gap": seed / settings.nodes,
        "floor": None if seed % 2 else 1.0,
        "even": True,
        "policy": settings.policy,
        "loads": np.arange(3),
        "faults": {"loss": seed},
        "thrash_pct": float("nan"),
    }


def fail(settings: Settings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    raise RuntimeError(f"seed {seed} found a bug")


def refuse(settings: Settings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    raise BadInput(f"seed {seed}", "another seed", "toy-refuse")


def slow(settings: Settings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    time.sleep(60)
    return {"items": 1}


def figures(rows: Sequence[Row], settings: Any) -> list[Figure | Table]:
    items = [float(str(row["items"])) for row in rows]
    seeds = [float(str(row["seed"])) for row in rows]
    return [
        Figure(
            "Items <per> seed", "seed", "items", [Series("items", seeds, items), Series("same", seeds, items, "step")]
        ),
        Figure("Bars", "node", "load", [Series("load", ["a", "b"], [1.0, None], "bars")]),
        Table("Policy", ["name"], [[settings.policy]]),
    ]


EXPERIMENTS = (
    Experiment("toy-double", "Doubles the seed.", Settings, double, figures, options=("rounds",)),
    Experiment("toy-fail", "Always fails.", Settings, fail),
    Experiment("toy-refuse", "Always refuses.", Settings, refuse),
    Experiment("toy-slow", "Takes a minute per seed.", Settings, slow),
)
