"""The status of a broker and of a cluster, as transition tables (Cheung 2006, Figures 3.3a and 3.3b)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Status(Enum):
    """Whether a broker can take load: yes, in a session, overloaded, or waiting for its load to settle."""

    OK = "OK"
    BUSY = "BUSY"
    NA = "N/A"
    STABILIZING = "STABILIZING"


class Cause(Enum):
    """The causes of a status change."""

    AGREED = "a session was agreed on"
    ENDED = "the session ended"
    OVERLOADED = "a ratio is above the lower threshold"
    RELIEVED = "no ratio is above it any more"
    SETTLED = "load has settled"


S, C = Status, Cause
LOCAL: Mapping[tuple[Status, Cause], Status] = {
    (S.OK, C.AGREED): S.BUSY,
    (S.NA, C.AGREED): S.BUSY,  # as giver: its own request was accepted
    (S.BUSY, C.ENDED): S.STABILIZING,
    (S.OK, C.OVERLOADED): S.NA,
    (S.STABILIZING, C.OVERLOADED): S.NA,
    (S.NA, C.RELIEVED): S.STABILIZING,
    (S.STABILIZING, C.SETTLED): S.OK,
}
CLUSTER: Mapping[tuple[Status, Cause], Status] = {
    (S.OK, C.AGREED): S.BUSY,
    (S.NA, C.AGREED): S.BUSY,
    (S.BUSY, C.ENDED): S.OK,
    (S.OK, C.OVERLOADED): S.NA,
    (S.NA, C.RELIEVED): S.OK,
}


def next_status(table: Mapping[tuple[Status, Cause], Status], status: Status, cause: Cause) -> Status:
    """Return the next status; a cause that is not in the table changes nothing.

    Examples
    --------
    >>> next_status(LOCAL, Status.OK, Cause.OVERLOADED)
    <Status.NA: 'N/A'>
    >>> next_status(LOCAL, Status.BUSY, Cause.OVERLOADED)
    <Status.BUSY: 'BUSY'>
    """
    return table.get((status, cause), status)


def draw_status(table: Mapping[tuple[Status, Cause], Status] = LOCAL, first: Status = Status.STABILIZING) -> str:
    """Return a table as a Mermaid state diagram.

    Examples
    --------
    >>> print(draw_status().splitlines()[-1])
        STABILIZING --> OK : load has settled
    """
    names = dict.fromkeys([first, *(status for status, _ in table)])
    lines = ["stateDiagram-v2", *(f'    state "{s.value}" as {s.name}' for s in names if s.value != s.name)]
    lines.append(f"    [*] --> {first.name}")
    arrows = (f"    {status.name} --> {after.name} : {cause.value}" for (status, cause), after in table.items())
    return "\n".join([*lines, *arrows])
