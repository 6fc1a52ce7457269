"""How fast trigger groups are decided on and formed, at sizes that no published cluster had."""

from __future__ import annotations

import random
import statistics
import time
from typing import Any

from evenflow.triggers.estimate import LinePerType, MeanPerType, WorkloadEstimator
from evenflow.triggers.grouping import deal, form_groups
from evenflow.triggers.policies import AskWhenIdle, Dlber, FillToMean, Policy, WorkerLoad
from evenflow.triggers.waiting import Invocation, Waiting

TURNS = 5
TYPES = ("PageRankDist", "PageRankSum")


def bench_triggers(workers: int = 1000, triggers: int = 1_000_000, seed: int = 1) -> dict[str, Any]:
    """Measure one balancing decision: the loads of all queues and the policy, then the groups of the slowest giver.

    Queues are as skewed as ``(i + 1) ** -1.5``; each policy meets the same ones, in turn, and what it takes out of
    them is put back. The seconds are CPU seconds, the median of several turns.
    """
    began = time.perf_counter()
    chance = random.Random(seed)
    queues = _queues(workers, triggers, chance)
    arms: dict[str, tuple[Policy, WorkloadEstimator]] = {
        "dlber": (Dlber(), _taught(MeanPerType())),
        "fill_to_mean": (FillToMean(), _taught(LinePerType())),
        "ask_when_idle": (AskWhenIdle(), _taught(LinePerType())),
    }
    found: dict[str, list[tuple[float, float, int]]] = {name: [] for name in arms}
    for _ in range(TURNS):
        for name, (policy, estimate) in arms.items():
            found[name].append(_decide(queues, policy, estimate))
    rows = []
    base = [decide + group for decide, group, _ in found["dlber"]]
    for name, turns in found.items():
        whole = [decide + group for decide, group, _ in turns]
        rows.append(
            {
                "case": f"{workers} workers, {triggers} triggers",
                "variant": name,
                "decision_s": statistics.median(decide for decide, _, _ in turns),
                "grouping_s": statistics.median(group for _, group, _ in turns),
                "total_s": statistics.median(whole),
                "moved": turns[-1][2],
                "baseline": "dlber",
                "ratio": statistics.median(w / b for w, b in zip(whole, base, strict=True)),
            }
        )
    return {"bench": "triggers", "rows": rows, "seconds": round(time.perf_counter() - began, 1)}


def _queues(workers: int, triggers: int, chance: random.Random) -> list[Waiting]:
    weights = [(i + 1) ** -1.5 for i in range(workers)]
    total = sum(weights)
    queues, key = [], 0
    for i, weight in enumerate(weights):
        queue = Waiting()
        count = round(triggers * weight / total) if i < workers - 1 else triggers - key
        for _ in range(max(0, count)):
            queue.add(Invocation(TYPES[key & 1], key, float(int(chance.paretovariate(1.0)))))
            key += 1
        queues.append(queue)
    return queues


def _taught(estimate: Any) -> Any:
    for trigger in TYPES:
        for size in (1.0, 10.0, 100.0):
            estimate.learn(trigger, size, 0.05 + 0.01 * size)
    return estimate


def _decide(queues: list[Waiting], policy: Policy, estimate: WorkloadEstimator) -> tuple[float, float, int]:
    began = time.process_time()
    loads = [
        WorkerLoad(f"worker-{i:04}", load, waiting=len(queue), asking=not queue.items or load < 5.5)
        for i, queue in enumerate(queues)
        for load in (queue.load(estimate),)
    ]
    transfers = policy.decide(loads)
    decided = time.process_time()
    taken = []
    givers: dict[int, float] = {}  # they form their groups side by side
    for transfer in transfers:
        giver = int(transfer.giver.removeprefix("worker-"))
        before = time.process_time()
        if transfer.share:
            groups = deal(queues[giver], estimate, transfer.share, transfer.after)
        else:
            groups = form_groups(queues[giver], estimate, 1.0, transfer.seconds, transfer.groups)
        taken += [(queues[giver], group) for _, group in groups]
        givers[giver] = givers.get(giver, 0.0) + time.process_time() - before
    for queue, group in taken:
        for invocation in group:
            queue.add(invocation)
    return decided - began, max(givers.values(), default=0.0), sum(len(group) for _, group in taken)
