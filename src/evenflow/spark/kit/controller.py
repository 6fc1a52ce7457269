"""The control loop: samples become loads, a policy offers moves, and only what pays is asked for.

It runs between two batches in the control source's process, so that it sees each batch once and needs no lock.
All it must remember is in the control log or in the samples: after a restart it goes on as before.
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

SHIP_BYTES_PER_S: Final = 50e6  # state written by the giver and read by the taker, a modest disk
MOVE_S: Final = 0.005  # orders and turns of one move beyond its bytes
ETA_BATCHES: Final = 2  # a release and an install
AHEAD: Final = 1.5  # a move acts on the batch after the next, and on the next one when the stream pauses
COST_MEMORY: Final = 0.1  # weight of the newest batch in what a row costs: that is noisy and seldom changes


@dataclass(frozen=True, slots=True)
class Balancing:
    """When slices move.

    Parameters
    ----------
    policy
        A name of :mod:`evenflow.policies`, or ``module:Class``; ``""`` leaves every slice where it is.
    policies
        Policies of your own, as ``module:Class``, to which the query may be switched while it runs.
        Requests come from outside the program, so they can name no other class.
    load
        What is balanced: ``cpu`` or ``wall`` seconds, ``rows``; ``auto`` takes CPU unless slices mostly wait.
    alpha, trend
        Weights of the newest batch in the level of a slice's rows, and of the newest change in their trend.
    tolerance
        Act only when the busiest lane is this fraction above the lower bound: what is below it is noise.
    every
        Batches with rows between two plans, and before the first one.
    keep_up
        Do nothing while the busiest lane works less than this share of the time.
    horizon
        Batches within which a plan must pay for itself.
    rest
        Batches for which a slice that moved stays where it is.
    when
        A further condition over ``busy``, ``gap``, ``max_over_mean``, ``rows`` and ``peak_s``, see
        :class:`evenflow.measure.Condition`; it must have held for ``for_s`` seconds.
    dry_run
        Plan and record, move nothing.
    hold
        Batches by which installs are late, so that tests see rows wait.
    run
        Directory for ``run.json`` and ``trace.jsonl``; by default inside the checkpoint, if that is on this machine.
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
        """The policies that the query may be switched to while it runs."""
        return frozenset({*policies.NAMES, *self.policies, self.policy} - {""})

    def plain(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return asdict(self)


@dataclass(slots=True)
class Loads:
    """What every slice is expected to take: the rows it is about to get, times what a row of it costs.

    Rows are counted, so their drift is followed at once; costs are timed, so they are averaged over many batches.
    """

    slices: int
    alpha: float
    trend: float = 0.0
    rows: TrendedRows = field(init=False)
    means: dict[str, SmoothedRows] = field(init=False)  # of a batch: rows, CPU and wall seconds
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
        """Take in one batch; say whether it had rows."""
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
            mean.alpha = max(COST_MEMORY, 1.0 / self.batches)  # a plain mean of the first batches
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
    """Decides, batch by batch."""

    def __init__(self, slices: int, balancing: Balancing) -> None:
        self.balancing = balancing
        self.loads = Loads(slices, balancing.alpha, balancing.trend)
        self._moved_at: dict[int, int] = {}  # slice → how many batches with rows there were
        self._planned_at = 0
        self._held = ConditionTimer(Condition(balancing.when, balancing.for_s)) if balancing.when else None
        self._said = ""
        self._unknown: set[str] = set()  # policies that were asked for in vain
        self._cold = True

    def observe(self, samples: Sequence[Sample]) -> None:
        """Take in samples of any number of batches, in order."""
        by_batch: dict[int, list[Sample]] = {}
        for sample in samples:
            by_batch.setdefault(sample.batch, []).append(sample)
        for batch in sorted(by_batch):
            if self._cold:  # fresh workers spend their first batch on imports
                self._cold = not sum(sample.rows for sample in by_batch[batch])
            else:
                self.loads.take(by_batch[batch])

    def decide(self, routes: Routes, now: float) -> tuple[list[Wanted], list[dict[str, Any]]]:
        """Return the moves to ask for, and the records of what was decided and why."""
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
        """Return who decides: what an operator asked for, or the program's own policy if the program does not know that.

        The log may name a class that another version of the program used, or that somebody wrote there: importing it
        would run code that this program did not choose.
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
        """Return what an operator's orders demand: pinned slices go to their lanes, resting lanes are drained."""
        moving = routes.moving()
        wanted = [
            (s, lane, "pinned")
            for s, lane in sorted(routes.pinned.items())
            if routes.lane[s] != lane and s not in moving
        ]
        level = np.zeros(routes.lanes)
        load = self.loads.of(self.balancing.load) + 1e-9  # slices without load are spread as well
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
        """Say why nothing needs to be planned."""
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
        """Keep a plan only if it pays within the horizon."""
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
        """Record a refusal, once until something else happens."""
        if why == self._said:
            return []
        self._said = why
        return [*map(dict, before), {"kind": "refusal", "at": now, "why": why, "name": why}]
