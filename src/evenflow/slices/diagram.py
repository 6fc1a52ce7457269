"""State diagrams drawn from the tables, as Mermaid text: a page that shows them cannot disagree with the code."""

from __future__ import annotations

from collections.abc import Mapping

from evenflow.slices import handoff, session
from evenflow.slices.handoff import State, Table
from evenflow.slices.session import ENDED, Happening, Phase


def draw_handoff(table: Table = handoff.TABLE) -> str:
    """Draw what one node goes through with one slice: each arrow is an event and what the node does about it.

    Examples
    --------
    >>> print(draw_handoff(handoff.LITERAL).splitlines()[2])
        absent --> owning : granted / open reader
    """
    lines = ["stateDiagram-v2", f"    [*] --> {State.ABSENT.value}"]
    for (state, event), row in table.items():
        effects = ", ".join(effect.value for effect in row.effects)
        label = f"{event.value} / {effects}" if effects else event.value
        lines.append(f"    {state.value} --> {row.state.value} : {label}")
    return "\n".join(lines)


def draw_session(table: Mapping[tuple[Phase, Happening], Phase] = session.TABLE) -> str:
    """Draw what the balancer goes through in one session: each state is the action whose confirmation it awaits.

    After a slash stands what a silent node is told later.

    Examples
    --------
    >>> print(draw_session(session.LITERAL).splitlines()[1])
        [*] --> stop
    """
    lines = ["stateDiagram-v2", f"    [*] --> {_name(Phase.STOPPING)}"]
    rows = {key: to for key, to in table.items() if key[0] is not Phase.GRANTING}  # the first grant is no session
    for (phase, happening), to in rows.items():
        owes = session.OWES.get((phase, happening))
        label = happening.value if owes is None else f"{happening.value} / owes {owes.value}"
        lines.append(f"    {_name(phase)} --> {_name(to)} : {label}")
    return "\n".join(lines + [f"    {_name(phase)} --> [*]" for phase in Phase if phase in ENDED & set(rows.values())])


def _name(phase: Phase) -> str:
    return phase.value.replace(" ", "_")
