"""What the logs of publishers, nodes and balancer say about a run, compared line by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evenflow.invariants import compare

Note = Mapping[str, Any]
AFTER = 1.0  # seconds after a session that still belong to it: the old reader closes, held items are processed


def summary(
    publishers: Iterable[Note], nodes: Iterable[Note], balancer: Iterable[Note], outage: tuple[float, float] | None
) -> dict[str, Any]:
    """Compare what was published with what was committed.

    Examples
    --------
    >>> publish = [{"kind": "publish", "at": 1.0, "id": i, "slice": 0} for i in (1, 2)]
    >>> commit = {"kind": "commit", "at": 1.01, "node": "a", "slices": {"0": [1, 1]}}
    >>> row = summary(publish, [commit], [], None)
    >>> row["lost"], row["duplicated"]
    (1, 1)
    """
    nodes, publishers = list(nodes), list(publishers)
    written = {n["id"]: n["at"] for n in publishers if n["kind"] == "publish"}
    waiting = {i for n in publishers if n["kind"] == "waiting" for i in n["ids"]}
    committed: Counter[int] = Counter()
    first: dict[int, float] = {}
    for note in nodes:
        if note["kind"] == "commit":
            for ids in note["slices"].values():
                committed.update(ids)
                for item in ids:
                    first.setdefault(item, note["at"])
    found = compare(written, committed.elements(), waiting).judged("dds-nodes")
    sessions = _sessions(balancer)
    busy = [(began, ended + AFTER) for began, ended in sessions]
    quiet = [*busy, outage] if outage else busy
    delays = [first[i] - at for i, at in written.items() if i in first]
    calm = [first[i] - at for i, at in written.items() if i in first and not _within(at, quiet)]
    filters = [n for n in nodes if n["kind"] == "filter" and n["own"]]
    own = sum(n["own"] for n in filters)
    return {
        "published": found.compared,
        "committed": committed.total(),
        "unprocessed": found.unprocessed,
        "lost": found.lost,
        "duplicated": found.duplicated,
        "unknown": found.wrong,
        "sessions": len(sessions),
        "session_p95_s": percentile([ended - began for began, ended in sessions], 0.95),
        "latency_p50_ms": _ms(percentile(calm, 0.5)),
        "latency_p95_ms": _ms(percentile(calm, 0.95)),
        "latency_p95_all_ms": _ms(percentile(delays, 0.95)),
        "calm_items": len(calm),
        "filter_ratio": sum(n["taken"] for n in filters) / own if own else None,
        "balancer_messages": max((n["sent"] + n["received"] for n in balancer if n["kind"] == "traffic"), default=0),
    }


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the smallest value that at least this share of the values does not exceed.

    Examples
    --------
    >>> percentile([3, 1, 2, 4], 0.5)
    2
    """
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)] if ordered else None


def _sessions(balancer: Iterable[Note]) -> list[tuple[float, float]]:
    """Return when each session with a giver began and ended; a grant is none."""
    began: dict[int, float] = {}
    ended = []
    for note in balancer:
        if note["kind"] == "session" and note["giver"]:
            began.setdefault(note["session"], note["at"])
            if note["step"] in ("done", "rolled back"):
                ended.append((began[note["session"]], note["at"]))
    return ended


def _within(at: float, spans: Iterable[tuple[float, float]]) -> bool:
    return any(began - 0.1 <= at <= ended for began, ended in spans)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 2)
