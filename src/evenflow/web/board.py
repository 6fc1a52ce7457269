"""What a person wants to see of a run: computed from the trace alone, drawn elsewhere."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
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
    predicted: float | None = None  # max over mean after the whole plan, as the policy had it
    actual: float | None = None  # as it was when every node had been measured again


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


def imbalance(run: Run) -> tuple[list[float], list[float]]:
    """Return moments, at most :data:`POINTS` of them, and max over mean of the loads over capacity by then."""
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
    moments: dict[float, float] = {}
    for number, (at, name, load) in enumerate(samples):
        latest[name] = load
        again = number + 1 < len(samples) and samples[number + 1][0] == at
        if again or at not in shown:  # of several samples at one moment, the last one knows them all
            continue
        present = [(latest[other], run.nodes[other].capacity) for other in latest if _there(run, other, at)]
        total = sum(load * capacity for load, capacity in present)
        moments[at] = max(present)[0] * sum(capacity for _, capacity in present) / total if total else 1.0
    return list(moments), list(moments.values())


def moves_seen(run: Run) -> list[MoveSeen]:
    """Return the moves, the newest first; of systems without sessions, what their balancers noted."""
    if run.sessions:
        seen = [_session(s) for s in reversed(run.sessions.values()) if s.giver]
    else:
        seen = [
            MoveSeen(m["at"], str(m["unit"]), m["giver"], m["taker"], m.get("why", ""), "done", "", None)
            for m in reversed(run.moves)
            if m["giver"]
        ]
    effects = effects_of(run, seen)
    return [move._replace(predicted=p, actual=a) for move, (p, a) in zip(seen, effects, strict=True)]


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
    """Return max over mean of the first samples after a moment; ``None`` until every node has one."""
    loads = []
    for name in run.nodes_at():
        node = run.nodes[name]
        if node.head:
            continue
        place = bisect_right(node.sampled_at, at)
        while place < len(node.samples) and node.samples[place].get("batch") in idle:
            place += 1
        if place == len(node.samples):
            return None
        loads.append((float(node.samples[place].get("load", 0.0)), node.capacity))
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
        ", ".join(session.units[:8]) + (f" and {len(session.units) - 8} more" if len(session.units) > 8 else ""),
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
        if note["kind"] == "request" and note.get("what") == "rest":
            found.update(f"lane-{lane}" for lane in note["value"])
        elif note["kind"] == "request" and note.get("what") == "use":
            found.difference_update(f"lane-{lane}" for lane in note["value"])
    return found


def _there(run: Run, name: str, at: float) -> bool:
    node = run.nodes[name]
    return node.joined <= at and (node.left is None or at < node.left)
