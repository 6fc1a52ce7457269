"""A bounded search over delivery orders of a lent trigger group: every order of a small world, with a few faults.

Two workers, real ones; a page of A is lent to B while a new weight may arrive, and A may take it back.
Time stands still, so any timer may fire at any moment.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from evenflow.actor import Note, Received, Save, Send, Started, Wake, Woken
from evenflow.triggers.app import Entries, RowView, TriggerApp, Write
from evenflow.triggers.messages import Events, Execute, Executed, Instruct
from evenflow.triggers.settings import WorkerSettings
from evenflow.triggers.worker import TriggerWorker

FAULTS = ("lose", "double", "crash", "early")


def app() -> TriggerApp:
    """Add up the parts of a row; tell the total to a row of the other worker."""
    found = TriggerApp("sums")
    found.table("rows", parts=Entries(), total=0)

    @found.on("rows.parts")
    def add_up(row: RowView) -> None:
        row["total"] = sum(row["parts"].values())
        if row.key == "a":
            row.put("rows", ["b"], "parts", "from a", row["total"])

    return found


def home(_: str, key: Any) -> str:
    return "A" if key == "a" else "B"


@dataclass
class World:
    """Both workers, what flies between them, and what may still go wrong."""

    budget: dict[str, int]
    numbered: bool = True
    workers: dict[str, Any] = field(default_factory=dict)
    saved: dict[str, dict[str, Any]] = field(default_factory=lambda: {"A": {}, "B": {}})
    flying: list[tuple[str, str, Any]] = field(default_factory=list)
    timers: list[tuple[str, Any]] = field(default_factory=list)
    running: list[tuple[str, int]] = field(default_factory=list)
    reads: dict[Any, int] = field(default_factory=dict)
    news: int = 1
    wrong: str | None = None

    def start(self, name: str) -> None:
        settings = WorkerSettings(
            heartbeat_s=0.0, resend_s=1.0 if self.numbered else 0.0, lease_s=1e-9, durable=True, record=True
        )
        self.workers[name] = TriggerWorker(name, APP, home, settings)
        self.timers = [t for t in self.timers if t[0] != name]
        self.running = [r for r in self.running if r[0] != name]
        self.feed(name, Started(self.saved[name]))

    def feed(self, name: str, event: Any) -> None:
        for command in self.workers[name].handle(event, 0.0):
            if isinstance(command, Send):
                self.flying.append((name, command.to, command.message))
            elif isinstance(command, Wake):
                self.timers.append((name, command.name))
            elif isinstance(command, Execute):
                self.running.append((name, command.ticket))
            elif isinstance(command, Save):
                self.saved[name].update(command.values)
            elif isinstance(command, Note):
                who, read = (command.record["trigger"], command.record["key"]), command.record["read"]
                if read <= self.reads.get(who, 0):
                    self.wrong = f"{who} had its effect twice"
                self.reads[who] = read

    def choices(self) -> Iterator[tuple[Any, ...]]:
        for index in range(len(self.flying)):
            yield ("deliver", index)
            if self.budget.get("lose"):
                yield ("lose", index)
            if self.budget.get("double"):
                yield ("double", index)
        for index in range(len(self.running)):
            yield ("end", index)
        for timer in sorted(set(self.timers)):
            if self.budget.get("early"):
                yield ("early", timer)
        if self.news:
            yield ("news",)
        if self.budget.get("crash"):
            yield from (("crash", name) for name in self.workers)

    def do(self, choice: tuple[Any, ...]) -> None:
        kind = choice[0]
        if kind in FAULTS:
            self.budget[kind] -= 1
        if kind == "deliver":
            sender, to, message = self.flying.pop(choice[1])
            self.feed(to, Received(sender, pickle.loads(pickle.dumps(message))))
        elif kind == "lose":
            self.flying.pop(choice[1])
        elif kind == "double":
            self.flying.append(self.flying[choice[1]])
        elif kind == "end":
            name, ticket = self.running.pop(choice[1])
            self.feed(name, Executed(ticket, 1.0))
        elif kind == "early":
            self.timers = [t for t in self.timers if t != choice[1]]
            self.feed(choice[1][0], Woken(choice[1][1]))
        elif kind == "news":
            self.news -= 1
            self.feed("A", Received("outside", Events((Write("rows", ("a",), "parts", "late", 7),))))
        elif kind == "crash":
            self.start(choice[1])

    def frozen(self) -> bytes:
        for worker in self.workers.values():
            worker.app = None  # the same for all, and full of functions
            worker.homes = None
        self.flying.sort(key=repr)
        self.timers = sorted(set(self.timers))
        self.running.sort()
        return pickle.dumps(self)

    def completed(self) -> str | None:
        """Go on fairly to the end, and say what is wrong then."""
        for _ in range(40):
            while self.flying or self.running or self.news:
                self.do(("deliver", 0) if self.flying else ("end", 0) if self.running else ("news",))
            if all(worker.quiet for worker in self.workers.values()):
                break
            for timer in sorted(set(self.timers)):
                self.timers = [t for t in self.timers if t != timer]
                self.feed(timer[0], Woken(timer[1]))
                while self.flying:
                    self.do(("deliver", 0))
        else:
            return "never at rest"
        a = self.workers["A"].state.rows.get("rows", "a")
        b = self.workers["B"].state.rows.get("rows", "b")
        if a["total"] != 8:
            return f"a trigger is lost: {a['total']} instead of 8"
        if (b["parts"].get("from a"), b["total"]) != (8, 8):
            return f"an event is lost: {b['parts']} and {b['total']} instead of 8"
        if self.workers["B"].state.copies.held or self.workers["A"].state.leases.takers:
            return "a remainder of a lease"
        return self.wrong


APP = app()


def thawed(state: bytes) -> World:
    world: World = pickle.loads(state)
    for worker in world.workers.values():
        worker.app, worker.homes = APP, home
    return world


def beginning(budget: dict[str, int], *, numbered: bool) -> World:
    """A runs a trigger of its row, has another one waiting, and is told to give it to B."""
    world = World(dict(budget), numbered)
    for name in ("A", "B"):
        world.start(name)
    for entry, value in (("x", 0), ("y", 1)):
        world.feed("A", Received("outside", Events((Write("rows", ("a",), "parts", entry, value),))))
    world.feed("A", Received("master", Instruct((0.0, 1), "B", 1.0, 1)))
    return world


def search(budget: dict[str, int], limit: int = 10**9, *, numbered: bool = True) -> tuple[int, str | None]:
    """Visit what the choices reach, breadth first; from each state the world also goes on in fair weather."""
    first = beginning(budget, numbered=numbered).frozen()
    seen, queue = {first}, [first]
    for count, state in enumerate(queue):
        if count >= limit:
            break
        for choice in thawed(state).choices():
            world = thawed(state)
            world.do(choice)
            if world.wrong is not None:
                return count, world.wrong
            after = world.frozen()
            if after in seen:
                continue
            seen.add(after)
            queue.append(after)
            if (wrong := thawed(after).completed()) is not None:
                return count, wrong
    return len(seen), None
