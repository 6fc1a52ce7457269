"""The experiment ``dlber-chaos``: messages are lost, repeated and late, workers and master crash, and groups move."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from evenflow.experiments.registry import Experiment, TraceWriter
from evenflow.experiments.settings import setting
from evenflow.experiments.triggers.graph import power_law, skewed_homes
from evenflow.experiments.triggers.world import MASTER, Cluster, Costs
from evenflow.invariants import compare
from evenflow.sim import Network
from evenflow.triggers.app import Key, Row
from evenflow.triggers.channel import Packet
from evenflow.triggers.messages import Instruct, Lend, Result, Return
from evenflow.triggers.pagerank import pagerank
from evenflow.triggers.policies import Transfer, WorkerLoad
from evenflow.triggers.settings import BalancerSettings, WorkerSettings


@dataclass(frozen=True)
class ChaosSettings:
    """Settings of `dlber-chaos`."""

    pages: int = setting(60, "pages of the generated graph", low=2, high=100_000)
    workers: int = setting(4, "workers", low=2, high=100)
    skew: float = setting(1.0, "of the placement", low=0.0, high=5.0)
    tolerance: float = setting(0.01, "change of a rank that is passed on", low=1e-9, high=1.0)
    seconds: float = setting(12.0, "virtual seconds with faults", low=1.0)
    crashes: float = setting(0.6, "crashes per second: workers with their queues, now and then the master", low=0.0)
    loss: float = setting(0.05, "loss per message", low=0.0, high=0.5)
    duplication: float = setting(0.05, "duplication per message", low=0.0, high=0.5)
    reordering: float = setting(0.05, "reordering per message", low=0.0, high=0.5)
    order: Literal["arrival", "gain"] | None = setting(None, "which trigger runs first; none is gain for even seeds")
    ablate: Literal["none", "channel", "durable"] = setting("none", "what is taken away to show that it is needed")


@dataclass(slots=True)
class Shuffle:
    """A policy that keeps sending groups back and forth at random."""

    chance: random.Random
    asks: bool = False

    def decide(self, workers: Sequence[WorkerLoad]) -> list[Transfer]:
        """Return a transfer from most workers with waiting triggers, each to a random other worker."""
        found = []
        for giver in workers:
            others = [w.id for w in workers if w.id != giver.id]
            if giver.waiting and others and self.chance.random() < 0.7:
                seconds = giver.load_s * self.chance.random()
                found.append(Transfer(giver.id, self.chance.choice(others), seconds, share=self.chance.random()))
        return found


@dataclass(slots=True)
class EffectCheck:
    """A check on the trace: an effect must have read a newer version of the row than the effect applied before it."""

    last: dict[tuple[str, Key], int] = field(default_factory=dict)
    effects: int = 0
    doubled: int = 0

    def read(self, record: Mapping[str, Any]) -> None:
        """Check one record of the trace."""
        if record["kind"] == "applied":
            who, version = (record["trigger"], record["key"]), record["read"]
            self.effects += 1
            self.doubled += version <= self.last.get(who, 0)
            self.last[who] = version


Effect = tuple[str, Key, Key]
"""The name of a trigger or event, the page that it changes, and the page that it comes from."""


def effects_in(rows: Mapping[Key, Row], tolerance: float, damping: float = 0.85) -> Iterator[tuple[Effect, bool]]:
    """Yield every effect that the pages' rows must show at the end, and whether they do."""
    for key, row in rows.items():
        wanted = 1.0 - damping + damping * sum(row["weights"].values())
        yield ("sums", key, key), abs(row["rank"] - wanted) <= 1e-12
        yield ("dists", key, key), abs(row["rank"] - row["told"]) <= tolerance
        for target in row["links"]:
            yield ("events", target, key), rows[target]["weights"].get(key) == row["told"] / len(row["links"])


