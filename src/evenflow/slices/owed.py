"""What silent nodes are told about sessions that ended without them, each until it confirms.

The law: a node takes part in no new session before it has confirmed how its old ones ended,
so whatever it still has of their slices cannot meet the slices themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

from evenflow.slices.messages import Action, Confirm
from evenflow.slices.session import Happening, Phase, Session


class Owed:
    """One action per session and silent node: a session of its own whose only phase is that action."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, str], Session] = {}

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return iter(self._open)

    def nodes(self) -> set[str]:
        """Return the nodes that have something to hear."""
        return {node for _, node in self._open}

    def add(self, session: Session, phase: Phase) -> tuple[int, str]:
        """Remember that the node which this phase speaks to has not heard it; return session and node."""
        debt = Session(session.id, session.giver, session.taker, session.slices, phase)
        self._open[debt.id, debt.addressee] = debt
        return debt.id, debt.addressee

    def action(self, session: int, node: str, over: int) -> Action | None:
        """Return what the node has to hear about a session; ``None`` when it has confirmed it."""
        debt = self._open.get((session, node))
        return None if debt is None else debt.action(over)[1]

    def confirmed(self, confirm: Confirm) -> tuple[int, str] | None:
        """Return session and node of what was confirmed; ``None`` if it is nothing that is owed."""
        for (number, node), debt in self._open.items():
            if number == confirm.session and debt.expects(confirm.step) and confirm.outcome == Happening.DONE.value:
                return number, node
        return None

    def settle(self, session: int, node: str) -> bool:
        """Go on to what the node hears next; say whether it has heard everything."""
        debt = self._open[session, node]
        if debt.phase is Phase.READMITTING:
            debt.phase = Phase.RESUMING
            return False
        del self._open[session, node]
        return True

    def forget(self, session: int, node: str) -> None:
        """Forget what the trace says was confirmed."""
        self._open.pop((session, node), None)
