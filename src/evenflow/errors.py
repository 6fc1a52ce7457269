"""The error for bad input: what was given, what is allowed, and where."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class BadInput(ValueError):
    """Input that cannot be used; commands print it as one sentence and exit with code 2.

    Parameters
    ----------
    given
        What was found, as text: ``"-1"``, ``"'abc'"``, ``"no units"``.
    allowed
        What would be valid: ``"a number of at least 0"``.
    where
        The place: ``"plan.json: units[3].load"``, ``"--seeds"``.

    Examples
    --------
    >>> str(BadInput("-1", "a number of at least 0", "units[3].load"))
    'units[3].load: given -1, allowed is a number of at least 0.'
    """

    def __init__(self, given: str, allowed: str, where: str) -> None:
        super().__init__(given, allowed, where)  # all three, so that the error can be pickled
        self.given = given
        self.allowed = allowed
        self.where = where

    def __str__(self) -> str:
        sentence = f"{self.where}: given {self.given}, allowed is {self.allowed}"
        return " ".join(sentence.split()).rstrip(".") + "."


def nearest(name: str, names: Iterable[str]) -> str:
    """Return which names are allowed, as text: those similar to ``name``, or all of them if none is.

    Examples
    --------
    >>> nearest("slice-join", ["slices-drift", "slices-join"])
    "'slices-join', 'slices-drift' (nearest)"
    >>> nearest("x", ["slices-drift", "slices-join"])
    "one of 'slices-drift', 'slices-join'"
    """
    names = sorted(names)
    close = get_close_matches(name, names, n=3)
    if close:
        return ", ".join(repr(n) for n in close) + " (nearest)"
    return "one of " + ", ".join(repr(n) for n in names) if names else "none"
