"""Local load balancing: one cluster of four unequal edge brokers, all subscribers join the weakest (section 5.2.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evenflow.experiments.brokers.figures import local_figures, series_of
from evenflow.experiments.brokers.overlay import BrokerSpec
from evenflow.experiments.brokers.settings import PadresSettings
from evenflow.experiments.brokers.summary import summarize
from evenflow.experiments.brokers.workload_file import read_workload
from evenflow.experiments.brokers.world import BrokerWorld
from evenflow.experiments.figures import SERIES
from evenflow.experiments.registry import Experiment, TraceWriter
from evenflow.experiments.settings import setting

SPECS = (  # Table 5.3
    BrokerSpec("B0", "B0", None, 2000, 32, 10),
    BrokerSpec("B1", "B0", "B0", 100, 16, 0.5),
    BrokerSpec("B2", "B0", "B0", 200, 16, 1),
    BrokerSpec("B3", "B0", "B0", 400, 32, 2),
    BrokerSpec("B4", "B0", "B0", 1000, 32, 5),
)


@dataclass(frozen=True)
class LocalSettings(PadresSettings):
    """The settings of `padres-local`."""

    workload: str | None = setting(None, "a workload file (section 5.1), instead of Table 5.3 and drawn publishers")


def run(settings: LocalSettings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    """Run one seed."""
    if settings.workload is None:
        world = BrokerWorld(settings, SPECS, (), "B1", seed, trace)
    else:
        given = read_workload(Path(settings.workload))
        entry = next(spec.name for spec in given.brokers if spec.head)
        world = BrokerWorld(settings, given.brokers, given.links, entry, seed, trace, given)
    world.run()
    return {**summarize(world), SERIES: series_of(world)}


LOCAL = Experiment(
    "padres-local",
    "four unequal brokers, all subscribers join the weakest; it sheds them (Cheung 2006, 5.2.1).",
    LocalSettings,
    run,
    local_figures,
)
