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
        self.vanished: set[str] = set()  # nodes that will not come back
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

    @property
    def living(self) -> list[str]:
        """The nodes that run, or will run again."""
        return [name for name in self.nodes if name not in self.vanished]

    def stranded(self) -> dict[int, str]:
        """Return the slices that only a vanished node has, each with that node."""
        owners = enumerate(self._actor(BALANCER).map.owner)
        return {s: node for s, node in owners if node in self.vanished}

    def unacknowledged(self) -> int:
        """Return how many items their publishers still keep, but for items of slices that are stranded."""
        kept = [item for name in self.publishers for item in self._actor(name).kept]
        stranded = self.stranded() if kept and self.vanished else {}
        return sum(item.slice not in stranded for item in kept)

    def at_rest(self) -> bool:
        """Say whether nothing is under way: no item, no session, no drain, nothing that a node has yet to hear."""
        balancer = self._actor(BALANCER)
        living = [node for name, node in balancer.map.nodes.items() if name not in self.vanished]
        return not (
            balancer.sessions
            or balancer.waiting_movements()
            or any(node.draining for node in living)
            or balancer.map.untold - self.vanished
            or self.unacknowledged()
        )

    def left_over(self) -> dict[str, int]:
        """Count what should not be there at the end, and what vanished nodes took with them."""
        balancer = self._actor(BALANCER)
        stranded = self.stranded()
        held = [s for name in self.living for s in self._owned(name)]
        return {
            "stranded_slices": len(stranded),
            "unowned_slices": sum(held.count(s) != 1 for s in range(self.node_settings.slices) if s not in stranded),
            "undrained_nodes": sum(
                balancer.map.nodes[name].draining for name in self.living if name in balancer.map.nodes
            ),
        }

    def _owned(self, name: str) -> list[int]:
        saved = self.sim.cells[name].saved
        return [int(key[6:]) for key, value in saved.items() if key.startswith("slice/") and value[0] is State.OWNING]

    def written(self) -> int:
        """Return how many items were written."""
        return sum(self._actor(name).written for name in self.publishers)

    def note_final(self) -> None:
        """Put the durable state of every slice on the trace, for the checker."""
        stranded = self.stranded()
        for name, slice_id, phase, ids in self._durable():
            lost = stranded.get(slice_id) == name
            if lost or phase is State.OWNING:
                record = {"kind": "final", "at": self.sim.now, "slice": slice_id, "ids": ids}
                self.sim.note({**record, "stranded": True} if lost else record)

    def note_waiting(self) -> None:
        """Put the items on the trace that are still somewhere: a run may end before they are processed."""
        owned = {slice_id for _, slice_id, phase, _ in self._durable() if phase is State.OWNING}
        where = {name: [item.id for item in self._actor(name).kept] for name in self.publishers}
        for name in self.nodes:
            node = self._actor(name) if name in self.sim.cells else None
            if node is not None:
                cached = [item.id for held in node.held.values() for item in held.cache.values()]
                where[name] = [*(item.id for item in node.pending.values()), *cached]
        # A slice without an owner is in a session: its effects are with one of both sides.
        where["sessions"] = [i for _, slice_id, _, ids in self._durable() if slice_id not in owned for i in ids]
        where["network"] = [m.id for m in self.sim.in_flight() if type(m) is Item]
        for name, ids in where.items():
            if ids:
                self.sim.note({"kind": "waiting", "at": self.sim.now, "node": name, "ids": list(ids)})

    def _durable(self) -> Iterator[tuple[str, int, State, list[int]]]:
        """Yield every slice that a node has saved: the node, the slice, its phase there, the items with an effect in it."""
        for name in self.nodes:
            cell = self.sim.cells.get(name)
            for key, value in cell.saved.items() if cell else ():
                if key.startswith("slice/"):
                    yield name, int(key[6:]), value[0], list(value[2].get("data", ()))

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
