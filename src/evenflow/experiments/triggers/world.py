"""A trigger cluster in virtual time: workers whose triggers take time, a network, and a master."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evenflow.experiments.registry import TraceWriter
from evenflow.experiments.triggers.graph import Graph
from evenflow.sim import Network, Simulation
from evenflow.triggers.app import Key, Row, TriggerApp
from evenflow.triggers.master import TriggerMaster
from evenflow.triggers.messages import Events, Execute, Executed, Lend
from evenflow.triggers.pagerank import DIST, PAGES, page_rows
from evenflow.triggers.policies import Policy
from evenflow.triggers.settings import BalancerSettings, WorkerSettings
from evenflow.triggers.worker import TriggerWorker

MASTER = "master"


@dataclass(slots=True)
class Links:
    """Message delays: a latency, plus a time for each trigger in the message; messages on a link keep their order."""

    latency_s: float
    transfer_s: float
    arrival: dict[tuple[str, str], float] = field(default_factory=dict)

    def fate(self, sender: str, to: str, message: Any, now: float) -> list[float]:
        """Return a message's only delay, as a list."""
        carried = sum(len(part.invocations) for part in _parts(message) if type(part) is Lend)
        arrival = max(self.arrival.get((sender, to), 0.0), now + self.latency_s) + carried * self.transfer_s
        self.arrival[sender, to] = arrival
        return [arrival - now]


def _parts(message: Any) -> tuple[Any, ...]:
    return message if type(message) is tuple else (message,)


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of an execution on a worker of speed 1: ``base_s``, plus ``edge_s`` per link or weight of the page."""

    base_s: float = 0.05
    edge_s: float = 0.01


class Cluster:
    """PageRank on workers in virtual time.

    Parameters
    ----------
    graph, homes, app
        The pages, the worker of each page, and the application.
    speeds
        The speed of each worker.
    worker, balancer, policy
        Settings and policy; without a policy there is no master, and no message to one.
    costs
        The times of executions.
    network
        A network with faults, for chaos; by default a perfect one.
    """

    def __init__(
        self,
        graph: Graph,
        homes: Mapping[int, int],
        app: TriggerApp,
        speeds: Sequence[float],
        worker: WorkerSettings,
        balancer: BalancerSettings,
        policy: Policy | None,
        costs: Costs,
        *,
        damping: float = 0.85,
        seed: int = 1,
        trace: TraceWriter | None = None,
        network: Network | None = None,
    ) -> None:
        self.app = app
        self.costs = costs
        self.names = [f"worker-{n}" for n in range(len(speeds))]
        self.speeds = dict(zip(self.names, speeds, strict=True))
        if network is None:
            network = Network(intercept=Links(balancer.latency_s, balancer.transfer_s).fate)
        self.sim = Simulation(seed, network, trace)
        self.sim.carry_out[Execute] = self._execute
        home = {page: self.names[number] for page, number in homes.items()}
        shares: dict[str, list[int]] = {name: [] for name in self.names}
        for page in graph.pages:
            shares[home[page]].append(page)
        linked = graph.linked
        master = MASTER if policy is not None else ""

        def build(name: str) -> TriggerWorker:
            rows = page_rows(app, graph.links, linked, shares[name], damping)
            own = replace(worker, speed=self.speeds[name])
            return TriggerWorker(name, app, lambda table, key: home[key], own, master, rows, (DIST,))  # type: ignore[index]

        if policy is not None:
            settle = 2 * balancer.latency_s + balancer.decision_s + 0.1 * balancer.heartbeat_s
            self.sim.add(MASTER, lambda: TriggerMaster(policy, balancer.decision_s, settle, record=trace is not None))
        for name in self.names:
            self.sim.add(name, lambda name=name: build(name))  # type: ignore[misc]  # bound at once
        self.loads: list[tuple[float, list[float]]] = []
        self._trace = trace
        for name in self.names if trace is not None else ():
            self._record({"kind": "node", "at": 0.0, "node": name, "step": "joined", "capacity": self.speeds[name]})

    def _execute(self, name: str, command: Execute) -> None:
        sim, speed = self.sim, self.speeds[name]
        seconds = (self.costs.base_s + self.costs.edge_s * command.size) / speed
        sim.at(sim.now + seconds, lambda: sim.deliver(name, Executed(command.ticket, seconds)))

    @property
    def workers(self) -> list[TriggerWorker]:
        """The workers that are running now."""
        found: list[Any] = [self.sim.cells[name].actor for name in self.names]
        return [worker for worker in found if worker is not None]

    @property
    def master(self) -> TriggerMaster | None:
        """The master, or ``None`` if there is none or it is down."""
        cell = self.sim.cells.get(MASTER)
        found: TriggerMaster | None = cell.actor if cell is not None else None  # type: ignore[assignment]  # it is one
        return found

    def quiet(self) -> bool:
        """Return whether every worker is running and has nothing to do."""
        return len(self.workers) == len(self.names) and all(worker.quiet for worker in self.workers)

    def run(self, step_s: float, most_s: float = 1e7) -> float:
        """Run until everything has been quiet for two steps; return the end time of the last trigger."""
        calm = 0
        while calm < 2 and self.sim.now < most_s:
            self.sim.run(until=self.sim.now + step_s)
            self.loads.append((self.sim.now, [worker.load_s for worker in self.workers]))
            for worker in self.workers if self._trace is not None else ():
                self._record({"kind": "sample", "at": self.sim.now, "node": worker.name, "load": worker.load_s})
            calm = calm + 1 if self.quiet() else 0
        return max(worker.state.last_done for worker in self.workers)

    def _record(self, record: Mapping[str, Any]) -> None:
        if self._trace is not None:
            self._trace(record)

    def rows(self) -> dict[Key, Row]:
        """Return every page's row."""
        return {key: row for worker in self.workers for key, row in worker.state.rows.of(PAGES).items()}

    def busy_pages(self) -> set[Key]:
        """Return the pages that have a waiting, running or lent trigger, or an event under way."""
        found: set[Key] = set()
        for worker in self.workers:
            state = worker.state
            found.update(invocation.key for invocation in state.waiting.items.values())
            found.update(invocation.key for invocation, *_ in state.running.values())
            found.update(lease.key for lease in state.leases.open.values())
            sent = [body for bodies in state.channels.unacknowledged.values() for body in bodies.values()]
            parts = [part for body in sent for part in _parts(body)]
            found.update(key for part in parts if type(part) is Events for write in part.writes for key in write.keys)
        return found

    def total(self, what: str) -> int:
        """Return the sum of one count over the workers."""
        return sum(worker.state.counts.get(what, 0) for worker in self.workers)
