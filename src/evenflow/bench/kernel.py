"""How fast the simulator is: events per CPU-second of trivial actors, with a faulty network."""

from __future__ import annotations

import statistics
import time
from typing import Any

from evenflow.actor import Received, Send, Started, Wake, Woken
from evenflow.sim import Network, Simulation

ACTORS = 50
PAIRS = 5


class Neighbour:
    """Passes every message on to the next actor, and starts a new one each second."""

    def __init__(self, following: str) -> None:
        self._following = following

    def handle(self, event: Any, now: float) -> list[Any]:
        """Do the least that an actor can do."""
        kind = type(event)
        if kind is Received:
            return [Send(self._following, event.message)]
        if kind is Started or kind is Woken:
            return [Send(self._following, 0), Wake(now + 1.0)]
        return []


def events_per_cpu_second(network: Network, events: int) -> float:
    """Run about so many events and return how many one second of CPU handles."""
    sim = Simulation(1, network)
    for n in range(ACTORS):
        sim.add(f"actor-{n}", lambda n=n: Neighbour(f"actor-{(n + 1) % ACTORS}"))  # type: ignore[misc]  # bound at once
    began = time.process_time()
    until = 0.0
    while sim.events < events:
        until += 0.5
        sim.run(until)
    return sim.events / (time.process_time() - began)


def bench_kernel(events: int = 300_000) -> dict[str, Any]:
    """Measure a perfect and a faulty network in turn."""
    began = time.perf_counter()

    def perfect() -> Network:
        return Network(delay=0.01)

    def faulty() -> Network:
        return Network(delay=0.01, jitter=0.01, loss=0.01, duplication=0.01, reordering=0.05)

    speeds: dict[str, list[float]] = {"perfect network": [], "faulty network": []}
    for _ in range(PAIRS):
        speeds["perfect network"].append(events_per_cpu_second(perfect(), events // PAIRS))
        speeds["faulty network"].append(events_per_cpu_second(faulty(), events // PAIRS))
    ratios = [f / p for p, f in zip(*speeds.values(), strict=True)]
    rows = [
        {
            "case": "trivial actors",
            "variant": variant,
            "events_per_cpu_s": statistics.median(found),
            "baseline": "perfect network",
            "ratio": 1.0 if variant == "perfect network" else statistics.median(ratios),
        }
        for variant, found in speeds.items()
    ]
    return {"bench": "kernel", "rows": rows, "seconds": round(time.perf_counter() - began, 1)}
