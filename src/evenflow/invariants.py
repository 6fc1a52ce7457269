"""What must hold whatever happened: nothing lost, nothing twice, one owner per unit, every session ends.

The checker reads the trace and nothing else, so it judges every driver alike, live or from a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

ENDS = frozenset({"done", "rolled back"})
INNER = frozenset({"grant"})  # the first grant is no session


@dataclass(slots=True)
class SliceCheck:
    """Reads the records of a run of slices, one by one.

    Records: ``publish`` (id, slice), ``commit`` (node, slices → ids), ``owner`` (node, slice, owns),
    ``session`` (session, step, giver, taker, slices), ``merge`` (session, items), ``fault`` (fault, session, step),
    and at the end ``final`` (slice, ids): the items whose effect is in the slice's state.
    A final state is ``stranded`` if only a node that vanished for good has it;
    what such a slice did not process is not lost.

    Examples
    --------
    >>> check = SliceCheck()
    >>> check.read({"kind": "publish", "at": 0, "id": 1, "slice": 0})
    >>> check.read({"kind": "commit", "at": 1, "node": "a", "slices": {0: [1, 1]}})
    >>> check.findings()["duplicated"]
    1
    """

    published: dict[int, int] = field(default_factory=dict)  # item → slice
    commits: Counter[int] = field(default_factory=Counter)
    final: Counter[int] | None = None
    owners: dict[int, str] = field(default_factory=dict)
    owner_violations: int = 0
    began: dict[int, float] = field(default_factory=dict)
    ended: dict[int, tuple[str, float, int]] = field(default_factory=dict)  # session → how, seconds, slices
    faulted: set[int] = field(default_factory=set)
    faults: dict[str, Counter[str]] = field(default_factory=dict)
    in_flight: int = 0
    stranded: set[int] = field(default_factory=set)

    def read(self, record: Mapping[str, Any]) -> None:
        """Take one record; kinds it does not know are passed over."""
        reader = getattr(self, "_" + str(record["kind"]), None)
        if reader is not None:
            reader(record)

    def read_all(self, records: Iterable[Mapping[str, Any]]) -> SliceCheck:
        """Take every record of a trace."""
        for record in records:
            self.read(record)
        return self

    def _publish(self, record: Mapping[str, Any]) -> None:
        self.published[record["id"]] = record.get("slice", -1)

    def _commit(self, record: Mapping[str, Any]) -> None:
        for ids in record["slices"].values():
            self.commits.update(ids)

    def _final(self, record: Mapping[str, Any]) -> None:
        if self.final is None:
            self.final = Counter()
        self.final.update(record["ids"])
        if record.get("stranded"):
            self.stranded.add(record["slice"])

    def _owner(self, record: Mapping[str, Any]) -> None:
        unit, node = record["slice"], record["node"]
        holder = self.owners.get(unit)
        if record["owns"]:
            self.owner_violations += holder not in (None, node)
            self.owners[unit] = node
        elif holder == node:
            del self.owners[unit]

    def _session(self, record: Mapping[str, Any]) -> None:
        number, step = record["session"], record["step"]
        if step in INNER or (step in ENDS and number not in self.began):
            return
        self.began.setdefault(number, record["at"])
        if step in ENDS:
            self.ended[number] = (step, record["at"] - self.began[number], len(record["slices"]))

    def _merge(self, record: Mapping[str, Any]) -> None:
        self.in_flight += record["items"]

    def _fault(self, record: Mapping[str, Any]) -> None:
        if record.get("session") is not None:
            self.faulted.add(record["session"])
            self.faults.setdefault(record["fault"], Counter())[record["step"]] += 1

    def waiting(self) -> set[int]:
        """Return the items of stranded slices that were not processed: their publishers still keep them."""
        return {i for i, s in self.published.items() if i not in self.commits and s in self.stranded}

    def findings(self) -> dict[str, Any]:
        """Return the counts that experiments report."""
        published, commits = self.published, self.commits
        waiting = self.waiting()
        lost = {i for i in published if i not in commits} - waiting
        repeats = Counter({i: n - 1 for i, n in commits.items() if n > 1})
        if self.final is not None:
            lost |= {i for i in published if i not in self.final} - waiting
            repeats |= Counter({i: n - 1 for i, n in self.final.items() if n > 1})
        durations = sorted(seconds for how, seconds, _ in self.ended.values() if how == "done")
        return {
            "items": len(published),
            "processed": sum(i in published for i in commits),
            "lost": len(lost),
            "duplicated": sum(repeats.values()),
            "owner_violations": self.owner_violations,
            "sessions": len(self.began),
            "unfinished_sessions": len(self.began) - len(self.ended),
            "rolled_back_sessions": sum(how == "rolled back" for how, _, _ in self.ended.values()),
            "faulted_sessions": len(self.faulted & self.began.keys()),
            "faults": {kind: dict(sorted(steps.items())) for kind, steps in sorted(self.faults.items())},
            "items_in_flight": self.in_flight,
            "moves": sum(slices for how, _, slices in self.ended.values() if how == "done"),
            "p95_session_s": durations[min(len(durations) - 1, int(0.95 * len(durations)))] if durations else None,
        }
