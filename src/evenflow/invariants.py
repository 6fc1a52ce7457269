"""What must hold whatever happened: nothing lost, nothing twice, one owner per unit, every session ends.

One definition for all experiments, drills and trials. An outcome is *lost* if it was expected, is not there, and
whatever would bring it about is nowhere in the system either: not queued, cached, in flight or kept by a publisher.
What is still somewhere in the system when a run ends is *unprocessed*: the run was cut off, nothing was lost.

The checker of slices reads the trace and nothing else, so it judges every driver alike, live or from a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from evenflow.errors import BadInput

ENDS = frozenset({"done", "rolled back"})
INNER = frozenset({"grant"})  # the first grant is no session


class NothingToCompareError(BadInput):
    """Nothing was expected and nothing came: such a run shows nothing, and must not pass for one that went well."""

    def __init__(self, where: str) -> None:
        super().__init__("nothing to compare", "a run that expects at least one outcome, or has one", where)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was expected against what came; parts of a run add up.

    Parameters
    ----------
    compared
        Outcomes that were expected.
    lost
        Expected, not there, and nowhere in the system.
    duplicated
        There more often than expected.
    wrong
        There and not expected.
    unprocessed
        Expected, not there, and still somewhere in the system.
    """

    compared: int = 0
    lost: int = 0
    duplicated: int = 0
    wrong: int = 0
    unprocessed: int = 0

    def __add__(self, other: Comparison) -> Comparison:
        return Comparison(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def judged(self, where: str) -> Comparison:
        """Return it, if there was anything to compare.

        Raises
        ------
        NothingToCompareError
            If nothing was expected and nothing came; ``where`` is the run.
        """
        if not self.compared and not self.wrong:
            raise NothingToCompareError(where)
        return self

    @property
    def differing(self) -> int:
        """How many outcomes are not as expected."""
        return self.lost + self.duplicated + self.wrong + self.unprocessed

    @property
    def equal(self) -> bool:
        """Whether everything expected is there once, and nothing else."""
        return self.judged("a comparison").differing == 0


def compare(
    expected: Iterable[Hashable], actual: Iterable[Hashable], still_there: Collection[Hashable] = frozenset()
) -> Comparison:
    """Compare what was expected with what came, whatever their order; each may have an outcome several times.

    Parameters
    ----------
    expected, actual
        The outcomes.
    still_there
        Outcomes that may still come, as what brings them about is somewhere in the system.

    Examples
    --------
    >>> compare([1, 2, 3, 4], [1, 1, 2, 9], still_there={4})
    Comparison(compared=4, lost=1, duplicated=1, wrong=1, unprocessed=1)
    >>> compare([], []).judged("a drill")
    Traceback (most recent call last):
    evenflow.invariants.NothingToCompareError: a drill: given nothing to compare, allowed is a run that expects at least one outcome, or has one.
    """
    wanted, came = Counter(iter(expected)), Counter(iter(actual))  # of a mapping the keys, not its values as counts
    missing, beyond = wanted - came, came - wanted
    unprocessed = sum(count for outcome, count in missing.items() if outcome in still_there)
    duplicated = sum(count for outcome, count in beyond.items() if outcome in wanted)
    lost, wrong = missing.total() - unprocessed, beyond.total() - duplicated
    return Comparison(wanted.total(), lost, duplicated, wrong, unprocessed)


@dataclass(slots=True)
class SliceCheck:
    """Reads the records of a run of slices, one by one.

    Records: ``publish`` (id, slice), ``commit`` (node, slices → ids), ``owner`` (node, slice, owns),
    ``session`` (session, step, giver, taker, slices), ``merge`` (session, items), ``fault`` (fault, session, step),
    and at the end ``final`` (slice, ids): the items whose effect is in the slice's state, and ``waiting`` (ids): items
    that are kept, queued, cached or in flight somewhere.
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
    waiting: set[int] = field(default_factory=set)
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

    def _waiting(self, record: Mapping[str, Any]) -> None:
        self.waiting.update(record["ids"])

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

    def comparison(self) -> Comparison:
        """Compare the published items with those that were processed: committed, and with their effect in the end."""
        there = self.commits if self.final is None else self.commits & self.final
        kept = self.published.keys() & there.keys()
        found = compare(self.published, kept, self.waiting | self.stranded_items())
        repeats = Counter({i: n - 1 for i, n in self.commits.items() if n > 1})
        if self.final is not None:
            repeats |= Counter({i: n - 1 for i, n in self.final.items() if n > 1})
        strange = len((self.commits.keys() | (self.final or {}).keys()) - self.published.keys())
        return Comparison(found.compared, found.lost, repeats.total(), strange, found.unprocessed)

    def stranded_items(self) -> set[int]:
        """Return the items of stranded slices that were not processed: their publishers still keep them."""
        return {i for i, s in self.published.items() if i not in self.commits and s in self.stranded}

    def findings(self) -> dict[str, Any]:
        """Return the counts that experiments report."""
        found = self.comparison()
        durations = sorted(seconds for how, seconds, _ in self.ended.values() if how == "done")
        return {
            "items": found.compared,
            "processed": len(self.published.keys() & self.commits.keys()),
            "unprocessed": found.unprocessed,
            "lost": found.lost,
            "duplicated": found.duplicated,
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
