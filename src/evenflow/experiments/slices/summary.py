"""What a run of slices came to: how even the nodes were, what the floor allowed, how much moved in vain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from typing import Any, NamedTuple

from evenflow.invariants import SliceCheck

EVEN = 1.05  # a state counts as even when max/mean is at most this,
AT_FLOOR = 1.02  # or this many times what one hot slice allows


class Stay(NamedTuple):
    """A node's capacity, and from when to when it was there."""

    capacity: float
    joined: float
    left: float = float("inf")

    def at(self, time: float) -> bool:
        """Say whether it was there at a time."""
        return self.joined < time <= self.left


@dataclass(slots=True)
class Summary:
    """Reads the trace of a run and computes the fields that the experiments report.

    Parameters
    ----------
    window_s
        Work is summed over windows of this length before nodes are compared.
    phases
        Times at which the world changed: moving a slice in one phase and again in the next is no thrash.
    """

    window_s: float = 10.0
    phases: Sequence[float] = ()
    check: SliceCheck = field(default_factory=SliceCheck)
    capacity: dict[str, float] = field(default_factory=dict)
    owner: dict[int, str] = field(default_factory=dict)
    node_work: dict[int, Counter[str]] = field(default_factory=dict)  # window → node → items
    slice_work: dict[int, Counter[int]] = field(default_factory=dict)
    moved: list[tuple[float, int, str, str]] = field(default_factory=list)  # at, slice, giver, taker
    stays: dict[str, Stay] = field(default_factory=dict)

    def read(self, record: Mapping[str, Any]) -> None:
        """Take one record."""
        self.check.read(record)
        kind = record["kind"]
        if kind == "commit":
            window = int(record["at"] // self.window_s)
            slices = self.slice_work.setdefault(window, Counter())
            done = 0
            for s, ids in record["slices"].items():
                slices[s] += len(ids)
                done += len(ids)
            self.node_work.setdefault(window, Counter())[record["node"]] += done
        elif kind == "owner" and record["owns"]:
            self.owner[record["slice"]] = record["node"]
        elif kind == "node" and record["step"] == "joined":
            self.capacity[record["node"]] = record["capacity"]
            self.stays[record["node"]] = Stay(record["capacity"], record["at"])
        elif kind == "node" and record["step"] == "let go":
            del self.capacity[record["node"]]
            self.stays[record["node"]] = self.stays[record["node"]]._replace(left=record["at"])
        elif kind == "session" and record["step"] == "done" and record["giver"]:
            self.moved += [(record["at"], s, record["giver"], record["taker"]) for s in record["slices"]]

    def imbalance(self, rates: Sequence[float]) -> tuple[float, float]:
        """Return max/mean of load over capacity for true rates of slices under the present owners, and its floor."""
        load = dict.fromkeys(self.capacity, 0.0)
        for s, node in self.owner.items():
            if node in load:
                load[node] += rates[s]
        return _ratio(load, self.capacity, max(rates))

    def findings(self, end: float) -> dict[str, Any]:
        """Return the fields of one row; evenness is judged over the last fifth of the run."""
        start = 0.8 * end
        last = int(end / self.window_s)
        first = min(int(start / self.window_s + 0.999), last - 1)  # a fifth of a short run holds no whole window
        ratios, floors = [], []
        for window in range(first, last):
            ratio, floor = self.evenness(window, self.capacity)
            ratios.append(ratio)
            floors.append(floor)
        mean_ratio = fmean(ratios) if ratios else None
        mean_floor = fmean(floors) if floors else None
        return {
            **self.check.findings(),
            "steady_moves": sum(at >= start for at, *_ in self.moved),
            "max_over_mean": mean_ratio,
            "floor": mean_floor,
            "gap": None if mean_ratio is None or mean_floor is None else mean_ratio / mean_floor - 1.0,
            "thrash_pct": self.thrash_pct(),
        }

    def evenness(self, window: int, capacity: Mapping[str, float] | None = None) -> tuple[float, float]:
        """Return max/mean of the work done in a window over capacity, and its floor; of the nodes of that time."""
        end = (window + 1) * self.window_s
        present = capacity if capacity is not None else {n: s.capacity for n, s in self.stays.items() if s.at(end)}
        work = {n: float(self.node_work.get(window, Counter())[n]) for n in present}
        hottest = float(max(self.slice_work.get(window, Counter()).values(), default=0))
        return _ratio(work, present, hottest)

    def load_pct(self, node: str, window: int) -> float | None:
        """Return the work a node did in a window, in per cent of its capacity; nothing if it was not there."""
        stay = self.stays[node]
        if not stay.at((window + 1) * self.window_s):
            return None
        return 100.0 * self.node_work.get(window, Counter())[node] / (self.window_s * stay.capacity)

    def thrash_pct(self) -> float:
        """Return the share of moves that were undone or redone within one phase of the world, in per cent."""
        total = vain = 0
        bounds = [0.0, *self.phases, float("inf")]
        for begin, end in pairwise(bounds):
            origin: dict[int, str] = {}
            now: dict[int, str] = {}
            count = 0
            for at, s, giver, taker in self.moved:
                if begin <= at < end:
                    origin.setdefault(s, giver)
                    now[s] = taker
                    count += 1
            needed = sum(now[s] != origin[s] for s in now)
            total += count
            vain += count - needed
        return 100.0 * vain / total if total else 0.0


def _ratio(load: Mapping[str, float], capacity: Mapping[str, float], hottest: float) -> tuple[float, float]:
    mean = sum(load.values()) / sum(capacity.values()) if capacity else 0.0
    if mean <= 0:
        return 1.0, 1.0
    peak = max(load[n] / capacity[n] for n in load)
    return peak / mean, max(1.0, hottest / max(capacity.values()) / mean)


def is_even(ratio: float, floor: float) -> bool:
    """Say whether a state is as even as it can reasonably be."""
    return ratio <= max(EVEN if floor <= 1.0 else 0.0, AT_FLOOR * floor)
