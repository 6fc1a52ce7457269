"""Global load balancing: clusters in a chain, all subscribers join one broker of the first (section 5.2.2)."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evenflow.experiments.brokers.figures import global_figures, series_of
from evenflow.experiments.brokers.overlay import BrokerSpec
from evenflow.experiments.brokers.settings import PadresSettings
from evenflow.experiments.brokers.summary import WINDOW_S, summarize
from evenflow.experiments.brokers.world import BrokerWorld
from evenflow.experiments.figures import SERIES
from evenflow.experiments.registry import Experiment, TraceWriter
from evenflow.experiments.settings import setting

UNEQUAL = {  # Table 5.4: MHz, MB, Mbit/s
    "B11": (300, 128, 1), "B12": (200, 128, 0.5), "B21": (350, 64, 1), "B22": (400, 64, 1.5),
    "B31": (266, 64, 1), "B32": (700, 64, 2), "B41": (166, 64, 0.5), "B42": (233, 128, 0.5),
}  # fmt: skip
STAR = {  # Table 5.5
    "B11": (266, 64, 1), "B12": (700, 64, 2), "B21": (300, 128, 1), "B22": (200, 128, 0.5),
    "B31": (350, 64, 1), "B32": (400, 64, 1.5), "B41": (166, 64, 0.5), "B42": (233, 128, 0.5),
}  # fmt: skip
EQUAL = (500, 64, 3)  # the edge brokers of section 5.3.2.1


@dataclass(frozen=True)
class GlobalSettings(PadresSettings):
    """The settings of `padres-global`."""

    zero_traffic: float = setting(0.2, "share of subscriptions that match nothing", low=0.0, high=1.0)
    seconds: float = setting(12_000.0, "virtual seconds", low=200.0, high=50_000.0)
    change_at: float = setting(8000.0, "when half of the publishers double their rates", low=0.0)
    clusters: int = setting(4, "clusters; other than four they are all equal", low=2, high=50)
    equal: bool = setting(default=False, help="equal brokers also with four clusters")
    topology: Literal["chain", "star"] = setting("chain", "how the heads are linked; the star has Table 5.5")


def specs_of(settings: GlobalSettings) -> tuple[list[BrokerSpec], list[tuple[str, str]]]:
    """Return the brokers and links of the clusters: one head with two edge brokers each."""
    heads = [f"B{number}0" for number in range(1, settings.clusters + 1)]
    table = STAR if settings.topology == "star" else UNEQUAL
    equal = settings.equal or settings.clusters != 4
    specs: list[BrokerSpec] = []
    for number, head in enumerate(heads, 1):
        specs.append(BrokerSpec(head, head, None, *((2000, 32, 10) if equal else (3000, 128, 10))))
        specs += [BrokerSpec(n, head, head, *(EQUAL if equal else table[n])) for n in (f"B{number}1", f"B{number}2")]
    star = settings.topology == "star"
    links = [(heads[0] if star else heads[i], heads[i + 1]) for i in range(len(heads) - 1)]
    return specs, links


def run(settings: GlobalSettings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    """Run one seed."""
    specs, links = specs_of(settings)
    world = BrokerWorld(settings, specs, links, "B11", seed, trace)
    world.run()
    row = summarize(world)
    row.update(cluster_fields(world))
    row[SERIES] = series_of(world, clusters=True)
    return row


def cluster_fields(world: BrokerWorld) -> dict[str, Any]:
    """Return the results by cluster: averages over their edge brokers before the change and at the end."""
    settings, history = world.settings, world.history
    clusters = list(dict.fromkeys(spec.cluster for spec in world.specs))
    edges = {cluster: [s.name for s in world.specs if s.head == cluster] for cluster in clusters}

    def average(index: str, begin: float, end: float) -> dict[str, float]:
        places = [i for i, at in enumerate(history.at) if begin < at <= end]
        return {
            cluster: statistics.fmean(getattr(history.loads[name][i], index) for name in names for i in places)
            for cluster, names in edges.items()
        }

    change, end = min(settings.change_at, settings.seconds), settings.seconds
    before = average("input_ratio", change - WINDOW_S, change)
    after = average("input_ratio", end - WINDOW_S, end)
    total = sum(broker.clients for broker in world.sim.brokers.values()) or 1
    own = [s for s in history.global_sessions if s["how"] != "the other ended it"]
    return {
        "cluster_input": before,
        "cluster_input_end": after,
        "cluster_output": average("output_ratio", change - WINDOW_S, change),
        "cluster_output_end": average("output_ratio", end - WINDOW_S, end),
        "cluster_delay_s": average("matching_delay", change - WINDOW_S, change),
        "cluster_shares": {
            c: 100.0 * sum(world.sim.brokers[n].clients for n in names) / total for c, names in edges.items()
        },
        "first_last_gap": before[clusters[0]] - before[clusters[-1]],
        "first_last_gap_end": after[clusters[0]] - after[clusters[-1]],
        "cluster_std_input": statistics.pstdev(before.values()),
        "cluster_std_output": statistics.pstdev(average("output_ratio", change - WINDOW_S, change).values()),
        "falls_with_distance": falls(list(before.values())),
        "global_sessions": len(own),
        "open_global_sessions": open_sessions(world),
        "convergence_global_s": max(
            (s["at"] for s in history.sessions if s["moved"] and s["at"] <= change), default=None
        ),
    }


def falls(values: Sequence[float], slack: float = 0.03) -> bool:
    """Return whether values fall from first to last, with some slack.

    Examples
    --------
    >>> falls([0.5, 0.4, 0.41, 0.2]), falls([0.2, 0.5])
    (True, False)
    """
    return all(one >= other - slack for one, other in itertools.pairwise(values)) and values[0] > values[-1]


def open_sessions(world: BrokerWorld) -> int:
    """Return how many heads are in a session at the end."""
    cells = (world.sim.cells.get(spec.name) for spec in world.specs if not spec.head)
    actors: list[Any] = [cell.actor for cell in cells if cell is not None and cell.actor is not None]
    return sum(actor.actor.partner is not None for actor in actors)


GLOBAL = Experiment(
    "padres-global",
    "four clusters in a chain, all subscribers join the first; load spreads (Cheung 2006, 5.2.2).",
    GlobalSettings,
    run,
    global_figures,
)
