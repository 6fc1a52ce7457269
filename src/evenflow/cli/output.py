"""Results go to standard output, everything else to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """Return the console of standard output, or of standard error.

    Text is printed as it is: rich would read brackets in a name as markup, and words between colons as emoji.
    What shall be coloured is a ``rich.text.Text``.
    """
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def print_json(result: Mapping[str, Any]) -> None:
    """Write exactly one JSON object to standard output."""
    sys.stdout.write(json.dumps(result, allow_nan=False, ensure_ascii=False) + "\n")


def print_rich(*parts: Any) -> None:
    """Write tables and text to standard output, coloured when a person reads it."""
    screen = console()
    for part in parts:
        screen.print(part)


def say(sentence: str) -> None:
    """Tell a person something that is not the result."""
    sys.stderr.write(sentence + "\n")
