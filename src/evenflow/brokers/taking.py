"""The taker's side of a session: who was announced and who has come, and how sessions ended for whoever asks later."""

from __future__ import annotations

from dataclasses import dataclass, field

REMEMBERED = 50  # sessions whose outcome can still be told


@dataclass(slots=True)
class Taking:
    """What the taker knows about its session."""

    session: str
    giver: str
    total: int | None = None
    arrived: set[str] = field(default_factory=set)

    @property
    def complete(self) -> bool:
        """Whether everybody who was announced has come."""
        return self.total is not None and len(self.arrived) >= self.total


class Outcomes(dict[str, frozenset[str]]):
    """Who arrived, session by session; the oldest are forgotten.

    Examples
    --------
    >>> outcomes = Outcomes()
    >>> for number in range(REMEMBERED + 1):
    ...     outcomes.remember(str(number), frozenset({"S1"}))
    >>> len(outcomes), "0" in outcomes
    (50, False)
    """

    def remember(self, session: str, arrived: frozenset[str]) -> None:
        """Note how a session ended."""
        self[session] = arrived
        while len(self) > REMEMBERED:
            del self[next(iter(self))]
