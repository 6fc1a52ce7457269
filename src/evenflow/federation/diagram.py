"""The status of a broker and of a cluster, drawn from the tables as Mermaid text."""

from __future__ import annotations

from collections.abc import Mapping

from evenflow.federation.status import LOCAL, Cause, Status


def draw_status(table: Mapping[tuple[Status, Cause], Status] = LOCAL, first: Status = Status.STABILIZING) -> str:
    """Draw one table: each arrow is a cause; what has no arrow changes nothing.

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
