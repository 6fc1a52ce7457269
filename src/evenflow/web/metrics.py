"""What a run does, for Prometheus: gauges of the nodes, counters of moves and refusals."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from evenflow.web import board
from evenflow.web.follow import Followed

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class RunCollector(Collector):
    """Reads the trace when it is asked, not before: a run that nobody watches pays nothing."""

    def __init__(self, followed: Followed) -> None:
        self.followed = followed

    def collect(self) -> Iterator[Metric]:
        """Give every metric of the run as it is now."""
        self.followed.look()
        run = self.followed.run
        found = board.summary(run)
        nodes = board.nodes_now(run)
        load = GaugeMetricFamily("evenflow_node_load", "Load of a node in its last sample.", labels=["node"])
        units = GaugeMetricFamily("evenflow_node_units", "Units that a node owns.", labels=["node"])
        held = GaugeMetricFamily(
            "evenflow_rows_held", "Rows that waited for a move in the last sample.", labels=["node"]
        )
        for node in nodes:
            load.add_metric([node.name], node.load)
            units.add_metric([node.name], node.units)
            held.add_metric([node.name], node.held_rows)
        yield from (load, units, held)
        yield GaugeMetricFamily("evenflow_max_over_mean", "Highest load over the mean.", found["max_over_mean"])
        if found["gap"] is not None:
            yield GaugeMetricFamily("evenflow_gap", "How far the last plan stays above the bound.", found["gap"])
        yield CounterMetricFamily("evenflow_moves", "Moves that were carried out.", found["moves"])
        refused = CounterMetricFamily("evenflow_refusals", "Moves that were refused, by reason.", labels=["why"])
        for why, times in board.refusals(run):
            refused.add_metric([why], times)
        yield refused
        took = [m.seconds for m in board.moves_seen(run) if m.seconds is not None]
        yield CounterMetricFamily("evenflow_session_seconds", "Time that sessions took in all.", sum(took))


def metrics_text(followed: Followed) -> bytes:
    """Return the metrics in Prometheus's text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(RunCollector(followed))
    return generate_latest(registry)
