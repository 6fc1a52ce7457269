"""State diagrams as Mermaid text, generated from the transition tables, so that the docs always match the code."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from evenflow.operators.negotiation import TRANSITIONS, State
from evenflow.operators.session import GIVING, TAKING, Giver, Taker

TABLES: Mapping[str, tuple[Mapping[Any, Any], Enum]] = {
    "negotiation": (TRANSITIONS, State.RESTING),
    "giver": (GIVING, Giver.RUNNING),
    "taker": (TAKING, Taker.ABSENT),
}


def draw(name: str) -> str:
    """Draw one table as a diagram: each arrow is labelled with an event and its action.

    Examples
    --------
    >>> print(draw("taker").splitlines()[2])
        absent --> expecting : agreed / deploy and accept
    """
    table, first = TABLES[name]
    lines = ["stateDiagram-v2", f"    [*] --> {first.value}"]
    for (state, event), (after, action) in table.items():
        label = event.value if action is None else f"{event.value} / {action.value}"
        lines.append(f"    {state.value} --> {after.value} : {label}")
    return "\n".join(lines)
