"""Slices under every fault at random moments: nothing may be lost, doubled or owned twice."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evenflow.actor import Received
from evenflow.experiments.registry import Experiment, TraceWriter
from evenflow.experiments.settings import setting
from evenflow.experiments.slices.faults import Faults
from evenflow.experiments.slices.figures import chaos_figures
from evenflow.experiments.slices.world import BALANCER, World
from evenflow.invariants import SliceCheck
from evenflow.sim import Network, Simulation
from evenflow.slices.algorithm import Movement
from evenflow.slices.balancer import Drain, Pause
from evenflow.slices.nodemap import NodeMap, NodeView
from evenflow.slices.publisher import Due
from evenflow.slices.settings import BalancerSettings, NodeSettings


@dataclass(frozen=True)
class ChaosSettings:
    """What `slices-chaos` can be told."""

    nodes: int = setting(5, "processing nodes; one more joins and one is drained on the way", low=2, high=1000)
    slices: int = setting(24, "slices", low=1, high=100_000)
    publishers: int = setting(4, "publishers", low=1, high=10_000)
    rate: float = setting(120.0, "items per second, in all", low=0.1)
    seconds: float = setting(20.0, "virtual seconds with faults", low=1.0)
    faulted: float = setting(0.8, "share of sessions that a fault is aimed at", low=0.0, high=1.0)
    loss: float = setting(0.01, "background loss per message", low=0.0, high=0.5)
    duplication: float = setting(0.01, "background duplication per message", low=0.0, high=0.5)
    reordering: float = setting(0.02, "background reordering per message", low=0.0, high=0.5)
    vanish: int = setting(0, "nodes that vanish for good, each at a step of a session", low=0, high=1000)
    filter: Literal["reader", "node"] = setting("reader", "where foreign items are filtered out")
    order: Literal["safe", "literal"] = setting("safe", "order of the five actions")
    ablate: Literal["none", "merge", "buffer"] = setting("none", "what is taken away to show that it is needed")


class Shuffle:
    """An algorithm that keeps moving slices at random: the worst customer a protocol can have."""

    def __init__(self, chance: random.Random, every_s: float) -> None:
        self._chance = chance
        self._every_s = every_s
        self._due = 0.0

    def on_new_node(self, node: NodeView) -> None:
        """Nothing to prepare."""

    def analyze(self, nodes: NodeMap, now: float) -> list[Movement]:
        """Move a few slices between two nodes drawn at random."""
        usable = nodes.usable(now)
        if now < self._due or len(usable) < 2:
            return []
        self._due = now + self._every_s
        movements = []
        for giver in usable:
            if nodes.held(giver) and self._chance.random() < 0.7:
                taker = self._chance.choice([n for n in usable if n != giver])
                movements.append(Movement(giver, taker, self._chance.randint(1, 3), why="shuffled"))
        return movements


def items(chance: random.Random, settings: ChaosSettings) -> Iterator[Due]:
    """Write items of random slices at random moments, a share of the whole rate."""
    at, rate = 0.5, settings.rate / settings.publishers
    while (at := at + chance.expovariate(rate)) < settings.seconds:
        yield Due(at, chance.randrange(settings.slices))


def run(settings: ChaosSettings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    """Run one seed: faults for a while, then peace until every item is acknowledged."""
    check = SliceCheck()
    seats: dict[int, tuple[str, str]] = {}

    def write(record: Mapping[str, Any]) -> None:
        check.read(record)
        if record["kind"] == "session":
            seats[record["session"]] = (record["giver"], record["taker"])
        if trace is not None:
            trace(record)

    safe = settings.order == "safe"
    network = Network(
        delay=0.004,
        jitter=0.004,
        loss=settings.loss,
        duplication=settings.duplication,
        reordering=settings.reordering,
        late=0.5,
    )
    sim = Simulation(seed, network, write)
    world = World(
        sim,
        NodeSettings(
            slices=settings.slices,
            filter=settings.filter,
            order=settings.order,
            acks="commit" if safe else "receipt",
            ablate=settings.ablate,
            monitor_s=0.5,
            drain_s=0.03,
        ),
        BalancerSettings(slices=settings.slices, order=settings.order, timeout_s=1.0),
        lambda: Shuffle(sim.chance(f"shuffle {sim.now}"), every_s=0.6),
    )
    Faults(
        sim,
        settings.faulted,
        BALANCER,
        seats,
        check.ended,
        vanish=settings.vanish,
        gone=world.vanished,
        settled_s=settings.seconds / 4,
    )
    for number in range(settings.nodes):
        sim.at(0.1 * number, lambda n=number: world.join(f"node-{n}"))  # type: ignore[misc]  # n is bound at once
    sim.at(settings.seconds / 3, lambda: world.join(f"node-{settings.nodes}"))
    sim.at(settings.seconds / 2, lambda: sim.post("operator", BALANCER, Drain("node-1")))
    for number in range(settings.publishers):
        world.publish(items(sim.chance(f"publisher {number}"), settings), retry_s=0.7)
    sim.run(until=settings.seconds)
    quiet(sim, world)
    if safe:
        world.note_final()
    world.note_waiting()
    check.comparison().judged("slices-chaos")
    return {
        **check.findings(),
        **world.left_over(),
        "stranded_items": len(check.stranded_items()),
        "max_session_s": max((seconds for _, seconds, _ in check.ended.values()), default=0.0),
        "events": sim.events,
        "end_s": sim.now,
    }


def quiet(sim: Simulation, world: World, patience_s: float = 60.0) -> None:
    """Heal the network, restart what is down, stop planning, and wait until nothing is under way."""
    sim.network.heal()
    until = sim.now + patience_s
    while sim.now < until:
        for name in [BALANCER, *world.living]:
            sim.restart(name)  # again and again: a crash that was due may still come
        sim.deliver(BALANCER, Received("operator", Pause(paused=True)))
        sim.run(until=sim.now + 1.0)
        if sim.running(BALANCER) and world.at_rest():
            break


CHAOS = Experiment(
    "slices-chaos",
    "every fault at random moments of a session; nothing lost, nothing twice.",
    ChaosSettings,
    run,
    chaos_figures,
)
