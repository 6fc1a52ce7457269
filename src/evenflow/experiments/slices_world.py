"""A simulated DDS domain: publishers write, every node whose readers accept an item's slice receives it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from evenflow.sim import Simulation
from evenflow.slices.algorithm import Algorithm
from evenflow.slices.balancer import LoadBalancer
from evenflow.slices.handoff import State
from evenflow.slices.messages import Item
from evenflow.slices.node import ProcessingNode
from evenflow.slices.publisher import Due, Publish, Publisher, publisher_name
from evenflow.slices.readers import Listen
from evenflow.slices.settings import BalancerSettings, NodeSettings
from evenflow.slices.topics import Count, Topic

BALANCER = "balancer"


class Record:
    """A listener whose state is the list of the items it saw: the effect that the checker can read."""

    def on_data(self, item: Item, state: Any) -> Any:
        """Append the item's id."""
        if state is None:
            return [item.id]
        state.append(item.id)
        return state

    def on_correlating_data(self, item: Item) -> None:
        """Ignore it."""


class World:
    """Publishers, nodes and a balancer on one simulated domain.

    Parameters
    ----------
    sim
        The simulation they live in.
    node_settings, balancer_settings
        Given to each of them.
    algorithm
        Makes the balancer's algorithm; called again after a crash of the balancer.
    record
        Whether items, commits and samples go on the trace, and slices' states keep their items' ids.
    """

    def __init__(
        self,
        sim: Simulation,
        node_settings: NodeSettings,
        balancer_settings: BalancerSettings,
        algorithm: Callable[[], Algorithm],
        *,
        record: bool = True,
    ) -> None:
        self.sim = sim
        self.node_settings = node_settings
        self.record = record
        self.nodes: list[str] = []
        self.publishers: list[str] = []
        self.topics = [Topic("data", Record() if record else Count())]
        self._interest: list[dict[str, None]] = [{} for _ in range(node_settings.slices)]  # ordered sets
        self._everywhere: dict[str, None] = {}
        self._accepted: dict[str, frozenset[int]] = {}
        sim.carry_out[Publish] = self._publish
        sim.carry_out[Listen] = self._listen
        sim.add(
            BALANCER,
            lambda: LoadBalancer(algorithm(), balancer_settings, node_settings.monitor_s, record=record),
            journal=True,
        )

    def join(self, name: str, settings: NodeSettings | None = None) -> None:
        """Start a node."""
        chosen = settings or self.node_settings
        self.nodes.append(name)
        self.sim.add(name, lambda: ProcessingNode(name, self.topics, chosen, balancer=BALANCER))

    def publish(self, schedule: Iterator[Due], retry_s: float = 1.0) -> None:
        """Start a publisher."""
        number = len(self.publishers)
        name = publisher_name(number)
        self.publishers.append(name)
        self.sim.add(name, lambda: Publisher(number, schedule, retry_s, record=self.record))

    def unacknowledged(self) -> int:
        """Return how many items their publishers still keep."""
        return sum(self._actor(name).unacknowledged for name in self.publishers)

    def written(self) -> int:
        """Return how many items were written."""
        return sum(self._actor(name).written for name in self.publishers)

    def note_final(self) -> None:
        """Put the durable state of every slice on the trace, for the checker."""
        for slice_id, phase, ids in self._durable():
            if phase is State.OWNING:
                self.sim.note({"kind": "final", "at": self.sim.now, "slice": slice_id, "ids": ids})

    def note_waiting(self) -> None:
        """Put the items on the trace that are still somewhere: a run may end before they are processed."""
        owned = {slice_id for slice_id, phase, _ in self._durable() if phase is State.OWNING}
        where = {name: self._actor(name).kept for name in self.publishers}
        for name in self.nodes:
            node = self._actor(name) if name in self.sim.cells else None
            if node is not None:
                cached = [item.id for held in node.held.values() for item in held.cache.values()]
                where[name] = [*(item.id for item in node.pending.values()), *cached]
        # A slice that nobody owns is in a session: its effects are with one of both sides.
        where["sessions"] = [i for slice_id, _, ids in self._durable() if slice_id not in owned for i in ids]
        where["network"] = [m.id for m in self.sim.in_flight() if type(m) is Item]
        for name, ids in where.items():
            if ids:
                self.sim.note({"kind": "waiting", "at": self.sim.now, "node": name, "ids": list(ids)})

    def _durable(self) -> Iterator[tuple[int, State, list[int]]]:
        """Give every slice that a node has saved: its number, its phase there, and the items with an effect in it."""
        for name in self.nodes:
            cell = self.sim.cells.get(name)
            for key, value in cell.saved.items() if cell else ():
                if key.startswith("slice/"):
                    yield int(key[6:]), value[0], list(value[2].get("data", ()))

    def _actor(self, name: str) -> Any:
        return self.sim.cells[name].actor

    def _publish(self, publisher: str, command: Publish) -> None:
        item = command.item
        post = self.sim.post
        for node in [*self._interest[item.slice], *self._everywhere]:
            post(publisher, node, item)

    def _listen(self, node: str, command: Listen) -> None:
        if command.slices is None:
            self._everywhere[node] = None
            return
        before = self._accepted.get(node, frozenset())
        self._accepted[node] = command.slices
        for s in sorted(before - command.slices):
            self._interest[s].pop(node, None)
        for s in sorted(command.slices - before):
            self._interest[s][node] = None
