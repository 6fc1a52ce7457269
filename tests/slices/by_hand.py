"""Actors driven by hand: the test decides which message arrives when, and sees every command that comes out."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from evenflow.actor import Note, Received, Save, Send, Started, Wake, Woken
from evenflow.slices.ledger import item_id
from evenflow.slices.messages import Action, Item, Notification
from evenflow.slices.node import ProcessingNode
from evenflow.slices.readers import Listen
from evenflow.slices.session import Phase, Session
from evenflow.slices.settings import NodeSettings
from evenflow.slices.topics import Topic


class Hand:
    """One actor; what it saves is copied, as a disk would, and what it says is kept."""

    def __init__(self, build: Callable[[], Any], *, journal: bool = False) -> None:
        self.build = build
        self.journal = journal
        self.saved: dict[str, Any] = {}
        self.notes: list[dict[str, Any]] = []
        self.wakes: list[Wake] = []
        self.sent: list[Send] = []
        self.accepts: frozenset[int] | None = frozenset()
        self.actor: Any = None
        self.start()

    def start(self, now: float = 0.0) -> list[Any]:
        """Begin, or begin again after a crash: memory is new, wake-ups are gone."""
        self.actor = self.build()
        self.wakes.clear()
        saved = pickle.loads(pickle.dumps(self.saved))
        return self.feed(Started({**saved, "notes": list(self.notes)} if self.journal else saved), now)

    def feed(self, event: Any, now: float = 0.0) -> list[Any]:
        """Hand one event in; return the messages that come out."""
        commands = self.actor.handle(event, now)
        for command in commands:
            if isinstance(command, Save):
                kept = pickle.loads(pickle.dumps(dict(command.values)))
                self.saved.update(kept)
                self.saved = {key: value for key, value in self.saved.items() if value is not None}
            elif isinstance(command, Note):
                self.notes.append(dict(command.record))
            elif isinstance(command, Wake):
                self.wakes.append(command)
            elif isinstance(command, Send):
                self.sent.append(command)
            else:
                assert isinstance(command, Listen)
                self.accepts = command.slices
        return [command.message for command in commands if isinstance(command, Send)]

    def get(self, message: Any, now: float = 0.0, sender: str = "balancer") -> list[Any]:
        """Let a message arrive; a real network copies."""
        return self.feed(Received(sender, pickle.loads(pickle.dumps(message))), now)

    def wake(self, name: Any, now: float) -> list[Any]:
        """Fire a wake-up that was asked for."""
        mine = [w for w in self.wakes if (w.name if isinstance(w.name, str) else w.name[0]) == name]
        assert mine, f"{name!r} was not asked for, only {self.wakes}"
        self.wakes.remove(mine[0])
        return self.feed(Woken(mine[0].name), now)

    def noted(self, kind: str) -> list[dict[str, Any]]:
        """Return its notes of one kind."""
        return [note for note in self.notes if note["kind"] == kind]


class Seen:
    """A listener that keeps what it was shown; its state is the list of ids."""

    def __init__(self) -> None:
        self.data: list[int] = []
        self.correlating: list[int] = []

    def on_data(self, item: Item, state: Any) -> Any:
        self.data.append(item.id)
        return [*(state or []), item.id]

    def on_correlating_data(self, item: Item) -> None:
        self.correlating.append(item.id)


SETTINGS = NodeSettings(slices=4, speed=1e9, drain_s=0.1, overlap_s=0.05, commit_s=0.05)


class Node(Hand):
    """A processing node with one topic and a listener that shows what it saw."""

    def __init__(self, name: str = "A", settings: NodeSettings = SETTINGS, topics: Any = None, **more: Any) -> None:
        self.seen = Seen()
        topics = topics or [Topic("data", self.seen)]
        super().__init__(lambda: ProcessingNode(name, topics, settings, **more))

    def own(self, *slices: int, now: float = 0.0) -> Node:
        """Be granted slices, as the first node is."""
        self.get(action(Phase.GRANTING, slices, session=1), now)
        return self

    def item(self, item: Item, now: float = 0.0) -> list[Any]:
        """Let an item arrive."""
        return self.get(item, now, sender="publisher-0")

    def commit(self, now: float = 0.05) -> list[Any]:
        """Let the next commit happen."""
        return self.wake("tick", now)

    def state(self, slice_id: int = 0, topic: str = "data") -> Any:
        """Return the application's durable state of a slice."""
        return self.saved[f"slice/{slice_id}"][2].get(topic)


def item(number: int, slice_id: int = 0, topic: str = "data", **more: Any) -> Item:
    """Return an item of publisher 0."""
    return Item(item_id(0, number), slice_id, topic, **more)


def action(phase: Phase, slices: tuple[int, ...] = (0,), session: int = 2, over: int = 0) -> Action:
    """Return the action that a balancer sends in a phase of a session from A to B."""
    return Session(session, "A", "B", slices, phase).action(over)[1]


def notification(node: str, loads: dict[int, float] | None = None, **more: Any) -> Notification:
    """Return what a node of four slices says about itself."""
    properties = {"cpu": more.pop("cpu", 50.0), "memory": 0.0}
    return Notification(node, more.pop("slice_count", 4), properties, loads or {}, **more)
