"""``evenflow web DIR``: look at a run, live or finished."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenflow.cli.output import say


def web(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory, or a live query's checkpoint.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 takes any free port.")] = 5006,
    address: Annotated[str, typer.Option(help="Another address than this machine's own needs a token.")] = "127.0.0.1",
    token: Annotated[str, typer.Option(help="Whoever opens the page must give it: /?token=…")] = "",
    seed: Annotated[int | None, typer.Option(help="Of a trace with several seeds, the one to show.")] = None,
) -> None:
    """Show a run as a page: loads, moves and why, refusals; metrics for Prometheus at /metrics."""
    from evenflow.web.follow import Followed
    from evenflow.web.server import make_server

    server = make_server(Followed(directory, seed), port, address, token)
    server.start()
    say(f"http://{address}:{server.port}/  (Ctrl-C ends)")
    try:
        server.io_loop.start()
    finally:
        server.stop()
