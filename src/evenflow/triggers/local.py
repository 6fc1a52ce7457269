"""A cluster in one process, without a clock: for examples, tests, and data that fits on one machine."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from evenflow.actor import Received, Send, Started
from evenflow.errors import BadInput
from evenflow.triggers.app import NO_ENTRY, Key, Row, TriggerApp, Write
from evenflow.triggers.homes import by_hash, parts
from evenflow.triggers.messages import Events, Execute, Executed
from evenflow.triggers.settings import WorkerSettings
from evenflow.triggers.store import checked
from evenflow.triggers.worker import TriggerWorker


class LocalCluster:
    """A cluster that runs an application on workers that take turns.

    The workers are the same as in every other driver. Messages arrive in the order in which they were sent.
    ``work`` counts the executions by trigger name.
    """

    def __init__(self, app: TriggerApp, workers: int = 1) -> None:
        if workers < 1:
            raise BadInput(str(workers), "at least 1", "workers")
        self.app = app
        self.names = [f"worker-{n}" for n in range(workers)]
        settings = WorkerSettings(heartbeat_s=0.0, reads="end")
        self.workers = {name: TriggerWorker(name, app, self.home, settings) for name in self.names}
        self.work: dict[str, int] = dict.fromkeys(app.triggers, 0)
        self._mail: deque[tuple[str, Any]] = deque()
        self._ready: deque[tuple[str, Execute]] = deque()
        for name in self.names:
            self._give(name, Started({}))

    def home(self, table: str, key: Key) -> str:
        """Return the worker of a row, by a hash that is the same in every process."""
        return self.names[by_hash(key, len(self.names))]

    def set(self, table: str, key: Key, column: str, value: Any) -> None:
        """Change a cell from outside."""
        self._write(Write(table, (key,), column, NO_ENTRY, value))

    def put(self, table: str, key: Key, column: str, entry: Any, value: Any) -> None:
        """Change an entry of a cell from outside; ``None`` removes it."""
        self._write(Write(table, (key,), column, entry, value))

    def _write(self, write: Write) -> None:
        for home, part in parts(checked(self.app, write), self.home):
            self._mail.append((home, Received("outside", Events((part,)))))
        self._deliver()

    def row(self, table: str, key: Key) -> Row:
        """Return a row as it is now."""
        return self.workers[self.home(table, key)].state.rows.copied(table, key)

    def rows(self, table: str) -> Mapping[Key, Row]:
        """Return all rows of a table that were ever accessed."""
        self.app.columns(table)
        return {key: row for worker in self.workers.values() for key, row in worker.state.rows.of(table).items()}

    def run(self, at_most: int = 10_000_000) -> int:
        """Run triggers until none is left to run; return the number of executions."""
        done = 0
        while self._ready:
            if done >= at_most:
                raise BadInput(f"{done} executions without an end", "an application that comes to rest", "run")
            name, execute = self._ready.popleft()
            self.work[execute.trigger] += 1
            done += 1
            self._give(name, Executed(execute.ticket, None))
            self._deliver()
        return done

    def _deliver(self) -> None:
        while self._mail:
            self._give(*self._mail.popleft())

    def _give(self, name: str, event: Any) -> None:
        for command in self.workers[name].handle(event, 0.0):
            if isinstance(command, Send):
                self._mail.append((command.to, Received(name, command.message)))
            elif isinstance(command, Execute):
                self._ready.append((name, command))
