"""Balancing policies, the published one and ours: each is a pure function from reported loads to transfers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple, Protocol

from evenflow.errors import BadInput, nearest
from evenflow.triggers.settings import BalancerSettings


class WorkerLoad(NamedTuple):
    """What the master knows of one worker: its workload in seconds on that worker, including transfers under way.

    ``coming_s`` seconds of this load are still on the way to it. The rest was reported ``age_s`` seconds ago.
    """

    id: str
    load_s: float
    trigroup_s: float = 1.0
    speed: float = 1.0
    waiting: int = 0
    asking: bool = False
    age_s: float = 0.0
    coming_s: float = 0.0


class Transfer(NamedTuple):
    """A transfer from giver to taker: ``groups`` groups, or with 0 ``seconds`` of the giver's work.

    With ``share`` it is that share of the work behind the first part ``after`` of the giver's queue, both as fractions.
    """

    giver: str
    taker: str
    seconds: float
    groups: int = 0
    share: float = 0.0
    after: float = 0.0


class Policy(Protocol):
    """A policy that decides on transfers."""

    @property
    def asks(self) -> bool:
        """Whether workers ask for work as soon as they run out of it."""
        ...

    def decide(self, workers: Sequence[WorkerLoad]) -> list[Transfer]:
        """Return the transfers to order now."""
        ...


@dataclass(frozen=True, slots=True)
class Dlber:
    """Algorithm 1 of *DLBer*: while the least loaded worker is below tunder, it fetches a group from the busiest.

    The printed algorithm reorders the workers after each ``task_fetch`` but does not say that their loads change.
    Here they change, because otherwise the loop would not end.
    """

    tunder_s: float = 5.5
    asks: bool = False

    def decide(self, workers: Sequence[WorkerLoad]) -> list[Transfer]:
        """Return the transfers of Algorithm 1; workers with equal loads are ordered by id.

        Examples
        --------
        >>> Dlber().decide([WorkerLoad("a", 8.0), WorkerLoad("b", 4.0), WorkerLoad("c", 5.0)])
        [Transfer(giver='a', taker='b', seconds=1.0, groups=1, share=0.0, after=0.0)]
        """
        known = {w.id: w for w in workers}
        load = {w.id: w.load_s for w in workers}
        head, tail = [(-w.load_s, w.id) for w in workers], [(w.load_s, w.id) for w in workers]
        heapify(head)
        heapify(tail)
        groups: dict[tuple[str, str], int] = {}
        while head:
            while -head[0][0] != load[head[0][1]]:
                heappop(head)  # an entry from before a transfer
            while tail[0][0] != load[tail[0][1]]:
                heappop(tail)
            giver, taker = known[head[0][1]], known[tail[0][1]]
            group_s = giver.trigroup_s
            there_s = group_s * giver.speed / taker.speed  # the same work on the other worker
            a, n = load[giver.id], load[taker.id]
            if not (n < self.tunder_s and a > self.tunder_s and a - group_s > n + there_s):
                break
            groups[giver.id, taker.id] = groups.get((giver.id, taker.id), 0) + 1
            load[giver.id], load[taker.id] = a - group_s, n + there_s
            for worker in (giver.id, taker.id):
                heappush(head, (-load[worker], worker))
                heappush(tail, (load[worker], worker))
        return [Transfer(a, n, count * known[a].trigroup_s, count) for (a, n), count in groups.items()]


@dataclass(frozen=True, slots=True)
class FillToMean:
    """Ours: every worker above the average gives its surplus to workers below it, in few transfers.

    A transfer of less than ``least_s`` is not worth a message.
    A transfer of less than the share ``band`` of the average is not worth the delay.
    """

    least_s: float = 0.0
    band: float = 0.0
    asks: bool = False

    def decide(self, workers: Sequence[WorkerLoad]) -> list[Transfer]:
        """Pair the largest surplus with the largest deficit, both measured in seconds on a worker of speed 1.

        Examples
        --------
        >>> FillToMean().decide([WorkerLoad("a", 9.0), WorkerLoad("b", 1.0), WorkerLoad("c", 2.0)])
        [Transfer(giver='a', taker='b', seconds=3.0, groups=0, share=0.0, after=0.0), Transfer(giver='a', taker='c', seconds=2.0, groups=0, share=0.0, after=0.0)]
        """
        if not workers:
            return []
        mean = sum(w.load_s * w.speed for w in workers) / sum(w.speed for w in workers)
        known = {w.id: w for w in workers}
        surplus = [(-(w.load_s - mean) * w.speed, w.id) for w in workers if w.load_s > mean]
        want = [(-(mean - w.load_s) * w.speed, w.id) for w in workers if w.load_s < mean]
        heapify(surplus)
        heapify(want)
        transfers = []
        while surplus and want:
            (over, giver), (under, taker) = heappop(surplus), heappop(want)
            work = min(-over, -under)
            seconds = work / known[giver].speed
            if seconds <= max(self.least_s, self.band * mean):
                break
            transfers.append(Transfer(giver, taker, seconds))
            if -over > work:
                heappush(surplus, (over + work, giver))
            if -under > work:
                heappush(want, (under + work, taker))
        return transfers


@dataclass(frozen=True, slots=True)
class AskWhenIdle:
    """Ours: a worker that runs out of work asks at once, and the longest queue is split between the two.

    While all heartbeats are fresh, workers below the share ``low`` of the average load also get work.
    Otherwise a worker with a short queue would compute its rows repeatedly before the updates of others arrive.

    Parameters
    ----------
    least_s
        A giver must have more than twice the taker's load plus this; less is not worth the messages.
    low, fresh_s, level_above_s
        Share of the average load below which a worker gets work unasked, seconds for which a heartbeat is fresh,
        and average load in seconds above which workers get work unasked at all.
    """

    least_s: float = 0.0
    low: float = 0.5
    fresh_s: float = 0.1
    level_above_s: float = 0.0
    asks: bool = True

    def decide(self, workers: Sequence[WorkerLoad]) -> list[Transfer]:
        """Serve workers that ask or have little load, the least loaded first, each from the currently longest queue.

        Examples
        --------
        >>> idle = WorkerLoad("b", 0.0, asking=True)
        >>> AskWhenIdle().decide([WorkerLoad("a", 8.0, waiting=9), idle, WorkerLoad("c", 3.0, waiting=3)])
        [Transfer(giver='a', taker='b', seconds=4.0, groups=0, share=0.5, after=0.0)]
        """
        takers = [w for w in workers if w.asking]
        if all(w.age_s <= self.fresh_s for w in workers):
            mean = sum(w.load_s * w.speed for w in workers) / sum(w.speed for w in workers)
            if mean > self.level_above_s:
                takers += [w for w in workers if not w.asking and w.load_s < self.low * mean]
        known = {w.id: w for w in workers}
        load = {w.id: w.load_s for w in workers}
        # A giver cannot give work that has not arrived yet, or that it may have run since its heartbeat.
        left = {w.id: max(0.0, w.load_s - w.coming_s - w.age_s) for w in workers}
        fullest = [(-seconds, name) for name, seconds in left.items()]
        heapify(fullest)
        transfers = []
        for taker in sorted(takers, key=lambda w: (w.load_s, w.id)):
            while -fullest[0][0] != left[fullest[0][1]]:
                heappop(fullest)  # an entry from before a transfer
            giver = known[fullest[0][1]]
            full, low = left[giver.id], load[taker.id]
            if full <= 2 * low + self.least_s:
                break
            share = taker.speed / (giver.speed + taker.speed)  # both finish at the same time
            seconds = (full - low) * share
            transfers.append(Transfer(giver.id, taker.id, seconds, share=share, after=low / full))
            left[giver.id] -= seconds
            heappush(fullest, (-left[giver.id], giver.id))
        return transfers


@dataclass(frozen=True, slots=True)
class NoBalancing:
    """No transfers: every trigger runs where its data is, as Domino does by default."""

    asks: bool = False

    def decide(self, workers: Sequence[WorkerLoad]) -> list[Transfer]:
        """Return no transfers."""
        return []


POLICIES: dict[str, type[Dlber | FillToMean | AskWhenIdle | NoBalancing]] = {
    "dlber": Dlber,
    "fill_to_mean": FillToMean,
    "ask_when_idle": AskWhenIdle,
    "none": NoBalancing,
}


def policy_named(name: str, balancer: BalancerSettings) -> Policy:
    """Return the policy with this name, with parameters derived from the balancer's settings."""
    if name == "dlber":
        return Dlber(balancer.tunder_s)
    if name == "fill_to_mean":
        return FillToMean(2 * balancer.asking_s, band=0.1)
    if name == "ask_when_idle":
        round_s = balancer.asking_s
        return AskWhenIdle(balancer.worth_s, fresh_s=20 * round_s, level_above_s=20 * round_s)
    if name == "none":
        return NoBalancing()
    raise BadInput(repr(name), nearest(name, POLICIES), "policy")
