"""``evenflow cover SUBS``: which subscriptions cover which."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from evenflow.cli.output import print_json


def cover(
    subs: Annotated[
        str, typer.Argument(metavar="SUBS", help="A file of id, tab, subscription per line, or - for standard input.")
    ],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find the subscriptions that no other covers, and who covers whom directly."""
    from evenflow.subscriptions.covering import covering
    from evenflow.subscriptions.files import read_subscriptions, refuse_faults

    file = read_subscriptions(subs)
    refuse_faults(file)
    found = covering(file.ids, file.predicates)
    if json:
        print_json(
            {
                "subscriptions": len(file.ids),
                "css": found.css,
                "edges": found.edges,
                "contradictions": found.contradictions,
            }
        )
        return
    lines = [f"{len(file.ids)} subscriptions, {len(found.css)} that no other covers:", *found.css]
    if found.edges:
        lines += ["", "Covered directly:", *(f"{a} covers {b}" for a, b in found.edges)]
    if found.contradictions:
        lines += ["", "Match nothing, as they contradict themselves:", *found.contradictions]
    sys.stdout.write("\n".join(lines) + "\n")
