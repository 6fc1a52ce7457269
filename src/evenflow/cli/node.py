"""``evenflow node`` and ``evenflow balancer``: DPSLB as processes on a data distribution service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenflow.cli.output import say
from evenflow.errors import BadInput

_STATE = Path(".evenflow")
Domain = Annotated[int, typer.Option(help="The DDS domain.")]
Slices = Annotated[int, typer.Option(help="How many slices; the same on every node and the balancer.")]
State = Annotated[Path | None, typer.Option(metavar="DIR", help="Where it remembers; .evenflow/NAME if not given.")]
Keep = Annotated[bool, typer.Option("--keep-log", help="Keep everything that was ever noted.")]
Monitor = Annotated[float, typer.Option(help="Seconds between two samples of a node's load.")]


def node(
    app: Annotated[str, typer.Option(metavar="MODULE:CLASS", help="The listener that processes items.")],
    name: Annotated[str, typer.Option(help="The node's name on the domain.")],
    slices: Slices = 10,
    domain: Domain = 0,
    state: State = None,
    filter: Annotated[str, typer.Option(help="reader: foreign slices stay away; node: they are shown.")] = "reader",  # noqa: A002
    commit_s: Annotated[float, typer.Option(help="Seconds between two commits.")] = 0.02,
    monitor_s: Monitor = 2.0,
    overlap_s: Annotated[float, typer.Option(help="How long two readers overlap when the filter changes.")] = 0.25,
    speed: Annotated[float, typer.Option(help="Cost that it can process per second; its weight.")] = 20000.0,
    keep: Keep = False,
) -> None:
    """Run a processing node; SIGTERM drains it and lets it go, SIGINT ends it at once and it can be started again."""
    _check(slices, monitor_s)
    if filter not in ("reader", "node"):
        raise BadInput(repr(filter), "reader or node", "--filter")
    for value, where in ((commit_s, "--commit-s"), (speed, "--speed"), (overlap_s, "--overlap-s")):
        if not 0 < value < 1e9:
            raise BadInput(f"{value:g}", "a number above 0", where)
    from evenflow.dds.application import load
    from evenflow.dds.node_process import NodeProcess
    from evenflow.slices.settings import NodeSettings

    settings = NodeSettings(
        slices=slices,
        filter="node" if filter == "node" else "reader",
        speed=speed,
        commit_s=commit_s,
        monitor_s=monitor_s,
        overlap_s=overlap_s,
        drain_s=overlap_s,
        resend_s=1.0,
    )
    running = NodeProcess(name, load(app), settings, domain, state or _STATE / name, keep=keep)
    running.process.catch_signals()
    say(f"node {name} on domain {domain}")
    running.run()
    if running.refused:
        raise BadInput(running.refused, "the number of slices that everybody has", "--slices")


def balancer(
    slices: Slices = 10,
    policy: Annotated[str, typer.Option(help="Which policy offers moves.")] = "even_counts",
    every_s: Annotated[float, typer.Option(help="Plan at most this often.")] = 0.0,
    domain: Domain = 0,
    state: State = None,
    monitor_s: Monitor = 2.0,
    timeout_s: Annotated[
        float, typer.Option(help="A longer phase is rolled back; choose more than the overlap.")
    ] = 5.0,
    keep: Keep = False,
) -> None:
    """Run the load balancer until it is interrupted; started again, it goes on where it was."""
    _check(slices, monitor_s)
    from evenflow.dds.balancer_process import BalancerProcess
    from evenflow.policies import named
    from evenflow.slices.algorithm import Planned
    from evenflow.slices.settings import BalancerSettings

    algorithm = Planned(named(policy), every_s=every_s, samples=0 if policy == "even_counts" else 3, name=policy)
    settings = BalancerSettings(slices=slices, resend_s=1.0, timeout_s=timeout_s)
    running = BalancerProcess(algorithm, settings, monitor_s, domain, state or _STATE / "balancer", keep=keep)
    running.process.catch_signals()
    say(f"balancer on domain {domain}")
    running.run()


def _check(slices: int, monitor_s: float) -> None:
    if slices < 1:
        raise BadInput(str(slices), "a whole number of at least 1", "--slices")
    if not 0 < monitor_s < 1e9:
        raise BadInput(f"{monitor_s:g}", "a number above 0", "--monitor-s")
