"""``evenflow match SUBS PUBS``: which subscriptions each publication matches."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from evenflow.subscriptions.result import Matches


def match(
    subs: Annotated[str, typer.Argument(metavar="SUBS", help="A file of id, tab, subscription per line, or -.")],
    pubs: Annotated[str, typer.Argument(metavar="PUBS", help="A file of one publication per line, or -.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find for each publication the subscriptions that it matches."""
    from evenflow.errors import BadInput
    from evenflow.subscriptions.files import STANDARD_INPUT, read_publications, read_subscriptions, refuse_faults
    from evenflow.subscriptions.matching import Index

    if subs == pubs == STANDARD_INPUT:
        raise BadInput("standard input twice", "standard input for one of SUBS and PUBS", "PUBS")
    subscriptions, publications = read_subscriptions(subs), read_publications(pubs)
    refuse_faults(subscriptions, publications)
    found = Index.from_columns(subscriptions.ids, subscriptions.predicates).match(publications.publications)
    sizes = {
        "publications": len(publications.publications),
        "subscriptions": len(subscriptions.ids),
        "pairs": int(found.counts().sum()),
    }
    write = sys.stdout.write
    if json:
        # Written piece by piece: a million subscriptions can make hundreds of millions of pairs.
        write(json_module.dumps(sizes)[:-1] + ', "matches": [')
        before = ""
        for names in _matches(found, [json_module.dumps(name, ensure_ascii=False) for name in subscriptions.ids]):
            write(f"{before}[{', '.join(names)}]")
            before = ", "
        write("]}\n")
        return
    for number, names in enumerate(_matches(found, subscriptions.ids), start=1):
        write(f"{number}\t{', '.join(names)}\n")
    counted = [f"{count} {name}" for name, count in sizes.items()]
    write(", ".join(counted) + "\n")


def _matches(found: Matches, names: Sequence[str]) -> Iterator[list[str]]:
    """Give the names of each publication's matches, ascending as the subscriptions are."""
    for chunk in found.chunks():
        ends = chunk.offsets.tolist()
        for start, stop in pairwise(ends):
            yield [names[number] for number in chunk.numbers[start:stop].tolist()]
