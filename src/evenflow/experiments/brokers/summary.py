"""Computes the results of an experiment with brokers from the recorded loads (sections 5.2 and 5.3)."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evenflow.brokers.load import Load
from evenflow.brokers.session_trace import LoadEstimate
from evenflow.experiments.brokers.data_path import Broker
from evenflow.experiments.brokers.delivery import count_deliveries
from evenflow.experiments.brokers.world import LOOK_S, BrokerWorld

CONVERGED = 0.1  # max - min of the input ratios
HELD = 0.95  # share of the rest of the time
WINDOW_S = 500


def summarize(world: BrokerWorld) -> dict[str, Any]:
    """Return the results of one run."""
    settings, history, sim = world.settings, world.history, world.sim
    change, end = min(settings.change_at, settings.seconds), settings.seconds
    before = (max(0.0, change - WINDOW_S), change)
    moves = [s for s in history.sessions if s["moved"]]
    b1 = history.loads[world.entry]
    delivery = count_deliveries(sim)
    edges = [sim.brokers[name] for name in world.edges]
    return {
        "input_sessions": sum(
            s["algorithm"] == "input" and s["at"] <= settings.join_until + 55 for s in history.sessions
        ),
        "sessions": len(history.sessions),
        "empty_sessions": len(history.sessions) - len(moves),
        "convergence_s": convergence(history.at, [history.loads[name] for name in world.edges], change),
        "last_move_before_change_s": max((s["at"] for s in moves if s["at"] <= change), default=None),
        "last_move_after_change_s": max((s["at"] for s in moves if s["at"] > change), default=None),
        "std_input": spread(world, before, lambda load: load.input_ratio),
        "std_output": spread(world, before, lambda load: load.output_ratio),
        "std_delay_s": spread(world, before, lambda load: load.matching_delay),
        "matching_delay_spread_s": delay_spread(world, before),
        "shares": shares(world),
        "overhead_steady_pct": overhead(world, *before),
        "overhead_end_pct": overhead(world, end - WINDOW_S, end),
        "overhead_peak_pct": max(
            (overhead(world, at, at + 300) for at in range(int(change), int(end) - 299, 300)), default=None
        ),
        "estimation": estimation(world.estimates.done, world.entry, settings.join_until),
        "delivery_delay_s": delivery_delay(edges, *before),
        "delivery_delay_end_s": delivery_delay(edges, max(0.0, end - WINDOW_S), end),
        "queuing_delay_s": queuing_delay(edges, *before),
        "sessions_by": sessions_by(history.sessions),
        "b1_max_input": max((load.input_ratio for load in b1), default=0.0),
        "b1_overloaded_s": LOOK_S * sum(load.above(settings.higher) for load in b1),
        "b1_queue": len(sim.brokers[world.entry].queue),
        "b1_crashed_s": sim.brokers[world.entry].crashed_at,
        "messages_by_class": dict(sorted({**sim.control.received, "publication": publications(world, 0, end)}.items())),
        "moved": sum(s["moved"] for s in moves),
        "replayed": sim.service.replayed,
        "unprocessed": delivery.unprocessed,
        "lost": delivery.lost,
        "duplicated": delivery.duplicated,
        "doubles_removed": delivery.doubles_removed,
        "deliveries": delivery.expected,
        "events": sim.events,
    }


def convergence(at: Sequence[float], loads: Sequence[Sequence[Load]], change: float) -> float | None:
    """Return the first time from which the input ratios are within 0.1 of each other for 95 % of the time up to the change."""
    even = [
        max(ratios) - min(ratios) <= CONVERGED
        for ratios in zip(*([load.input_ratio for load in column] for column in loads), strict=True)
    ]
    until = sum(time <= change for time in at)
    good, found = 0, None
    for place in range(until - 1, -1, -1):
        good += even[place]
        rest = until - place
        if even[place] and good >= HELD * rest and at[place] <= change - WINDOW_S:
            found = at[place]
    return found


def _within(world: BrokerWorld, window: tuple[float, float]) -> list[int]:
    return [i for i, at in enumerate(world.history.at) if window[0] < at <= window[1]]


def spread(world: BrokerWorld, window: tuple[float, float], index: Any) -> float | None:
    """Return the mean standard deviation over the edge brokers in a window."""
    places = _within(world, window)
    loads = world.history.loads
    found = [statistics.pstdev(index(loads[name][i]) for name in world.edges) for i in places]
    return statistics.fmean(found) if found else None


def delay_spread(world: BrokerWorld, window: tuple[float, float]) -> float | None:
    """Return the mean difference between the longest and the shortest matching delay."""
    loads = world.history.loads
    found = []
    for i in _within(world, window):
        delays = [loads[name][i].matching_delay for name in world.edges]
        found.append(max(delays) - min(delays))
    return statistics.fmean(found) if found else None


def shares(world: BrokerWorld) -> dict[str, float]:
    """Return each edge broker's share of the subscribers at the end, per cent."""
    clients = {name: world.sim.brokers[name].clients for name in world.edges}
    total = sum(clients.values()) or 1
    return {name: 100.0 * count / total for name, count in clients.items()}


def publications(world: BrokerWorld, begin: float, end: float) -> int:
    """Return how many quotes brokers received in a window."""
    return sum(sum(broker.arrived[int(begin) : int(end)]) for broker in world.sim.brokers.values())


def overhead(world: BrokerWorld, begin: float, end: float) -> float:
    """Return the share of all received messages that are not quotes, per cent; deliveries are not counted."""
    bins = world.sim.control.received_at[int(begin) // LOOK_S : int(end) // LOOK_S]
    control = sum(sum(one.values()) for one in bins)
    total = control + publications(world, begin, end)
    return 100.0 * control / total if total else 0.0


def estimation(estimates: Iterable[LoadEstimate], entry: str, joined: float) -> dict[str, Any]:
    """Return the errors of the estimates in ratio points, without the broker that subscribers are still joining."""
    found: dict[str, Any] = {}
    kept = [e for e in estimates if not (e.side == "offloader" and e.broker == entry and e.at <= joined)]
    for place, name in enumerate(("input", "output")):
        found[name] = {}
        for side in ("offloader", "acceptor"):
            errors = [
                100.0 * (getattr(e, name) - e.measured[place])
                for e in kept
                if e.side == side and e.measured is not None
            ]
            found[name][side] = {
                "mean_points": statistics.fmean(errors) if errors else None,
                "std_points": statistics.pstdev(errors) if len(errors) > 1 else None,
                "sessions": len(errors),
            }
    return found


def delivery_delay(brokers: Sequence[Broker], begin: float, end: float) -> float | None:
    """Return the mean time from publisher to subscriber."""
    window = slice(int(begin), int(end))
    copies = sum(sum(broker.delivered[window]) for broker in brokers)
    return sum(sum(broker.delivery_s[window]) for broker in brokers) / copies if copies else None


def queuing_delay(brokers: Sequence[Broker], begin: float, end: float) -> float | None:
    """Return the mean time that a message waits in an input and an output queue."""
    window = slice(int(begin), int(end))
    handled = sum(sum(broker.handled[window]) for broker in brokers)
    waited = sum(sum(broker.wait_s[window]) + sum(broker.out_wait_s[window]) for broker in brokers)
    return waited / handled if handled else None


def sessions_by(sessions: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the number of sessions by algorithm and by pair."""
    kept = list(sessions)
    return {
        "algorithm": dict(sorted(Counter(s["algorithm"] for s in kept).items())),
        "pair": dict(sorted(Counter(f"{s['giver']}-{s['taker']}" for s in kept).items())),
    }
