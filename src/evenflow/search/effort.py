"""How long to search, counted in steps and not in seconds, so that the same input always gives the same plan."""

from __future__ import annotations


class Effort:
    """A budget of steps; one step is about a microsecond of work."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int) -> bool:
        """Take steps from the budget and return whether there were any left."""
        had = self.left > 0
        self.left -= steps
        return had
