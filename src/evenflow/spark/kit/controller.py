"""The control loop: compute loads from samples, let a policy propose moves, and request only moves that pay off.

The loop runs between two batches in the control source's process, so it sees each batch once and needs no lock.
Everything it must remember is in the control log or in the samples, so it continues unchanged after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from evenflow import imbalance, policies
from evenflow.draft import Settings
from evenflow.measure import Condition, ConditionTimer, Smoothed, SmoothedRows, TrendedRows
from evenflow.model import ONE_DIMENSION, Plan, Snapshot
from evenflow.planner import plan
from evenflow.spark.kit.orders import Wanted
from evenflow.spark.kit.routes import Routes
from evenflow.spark.kit.samples import Sample

SHIP_BYTES_PER_S: Final = 50e6  # the giver writes the state and the taker reads it, on a modest disk
MOVE_S: Final = 0.005  # fixed cost of one move (orders and turns), in addition to its bytes
ETA_BATCHES: Final = 2  # one batch for the release, one for the install
AHEAD: Final = 1.5  # a move takes effect in the batch after the next, or in the next one if the stream pauses
COST_MEMORY: Final = 0.1  # weight of the newest batch in the cost per row, which is noisy and rarely changes


@dataclass(frozen=True, slots=True)
class Balancing:
    """Settings that decide when slices move.

    Parameters
    ----------
    policy
        A name of :mod:`evenflow.policies`, or ``module:Class``; ``""`` leaves every slice where it is.
    policies
        Your own policies, as ``module:Class``, that an operator may switch to while the query runs.
        Requests come from outside the program, so they cannot name any other class.
    load
        The load to balance: ``cpu`` seconds, ``wall`` seconds or ``rows``; ``auto`` uses CPU unless slices mostly wait.
    alpha, trend
        Weight of the newest batch in the smoothed row count of a slice, and of the newest change in its trend.
    tolerance
        Act only if the busiest lane is more than this fraction above the lower bound; smaller differences are noise.
    every
        Batches with rows between two plans, and before the first one.
    keep_up
        Do nothing while the busiest lane is busy for less than this share of the time.
    horizon
        Batches within which a plan must pay for itself.
    rest
        Batches for which a slice stays where it is after a move.
    when
        An additional condition over ``busy``, ``gap``, ``max_over_mean``, ``rows`` and ``peak_s``, see
        :class:`evenflow.measure.Condition`. It must hold for ``for_s`` seconds.
    dry_run
        Plan and record, but move nothing.
    hold
        Number of batches by which installs are delayed, so that tests can see rows wait.
    run
        Directory for ``run.json`` and ``trace.jsonl``; by default inside the checkpoint, if it is on this machine.
    """

    policy: str = "least_moves"
    policies: tuple[str, ...] = ()
    load: Literal["auto", "cpu", "wall", "rows"] = "auto"
    alpha: float = 0.4
    trend: float = 0.2
    tolerance: float = 0.07
    every: int = 2
    keep_up: float = 0.3
    horizon: int = 30
    rest: int = 5
    when: str = ""
    for_s: float = 0.0
    dry_run: bool = False
    hold: int = 0
    run: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "policies", tuple(self.policies))  # JSON has lists
        for name in (*self.policies, *([self.policy] if self.policy else [])):
            policies.kind_of(name)
        if self.when:
            Condition(self.when, self.for_s)

    @property
    def switchable(self) -> frozenset[str]:
        """Names of the policies that an operator may switch to while the query runs."""
        return frozenset({*policies.NAMES, *self.policies, self.policy} - {""})

    def plain(self) -> dict[str, Any]:
        """Return the settings as a dictionary that JSON can hold."""
        return asdict(self)


@dataclass(slots=True)
class Loads:
    """The expected load of every slice: its expected rows times its cost per row.

    Row counts are exact, so changes count at once. Costs are noisy timings, so they are averaged over many batches.
    """

    slices: int
    alpha: float
    trend: float = 0.0
    rows: TrendedRows = field(init=False)
    means: dict[str, SmoothedRows] = field(init=False)  # per batch: rows, CPU seconds and wall seconds
    state_bytes: NDArray[np.float64] = field(init=False)
    period: Smoothed = field(init=False)
    batches: int = 0
    _last: float | None = None

    def __post_init__(self) -> None:
        self.rows = TrendedRows(self.alpha, self.trend, self.slices)
        self.means = {name: SmoothedRows(COST_MEMORY, self.slices) for name in ("rows", "cpu", "wall")}
        self.state_bytes = np.zeros(self.slices)
        self.period = Smoothed(self.alpha)

    def take(self, samples: Sequence[Sample]) -> bool:
        """Add the samples of one batch; return whether it had rows."""
        if not sum(sample.rows for sample in samples):
            return False
        new = {name: np.zeros(self.slices) for name in self.means}
        for sample in samples:
            for s, cost in sample.slices.items():
                new["cpu"][s] += cost.cpu_s
                new["wall"][s] += cost.wall_s
                new["rows"][s] += cost.rows
                self.state_bytes[s] = cost.state_bytes or self.state_bytes[s]
        self.batches += 1
        self.rows.update(new["rows"])
        for name, mean in self.means.items():
            mean.alpha = max(COST_MEMORY, 1.0 / self.batches)  # a plain average over the first batches
            mean.update(new[name])
        at = max(sample.at for sample in samples)
        if self._last is not None:
            self.period.update(max(at - self._last, 1e-9))
        self._last = at
        return True

    def of(self, what: str) -> NDArray[np.float64]:
        """Return the load of every slice."""
        rows = self.rows.ahead(AHEAD)
        mean = {name: np.nan_to_num(mean.values) for name, mean in self.means.items()}
        if what == "auto":
            what = "cpu" if mean["cpu"].sum() >= 0.5 * mean["wall"].sum() else "wall"
        return rows if what == "rows" else rows * mean[what] / np.maximum(mean["rows"], 1e-9)


class Control:
    """The controller: decides after each batch which slices move."""

    def __init__(self, slices: int, balancing: Balancing) -> None:
        self.balancing = balancing
        self.loads = Loads(slices, balancing.alpha, balancing.trend)
        self._moved_at: dict[int, int] = {}  # slice → number of batches with rows at its last move
        self._planned_at = 0
        self._held = ConditionTimer(Condition(balancing.when, balancing.for_s)) if balancing.when else None
        self._said = ""
        self._unknown: set[str] = set()  # requested policies that this program does not know
        self._cold = True

    def observe(self, samples: Sequence[Sample]) -> None:
        """Add the samples of any number of batches, in order."""
        by_batch: dict[int, list[Sample]] = {}
        for sample in samples:
            by_batch.setdefault(sample.batch, []).append(sample)
        for batch in sorted(by_batch):
            if self._cold:  # new workers spend their first batch on imports
                self._cold = not sum(sample.rows for sample in by_batch[batch])
            else:
                self.loads.take(by_batch[batch])

    def decide(self, routes: Routes, now: float) -> tuple[list[Wanted], list[dict[str, Any]]]:
        """Return the moves to request, and trace records that explain the decision."""
        wanted = self._ordered(routes)
        if wanted:
            return wanted, []
        policy, told = self._policy(routes, now)
        if not policy or routes.settings.get("paused") or self.loads.batches < self._planned_at + self.balancing.every:
            return [], told
        snapshot = self._snapshot(routes)
        refused = self._refused(snapshot, routes, now)
        if refused is not None:
            return [], told + self._say(refused, now)
        resting = {s for s, at in self._moved_at.items() if self.loads.batches < at + self.balancing.rest}
        made = plan(snapshot, policies.named(policy), Settings(cooling=frozenset(map(str, resting))))
        self._planned_at = self.loads.batches
        wanted, records = self._judged(made, policy, now)
        return wanted, told + records

    def _policy(self, routes: Routes, now: float) -> tuple[str, list[dict[str, Any]]]:
        """Return the policy that an operator requested, or the program's own if the program does not know that one.

        The log may name a class that another version of the program used, or that someone else wrote there.
        Importing it would run code that this program did not choose.
        """
        asked = str(routes.settings.get("policy", self.balancing.policy))
        if asked in self.balancing.switchable or asked == self.balancing.policy:
            return asked, []
        own = self.balancing.policy
        if asked in self._unknown:
            return own, []
        self._unknown.add(asked)
        why = f"the policy {asked!r} is not in Balancing(policies=…) of this program; {own!r} decides"
        return own, [{"kind": "refusal", "at": now, "why": why, "name": why}]

    def _ordered(self, routes: Routes) -> list[Wanted]:
        """Return the moves that an operator's requests need: pinned slices go to their lanes, resting lanes are drained."""
        moving = routes.moving()
        wanted = [
            (s, lane, "pinned")
            for s, lane in sorted(routes.pinned.items())
            if routes.lane[s] != lane and s not in moving
        ]
        level = np.zeros(routes.lanes)
        load = self.loads.of(self.balancing.load) + 1e-9  # never zero, so that slices without load are spread too
        np.add.at(level, routes.lane, load)
        usable = [lane for lane in range(routes.lanes) if lane not in routes.resting]
        leaving = [
            s
            for s in range(routes.slices)
            if routes.lane[s] in routes.resting and s not in moving and s not in routes.pinned
        ]
        for s in sorted(leaving, key=lambda s: (-load[s], s)) if usable else []:
            taker = min(usable, key=lambda lane: (level[lane], lane))
            level[taker] += load[s]
            wanted.append((s, taker, f"lane {routes.lane[s]} is drained"))
        return wanted

    def _snapshot(self, routes: Routes) -> Snapshot:
        usable = [lane for lane in range(routes.lanes) if lane not in routes.resting]
        row = {lane: i for i, lane in enumerate(usable)}
        here = [s for s in range(routes.slices) if routes.lane[s] in row]
        units = {s: i for i, s in enumerate(here)}
        load = self.loads.of(self.balancing.load)
        return Snapshot(
            dimensions=ONE_DIMENSION,
            node_ids=[str(lane) for lane in usable],
            capacity=np.ones((len(usable), 1)),
            unit_ids=[str(s) for s in here],
            owner=np.array([row[routes.lane[s]] for s in here], np.int64),
            load=load[here].reshape(len(here), 1),
            pinned=np.array([s in routes.pinned for s in here], np.bool_),
            leaving={units[s]: row[m.giver] for s, m in routes.moving().items() if s in units and m.giver in row},
        )

    def _refused(self, snapshot: Snapshot, routes: Routes, now: float) -> str | None:
        """Return the reason why no plan is needed, or ``None`` if one is."""
        if len(snapshot.node_ids) < 2:
            return "one lane is in use"
        load = snapshot.node_load()
        highest = imbalance.peak(load, snapshot.capacity)
        gap = imbalance.gap(highest, imbalance.lower_bound(snapshot).value)
        wall = np.zeros(routes.lanes)
        np.add.at(wall, routes.lane, self.loads.of("wall"))
        busy = float(wall.max()) / self.loads.period.value if self.loads.period.value > 0 else 1.0
        if self._held is not None:
            values = {
                "busy": busy,
                "gap": gap,
                "max_over_mean": imbalance.max_over_mean(load, snapshot.capacity),
                "rows": float(self.loads.of("rows").sum()),
                "peak_s": highest,
            }
            self._held.observe(values, now)
            if not self._held.notified:
                return f"condition '{self.balancing.when}' does not hold"
        if busy < self.balancing.keep_up:
            return "every lane keeps up"
        return "even enough" if gap <= self.balancing.tolerance else None

    def _judged(self, made: Plan, policy: str, now: float) -> tuple[list[Wanted], list[dict[str, Any]]]:
        """Return the moves of a plan, or none if its gain within the horizon does not exceed its cost."""
        moved = [int(move.unit) for move in made.moves]
        gain_s = made.peak[0] - made.peak[1]
        shipped = float(self.loads.state_bytes[moved].sum()) if moved else 0.0
        cost_s = shipped / SHIP_BYTES_PER_S + MOVE_S * len(moved)
        pays = self.balancing.load == "rows" or gain_s * self.balancing.horizon > cost_s
        refused = "no move helps" if not moved else None if pays else "the gain does not pay for the cost"
        record = {
            "kind": "plan",
            "at": now,
            "policy": policy,
            "moves": [asdict(move) for move in made.moves],
            "gain_s_per_batch": gain_s,
            "cost": {"seconds": cost_s, "bytes": shipped, "rows_held": 0, "eta_batches": ETA_BATCHES},
            "max_over_mean": list(made.max_over_mean),
            "gap": made.gap,
            "floor": made.floor,
            "refusals": dict(made.refusals),
            "carried_out": refused is None and not self.balancing.dry_run,
        }
        if refused is not None:
            return [], self._say(refused, now, record)
        self._said = ""
        if self.balancing.dry_run:
            return [], [record]
        self._moved_at |= dict.fromkeys(moved, self.loads.batches)
        why = f"{policy}: max over mean {made.max_over_mean[0]:.2f} → {made.max_over_mean[1]:.2f}"
        return [(int(m.unit), int(m.taker), why) for m in made.moves], [record]

    def _say(self, why: str, now: float, *before: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the records of a refusal, or none if the last refusal gave the same reason."""
        if why == self._said:
            return []
        self._said = why
        return [*map(dict, before), {"kind": "refusal", "at": now, "why": why, "name": why}]
