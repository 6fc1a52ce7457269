"""What a person wants to see of a run: computed from the trace alone, drawn elsewhere."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Any, NamedTuple

from evenflow.trace import Run, SessionHistory

EPOCH = 1e8  # times beyond it count from 1970: a live run
POINTS = 600  # of the line that shows how even it is: more than a screen can show


class NodeNow(NamedTuple):
    """One node: its load over capacity, how that stands to the mean, and what it holds."""

    name: str
    state: str
    load: float
    capacity: float
    relative: float
    units: int
    held_rows: int
    parts: Mapping[str, float] = {}
    limit: float | None = None


class MoveSeen(NamedTuple):
    """One move: who gave what to whom, why, and how long each phase took."""

    at: float
    units: str
    giver: str
    taker: str
    why: str
    outcome: str
    phases: str
    seconds: float | None
    predicted: str = ""  # the loads of both nodes afterwards, or max over mean after the whole plan
    actual: str = ""  # as it was when the nodes had been measured again


def nodes_now(run: Run) -> list[NodeNow]:
    """Return every node that is there, in order of name, with its last load over capacity against the mean."""
    held = Counter(run.owners_at().values())
    draining = _draining(run)
    known = [run.nodes[name] for name in sorted(run.nodes_at(), key=natural) if not run.nodes[name].head]
    idle = idle_batches(run)
    last: dict[str, Mapping[str, Any]] = {
        n.name: next((s for s in reversed(n.samples) if s.get("batch") not in idle), {}) for n in known
    }
    loads = {n.name: float(last[n.name].get("load", 0.0)) for n in known}
    capacity = sum(n.capacity for n in known)
    mean = sum(loads[n.name] * n.capacity for n in known) / capacity if capacity else 0.0
    return [
        NodeNow(
            n.name,
            "draining" if n.name in draining else "in use",
            loads[n.name],
            n.capacity,
            loads[n.name] / mean if mean else 1.0,
            int(last[n.name].get("clients", held[n.name])),
            int(last[n.name].get("held_rows", 0)),
            last[n.name].get("parts", {}),
            last[n.name].get("limit"),
        )
        for n in known
    ]


def idle_batches(run: Run) -> set[int]:
    """Return the batches of a live run in which no node had rows: what they took says nothing of the load."""
    rows: Counter[int] = Counter()
    for node in run.nodes.values():
        for sample in node.samples:
            if "batch" in sample and "rows" in sample:
                rows[sample["batch"]] += sample["rows"]
    return {batch for batch, count in rows.items() if not count}


def natural(name: str) -> tuple[object, ...]:
    """Return a key that puts ``lane 10`` behind ``lane 9``.

    Examples
    --------
    >>> sorted(["lane 10", "lane 9", "a"], key=natural)
    ['a', 'lane 9', 'lane 10']
    """
    words = "".join(c if c.isdigit() else f" {c} " for c in name).split()
    return tuple((0, int(word), "") if word.isdigit() else (1, 0, word) for word in words)


class Evenness(NamedTuple):
    """How even a run was over time."""

    at: list[float]
    ratio: list[float]  # max over mean
    mean: list[float]


def evenness(run: Run) -> Evenness:
    """Return moments, at most :data:`POINTS` of them, with max over mean and mean of the loads over capacity by then."""
    idle = idle_batches(run)
    samples = sorted(
        (at, n.name, float(s.get("load", 0.0)))
        for n in run.nodes.values()
        for at, s in zip(n.sampled_at, n.samples, strict=True)
        if s.get("batch") not in idle
    )
    times = sorted({at for at, _, _ in samples})
    shown = {*times[:: max(1, len(times) // POINTS)], *times[-1:]}
    latest: dict[str, float] = {}
    found = Evenness([], [], [])
    for number, (at, name, load) in enumerate(samples):
        latest[name] = load
        again = number + 1 < len(samples) and samples[number + 1][0] == at
        if again or at not in shown:  # of several samples at one moment, the last one knows them all
            continue
        present = [(latest[other], run.nodes[other].capacity) for other in latest if _there(run, other, at)]
        mean = sum(load * capacity for load, capacity in present) / sum(capacity for _, capacity in present)
        found.at.append(at)
        found.mean.append(mean)
        found.ratio.append(max(present)[0] / mean if mean else 1.0)
    return found


def bounds(run: Run) -> tuple[list[float], list[float]]:
    """Return when plans were made, and the max over mean that no plan could have gone below."""
    found = [
        (float(plan["at"]), after / (1.0 + plan["gap"]))
        for plan in run.plans
        if (after := after_of(plan)) is not None and plan.get("gap") is not None
    ]
    return [at for at, _ in found], [bound for _, bound in found]


def moves_seen(run: Run) -> list[MoveSeen]:
    """Return the moves, the newest first; of systems without sessions, what their balancers noted."""
    sessions = [s for s in reversed(run.sessions.values()) if s.giver]
    if run.sessions:
        seen = [_session(s) for s in sessions]
        expected = [(s.expects, s.effects) for s in sessions]
    else:
        moves = [m for m in reversed(run.moves) if m["giver"]]
        seen = [
            MoveSeen(
                m["at"], str(m.get("unit", m.get("what"))), m["giver"], m["taker"], m.get("why", ""), "done", "", None
            )
            for m in moves
        ]
        expected = [(m.get("expects", {}), {}) for m in moves]
    effects = effects_of(run, seen)
    return [
        _of_both(run, move, *both) if both[0] else _of_plan(move, *plan)
        for move, plan, both in zip(seen, effects, expected, strict=True)
    ]


def _of_plan(move: MoveSeen, predicted: float | None, actual: float | None) -> MoveSeen:
    words = ["" if value is None else f"max/mean {value:.2f}" for value in (predicted, actual)]
    return move._replace(predicted=words[0], actual=words[1])


def _of_both(run: Run, move: MoveSeen, expects: Mapping[str, float], effects: Mapping[str, float]) -> MoveSeen:
    """Say the loads of giver and taker, as they were expected and as they were found."""
    sides = {"giver": move.giver, "taker": move.taker}
    ended = None if move.outcome != "done" else move.at + (move.seconds or 0.0)
    found = {name: effects.get(name, _load_after(run, name, ended)) for name in sides.values()}

    def words(loads: Mapping[str, float | None]) -> str:
        known = ((side, loads.get(name)) for side, name in sides.items())
        return ", ".join(f"{side} {load:.3g}" for side, load in known if load is not None)

    return move._replace(predicted=words(expects), actual=words(found))


def _load_after(run: Run, name: str, at: float | None) -> float | None:
    """Return a node's first load after a moment, if there is one yet."""
    node = run.nodes.get(name)
    place = bisect_right(node.sampled_at, at) if node is not None and at is not None else 0
    if node is None or at is None or place == len(node.samples):
        return None
    load = node.samples[place].get("load")
    return None if load is None else float(load)


