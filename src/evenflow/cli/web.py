"""``evenflow web DIR``: look at a run, live or finished."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from evenflow.cli.output import say

LOOK_S = 0.2


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)  # whoever started the page ends it so; that is no fault


def web(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory, or a live query's checkpoint.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 takes any free port.")] = 5006,
    address: Annotated[str, typer.Option(help="Another address than this machine's own needs a token.")] = "127.0.0.1",
    token: Annotated[str, typer.Option(help="Whoever opens the page must give it: /?token=…")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the run has begun its trace.")] = False,
    seed: Annotated[int | None, typer.Option(help="Of a trace with several seeds, the one to show.")] = None,
) -> None:
    """Show a run as a page: loads, moves and why, refusals; metrics for Prometheus at /metrics."""
    from evenflow.web.follow import Followed, has_trace
    from evenflow.web.server import make_server

    signal.signal(signal.SIGTERM, _leave)
    while wait and not has_trace(directory):
        time.sleep(LOOK_S)
    followed = Followed(directory, seed)
    followed.look()  # what cannot be read is refused here, not on the page
    server = make_server(followed, port, address, token)
    server.start()
    say(f"http://{address}:{server.port}/  (Ctrl-C ends)")
    try:
        server.io_loop.start()
    finally:
        server.stop()
