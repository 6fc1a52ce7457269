"""Where each slice's rows go: a fold of the control log, the same for everyone who folds the same entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np

from evenflow.spark.keys import Ints, Keys

MOVE: Final = "move"  # the giver ships at the end of this batch; from the next batch on rows go to the taker
INSTALL: Final = "install"  # the giver's shipping is committed: the taker takes over
RECEIPT: Final = "receipt"  # the taker's installing is committed: the giver forgets
SETTING: Final = "setting"  # what an operator asked for


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


@dataclass(slots=True)
class Session:
    """A slice on its way; the numbers are positions in the log."""

    slice: int
    giver: int
    taker: int
    why: str
    began: float
    moved_at: int
    installed_at: int | None = None


@dataclass(slots=True)
class Routes:
    """The log folded up to ``version`` entries.

    Parameters
    ----------
    slices, lanes
        How many there are.
    used
        Lanes that own slices at the beginning; the others wait to be added.
    """

    slices: int
    lanes: int
    used: int
    version: int = 0
    lane: list[int] = field(default_factory=list)
    sessions: dict[int, Session] = field(default_factory=dict)
    next_session: int = 0
    resting: set[int] = field(default_factory=set)  # lanes that shall own nothing
    pinned: dict[int, int] = field(default_factory=dict)  # slice → the lane it shall stay on
    settings: dict[str, Any] = field(default_factory=dict)
    begun: int = 0  # lanes at the beginning, if there are more now

    def __post_init__(self) -> None:
        if not self.lane:
            self.lane = [self.home(s) for s in range(self.slices)]
            self.resting = {lane for lane in range(self.lanes) if lane % (self.begun or self.lanes) >= self.used}

    def home(self, slice_id: int) -> int:
        """Return the lane that owns a slice from the beginning."""
        lane = slice_id % self.used
        return Keys(self.slices, self.begun).lane_among(self.lanes, slice_id, lane) if self.begun else lane

    def apply(self, entries: Iterable[Entry]) -> Routes:
        """Fold further entries."""
        for entry in entries:
            if entry.kind == MOVE:
                self.sessions[entry.session] = Session(
                    entry.slice, entry.giver, entry.taker, entry.why, entry.at, self.version
                )
                self.lane[entry.slice] = entry.taker
                self.next_session = entry.session + 1
            elif entry.kind == INSTALL:
                self.sessions[entry.session].installed_at = self.version
            elif entry.kind == RECEIPT:
                del self.sessions[entry.session]
            elif entry.kind == SETTING:
                self._set(entry.name, entry.value)
            self.version += 1
        return self

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
        """Return the sessions under way by slice."""
        return {session.slice: session for session in self.sessions.values()}

    def keys(self, keys: Keys) -> Ints:
        """Return every slice's key."""
        return np.fromiter((keys.key(s, lane) for s, lane in enumerate(self.lane)), np.int32, self.slices)

    def plain(self) -> dict[str, Any]:
        """Return what JSON can hold, for a snapshot."""
        return {**asdict(self), "resting": sorted(self.resting)}

    @staticmethod
    def of(fields: Mapping[str, Any]) -> Routes:
        """Build routes from a snapshot, sharing nothing with it."""
        return Routes(
            **{
                **fields,
                "lane": list(fields["lane"]),
                "settings": dict(fields["settings"]),
                "sessions": {int(n): Session(**s) for n, s in fields["sessions"].items()},
                "resting": set(fields["resting"]),
                "pinned": {int(s): lane for s, lane in fields["pinned"].items()},
            }
        )
