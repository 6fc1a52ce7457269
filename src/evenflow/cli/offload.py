"""``evenflow offload FILE``: which subscribers one broker would give to another. A dry run: it moves nobody."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from evenflow.cli.output import print_json, print_rich
from evenflow.errors import BadInput


def offload(
    file: Annotated[str, typer.Argument(help="JSON with both brokers and the subscriptions; - reads standard input.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Decide which subscribers a broker would give to another, without moving any."""
    from evenflow.brokers.offload_file import answer

    result = answer(*_read(file))
    if json:
        print_json(result)
    else:
        print_rich(*_text(result))


def _read(file: str) -> tuple[bytes, str]:
    if file == "-":
        return sys.stdin.buffer.read(), "standard input"
    try:
        return Path(file).read_bytes(), file
    except OSError as error:
        raise BadInput(
            f"{file!r} ({error.strerror or error})", "a file that can be read, or - for standard input", "FILE"
        ) from error


def _text(result: dict[str, Any]) -> list[Any]:
    from rich.table import Table

    picks = Table("subscription", "subscribers", "step", title="offload", title_justify="left")
    for (name, number), step in zip(result["offload"], result["steps"], strict=True):
        picks.add_row(str(name), str(number), step)
    after = Table("estimated after", "offloading", "accepting", title_justify="left")
    for key in result["offloading_after"]:
        after.add_row(
            key.replace("_", " "), *(f"{result[side][key]:.6g}" for side in ("offloading_after", "accepting_after"))
        )
    return [picks if result["offload"] else "Nothing to offload.", after]
