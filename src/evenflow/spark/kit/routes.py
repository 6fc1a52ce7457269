"""The routes, which say where each slice's rows go; every process that applies the same log entries gets the same routes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np

from evenflow.spark.kit.keys import Ints, Keys
from evenflow.spark.kit.requests import fault_of

MOVE: Final = "move"  # the giver ships the state at the end of this batch; rows go to the taker from the next batch on
INSTALL: Final = "install"  # the giver's batch is committed: the taker installs the state
RECEIPT: Final = "receipt"  # the taker's batch is committed: the giver deletes its state
SETTING: Final = "setting"  # a request by an operator


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the control log."""

    kind: str
    at: float
    session: int = -1
    slice: int = -1
    giver: int = -1
    taker: int = -1
    why: str = ""
    name: str = ""
    value: Any = None

    @staticmethod
    def of(fields: Mapping[str, Any]) -> Entry:
        """Build an entry from its JSON object."""
        return Entry(**fields)


class ImpossibleEntryError(ValueError):
    """A log entry that its session cannot follow."""

    def __init__(self, number: int, entry: Entry) -> None:
        words = f"session {entry.session!r}, slice {entry.slice!r} from {entry.giver!r} to {entry.taker!r}"
        super().__init__(f"entry {number} is impossible: {entry.kind!r} of {words}")


@dataclass(slots=True)
class Session:
    """A move of one slice in progress; ``moved_at`` and ``installed_at`` are positions in the log."""

    slice: int
    giver: int
    taker: int
    why: str
    began: float
    moved_at: int
    installed_at: int | None = None


@dataclass(slots=True)
class Routes:
    """The state of all routes after the first ``version`` log entries.

    Parameters
    ----------
    slices, lanes
        Number of slices and lanes.
    used
        Number of lanes that own slices at the beginning; the others can be added later.
    """

    slices: int
    lanes: int
    used: int
    version: int = 0
    lane: list[int] = field(default_factory=list)
    sessions: dict[int, Session] = field(default_factory=dict)
    next_session: int = 0
    resting: set[int] = field(default_factory=set)  # lanes that must not own slices
    pinned: dict[int, int] = field(default_factory=dict)  # slice → the lane it must stay on
    settings: dict[str, Any] = field(default_factory=dict)
    begun: int = 0  # number of lanes at the beginning, if there are more now

    def __post_init__(self) -> None:
        if not self.lane:
            self.lane = [self.home(s) for s in range(self.slices)]
            self.resting = {lane for lane in range(self.lanes) if lane % (self.begun or self.lanes) >= self.used}

    def home(self, slice_id: int) -> int:
        """Return the lane that owns a slice at the beginning."""
        lane = slice_id % self.used
        return Keys(self.slices, self.begun).lane_among(self.lanes, slice_id, lane) if self.begun else lane

    def apply(self, entries: Iterable[Entry]) -> Routes:
        """Apply further entries; invalid settings are skipped, see :meth:`fault_of`.

        Raises
        ------
        ImpossibleEntryError
            For an impossible step of a session: continuing would lose or duplicate rows.
        """
        for entry in entries:
            if entry.kind == SETTING:
                if self.fault_of(entry) is None:
                    self._set(entry.name, entry.value)
            elif not self._possible(entry):
                raise ImpossibleEntryError(self.version, entry)
            elif entry.kind == MOVE:
                self.sessions[entry.session] = Session(
                    entry.slice, entry.giver, entry.taker, entry.why, entry.at, self.version
                )
                self.lane[entry.slice] = entry.taker
                self.next_session = entry.session + 1
            elif entry.kind == INSTALL:
                self.sessions[entry.session].installed_at = self.version
            else:
                del self.sessions[entry.session]
            self.version += 1
        return self

    def fault_of(self, entry: Entry) -> str | None:
        """Return why a setting is skipped, or ``None``: an old log may hold requests from before they were checked."""
        return fault_of(entry.name, entry.value, self.slices, self.lanes)

    def _possible(self, entry: Entry) -> bool:
        numbers = (entry.session, entry.slice, entry.giver, entry.taker)
        if not all(type(number) is int for number in numbers):
            return False
        if entry.kind == MOVE:
            known = 0 <= entry.slice < self.slices and 0 <= entry.taker < self.lanes
            return known and self.lane[entry.slice] == entry.giver and entry.session >= self.next_session
        session = self.sessions.get(entry.session)
        if session is None or entry.kind not in (INSTALL, RECEIPT):
            return False
        return (session.installed_at is None) == (entry.kind == INSTALL)

    def _set(self, name: str, value: Any) -> None:
        if name == "rest":
            self.resting.update(value)
        elif name == "use":
            self.resting.difference_update(value)
        elif name == "pin":
            self.pinned[value[0]] = value[1]
        elif name == "unpin":
            self.pinned.pop(value, None)
        else:
            self.settings[name] = value

    def moving(self) -> dict[int, Session]:
        """Return the sessions in progress, by slice."""
        return {session.slice: session for session in self.sessions.values()}

    def keys(self, keys: Keys) -> Ints:
        """Return the current key of every slice."""
        return np.fromiter((keys.key(s, lane) for s, lane in enumerate(self.lane)), np.int32, self.slices)

    def plain(self) -> dict[str, Any]:
        """Return the routes as a dictionary that JSON can hold, for a snapshot."""
        return {**asdict(self), "resting": sorted(self.resting)}

    @staticmethod
    def of(fields: Mapping[str, Any]) -> Routes:
        """Build routes from a snapshot; copy everything that can change."""
        slices, lanes = fields["slices"], fields["lanes"]
        return Routes(
            **{
                **fields,
                "lane": list(fields["lane"]),
                "settings": dict(fields["settings"]),
                "sessions": {int(n): Session(**s) for n, s in fields["sessions"].items()},
                # As in apply(): an old snapshot may hold requests from before they were checked.
                "resting": {lane for lane in fields["resting"] if fault_of("use", [lane], slices, lanes) is None},
                "pinned": {
                    int(s): lane
                    for s, lane in fields["pinned"].items()
                    if fault_of("pin", [int(s), lane], slices, lanes) is None
                },
            }
        )