def effects_of(run: Run, moves: Sequence[MoveSeen]) -> list[tuple[float | None, float | None]]:
    """Return what the plan behind each move promised, and what was measured when its last move was done.

    The moves of one plan share both: they were decided together.
    """
    plans = [plan for plan in run.plans if after_of(plan) is not None]
    begins = [float(plan["at"]) for plan in plans]
    behind = [bisect_right(begins, move.at) - 1 for move in moves]
    ends: dict[int, float] = {}
    for move, plan in zip(moves, behind, strict=True):
        ends[plan] = max(ends.get(plan, 0.0), move.at + (move.seconds or 0.0))
    idle = idle_batches(run)
    actual = {plan: evenness_after(run, end, idle) for plan, end in ends.items() if plan >= 0}
    return [(after_of(plans[plan]), actual[plan]) if plan >= 0 else (None, None) for plan in behind]


def after_of(plan: Mapping[str, Any]) -> float | None:
    """Return max over mean after a plan, in whichever of its two forms a driver wrote it."""
    if not plan.get("moves") or plan.get("carried_out") is False:
        return None
    both = plan.get("max_over_mean")
    found = both[1] if isinstance(both, list) else plan.get("after")
    return float(found) if isinstance(found, (int, float)) else None


def evenness_after(run: Run, at: float, idle: AbstractSet[int] = frozenset()) -> float | None:
    """Return max over mean after a moment; ``None`` until every node has been measured again.

    A sample tells of the time since the one before, so it is the second one that knows nothing of what was earlier.
    """
    loads = []
    for name in run.nodes_at():
        node = run.nodes[name]
        if node.head:
            continue
        place = bisect_right(node.sampled_at, at)
        later = (sample for sample in node.samples[place:] if sample.get("batch") not in idle)
        found = next(islice(later, 1, None), None)
        if found is None:
            return None
        loads.append((float(found.get("load", 0.0)), node.capacity))
    total = sum(load * capacity for load, capacity in loads)
    return max(loads)[0] * sum(capacity for _, capacity in loads) / total if total else None


def beginning(run: Run) -> float:
    """Return the moment from which a page counts: the first sample of a live run, 0 in virtual time."""
    first = min((n.sampled_at[0] for n in run.nodes.values() if n.sampled_at), default=0.0)
    return first if first > EPOCH else 0.0


def refusals(run: Run) -> list[tuple[str, int]]:
    """Return why nothing moved, the most frequent reason first."""
    return run.refusals.most_common()


def summary(run: Run) -> dict[str, Any]:
    """Return the few numbers that say how it goes."""
    nodes = nodes_now(run)
    done = sum(s.outcome == "done" and bool(s.giver) for s in run.sessions.values())
    done = done or sum(bool(m["giver"]) for m in run.moves)
    return {
        "nodes": len(nodes),
        "units": sum(n.units for n in nodes),
        "max_over_mean": max((n.relative for n in nodes), default=1.0),
        "moves": done,
        "under_way": sum(s.outcome is None for s in run.sessions.values()),
        "refusals": run.refusals.total(),
        "gap": run.plans[-1].get("gap") if run.plans else None,
        "until": run.ended,
    }


def _session(session: SessionHistory) -> MoveSeen:
    phases = ", ".join(f"{step} {seconds:.3g} s" for step, seconds in session.phase_seconds().items())
    ended = session.ended
    return MoveSeen(
        session.began,
        session.what
        or ", ".join(session.units[:8]) + (f" and {len(session.units) - 8} more" if len(session.units) > 8 else ""),
        session.giver,
        session.taker,
        next((step.why for step in session.steps if step.why), ""),
        session.outcome or session.steps[-1].step,
        phases,
        None if ended is None else ended - session.began,
    )


def _draining(run: Run) -> set[str]:
    found: set[str] = set()
    for note in run.notes:
        lanes = note.get("value")
        if note["kind"] != "request" or not isinstance(lanes, list):
            continue
        if note.get("what") == "rest":
            found.update(f"lane-{lane}" for lane in lanes)
        elif note.get("what") == "use":
            found.difference_update(f"lane-{lane}" for lane in lanes)
    return found


def _there(run: Run, name: str, at: float) -> bool:
    node = run.nodes[name]
    return node.joined <= at and (node.left is None or at < node.left)
