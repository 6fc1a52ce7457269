"""``evenflow doctor``: what this machine has, what is missing, and how to get it."""

from __future__ import annotations

from typing import Annotated

import typer

from evenflow.cli.output import print_json, print_rich


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what is missing on this machine and how to get it."""
    from rich.table import Table
    from rich.text import Text

    from evenflow.cli.checks import core_works, examine

    findings = examine()
    works = core_works(findings)
    if json:
        print_json({"ok": works, "checks": [finding.as_dict() for finding in findings]})
    else:
        table = Table("part", "", "found", "to get it")
        for f in findings:
            state = ("ok", "green") if f.ok else ("missing", "red")
            table.add_row(f.part, Text.assemble(state, " ", f.name), f.found, f.remedy)
        print_rich(table, "The core works." if works else "The core does not work yet: see the lines above.")
    if not works:
        raise typer.Exit(1)