def run(settings: ChaosSettings, seed: int, trace: TraceWriter | None) -> Mapping[str, object]:
    """Run one seed: first with faults, then without them until nothing waits."""
    check = EffectCheck()
    faults: Counter[str] = Counter()

    def write(record: Mapping[str, Any]) -> None:
        check.read(record)
        if trace is not None:
            trace(record)

    def on_fault(kind: str, _: str, to: str, message: Any, now: float) -> None:
        faults[f"{kind} of {_what(message)}"] += 1
        write({"kind": "fault", "at": now, "fault": kind, "node": to, "step": _what(message)})

    network = Network(
        delay=0.004,
        jitter=0.004,
        loss=settings.loss,
        duplication=settings.duplication,
        reordering=settings.reordering,
        late=0.4,
        on_fault=on_fault,
    )
    worker = WorkerSettings(
        order=settings.order or ("arrival" if seed % 2 else "gain"),
        heartbeat_s=0.2,
        trigroup_s=0.05,
        estimate="line",
        first_s=0.01,
        resend_s=0.0 if settings.ablate == "channel" else 0.15,
        lease_s=1.0,
        durable=settings.ablate != "durable",
        record=True,
    )
    chance = np.random.default_rng([seed, 1])
    graph = power_law(settings.pages, chance, mean=4.0)
    homes = skewed_homes(graph.pages, settings.workers, settings.skew, chance)
    cluster = Cluster(
        graph,
        homes,
        pagerank(settings.tolerance),
        [1.0] * settings.workers,
        worker,
        BalancerSettings(heartbeat_s=0.2, decision_s=0.002),
        Shuffle(random.Random(f"{seed}/shuffle")),
        Costs(0.01, 0.002),
        seed=seed,
        trace=write,
        network=network,
    )
    crashed = _crashes(cluster, settings)
    cluster.sim.run(until=settings.seconds)
    network.heal()
    for name in [MASTER, *cluster.names]:
        cluster.sim.restart(name)
    end = cluster.run(step_s=1.0, most_s=settings.seconds + 300.0)
    effects = dict(effects_in(cluster.rows(), settings.tolerance))
    there = [effect for effect, is_there in effects.items() if is_there]
    busy = cluster.busy_pages()
    still_there = {effect for effect in effects if effect[1] in busy}
    found = compare(effects, there, still_there).judged("dlber-chaos")
    lost = effects.keys() - still_there - set(there)
    return {
        "unprocessed": found.unprocessed,
        "lost": found.lost,
        "doubled": check.doubled,
        "unfinished": int(not cluster.quiet()),
        "effects": check.effects,
        "crashes": len(crashed),
        "lent": cluster.total("lent"),
        "taken_back": cluster.total("taken_back"),
        "late_results": cluster.total("late"),
        "lost_by": {name: sum(effect[0] == name for effect in lost) for name in ("sums", "dists", "events")},
        "faults": dict(sorted(faults.items())),
        "end_s": end,
    }


def _crashes(cluster: Cluster, settings: ChaosSettings) -> list[str]:
    """Schedule crashes at random times; a worker is down for a while and restarts with its saved state."""
    sim = cluster.sim
    chance = sim.chance("crashes")
    crashed: list[str] = []

    def crash(name: str, seconds: float) -> None:
        if sim.running(name):
            crashed.append(name)
            sim.crash(name)
            sim.note({"kind": "fault", "at": sim.now, "fault": "crash", "node": name})
            sim.at(sim.now + seconds, lambda: sim.restart(name))

    at = 0.0
    while settings.crashes and (at := at + chance.expovariate(settings.crashes)) < settings.seconds:
        name = MASTER if chance.random() < 0.15 else chance.choice(cluster.names)
        down = 0.05 + 2.0 * chance.random() ** 2  # sometimes longer than a lease
        sim.at(at, lambda name=name, down=down: crash(name, down))  # type: ignore[misc]  # bound at once
    return crashed


def _what(message: Any) -> str:
    """Return the kind of a message, for the count of faults."""
    body = message.body if isinstance(message, Packet) else message
    parts = body if type(body) is tuple else (body,)
    for kind, name in ((Lend, "group"), (Result, "result"), (Return, "return"), (Instruct, "instruction")):
        if any(isinstance(part, kind) for part in parts):
            return name
    return "other"


CHAOS = Experiment(
    "dlber-chaos",
    "trigger groups under loss, repetition, delay and crashes; no trigger lost, none with effect twice.",
    ChaosSettings,
    run,
)
