"""DPSLB as processes on a data distribution service: what is lost, doubled and delayed while nodes come, go and die.

Real processes in real time: unlike the experiments in virtual time, two runs with one seed differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evenflow.experiments.registry import Experiment, TraceWriter
from evenflow.experiments.settings import setting
from evenflow.extras import need


@dataclass(frozen=True)
class DdsSettings:
    """The settings of ``dds-nodes``."""

    items: int = setting(200_000, "items in all", low=100)
    rate: float = setting(4000.0, "items per second in all", low=1.0)
    writers: int = setting(50, "writers", low=1, high=1000)
    publishers: int = setting(4, "processes that the writers live in", low=1, high=16)
    nodes: int = setting(4, "processing nodes at the start", low=1, high=50)
    join: int = setting(2, "nodes that join while items flow", low=0, high=20)
    drain: int = setting(1, "nodes that are drained", low=0, high=1)
    kill: int = setting(1, "nodes that are killed with kill -9 and started again", low=0, high=1)
    slices: int = setting(60, "slices", low=1, high=10_000)
    filter: Literal["reader", "node"] = setting("reader", "where foreign items are kept away")
    monitor_s: float = setting(2.0, "seconds between two samples of a node", low=0.1)
    commit_s: float = setting(0.02, "seconds between two commits of a node", low=0.001)
    overlap_s: float = setting(0.25, "how long two readers overlap when the filter changes", low=0.01)
    retry_s: float = setting(2.0, "an item that is not acknowledged for so long is written again", low=0.1)
    patience_s: float = setting(120.0, "how long publishers wait for acknowledgements after the last item", low=1.0)
    domain: int = setting(0, "the DDS domain; 0 takes one from the process's number", low=0, high=230)


def run_nodes(settings: DdsSettings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:  # noqa: ARG001 - nothing here is drawn by chance
    """Run the processes, then compare the publishers' logs with the listeners'."""
    need("cyclonedds", "dds-nodes")  # by the processes that it starts
    from evenflow.experiments.dds.nodes import Stage  # noqa: PLC0415 - starts processes; the registry only reads names

    row: dict[str, Any] = Stage(settings, trace).run()
    return row


EXPERIMENTS = (
    Experiment(
        "dds-nodes",
        "Nodes join, are drained and are killed on a real data distribution service; nothing is lost or doubled.",
        DdsSettings,
        run_nodes,
        options=("items", "rate"),
    ),
)
