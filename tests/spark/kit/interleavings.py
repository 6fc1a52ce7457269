"""Two programs in threads, one storage operation at a time, in every order in which these can come."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any


class Shelf:
    """A storage in memory, as far as the control log uses one: every call is one operation that nothing can divide."""

    url = "memory"

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def names(self, folder: str) -> list[str]:
        return sorted(n.removeprefix(f"{folder}/") for n in self.files if n.startswith(f"{folder}/"))

    def read(self, name: str) -> bytes:
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name]

    def write(self, name: str, content: bytes) -> None:
        self.files[name] = content

    def create(self, name: str, content: bytes) -> None:
        if name in self.files:
            raise FileExistsError(name)
        self.files[name] = content

    def delete(self, name: str) -> None:
        self.files.pop(name, None)


class Steps:
    """A storage whose every call waits until it is this program's turn."""

    def __init__(self, place: Any, turn: Callable[[], None]) -> None:
        self._place = place
        self._turn = turn

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._place, name)
        if not callable(found):
            return found

        def call(*args: Any, **options: Any) -> Any:
            self._turn()
            return found(*args, **options)

        return call


class Program(threading.Thread):
    """Runs until its next storage operation, then waits to be told."""

    def __init__(self, place: Any, work: Callable[[Any], Any]) -> None:
        super().__init__(daemon=True)
        self._go, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self._work, self._steps = work, Steps(place, self._pause)
        self.result: Any = None
        self.error: Exception | None = None
        self.ended = False
        self.start()
        self._stands.acquire()

    def _pause(self) -> None:
        self._stands.release()
        self._go.acquire()

    def run(self) -> None:
        try:
            self.result = self._work(self._steps)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        self.ended = True
        self._stands.release()

    def step(self) -> None:
        self._go.release()
        self._stands.acquire()


def schedules(begin: Callable[[], tuple[Program, Program]]) -> Iterator[tuple[Program, Program]]:
    """Run both programs to their ends in every interleaving; yield them as they ended."""
    prefix: list[int] = []
    while True:
        programs = begin()
        taken: list[tuple[int, int]] = []  # which one went on, and how many could have
        while not all(p.ended for p in programs):
            able = [n for n, p in enumerate(programs) if not p.ended]
            choice = prefix[len(taken)] if len(taken) < len(prefix) else 0
            taken.append((choice, len(able)))
            programs[able[choice]].step()
        yield programs
        while taken and taken[-1][0] == taken[-1][1] - 1:
            taken.pop()
        if not taken:
            return
        prefix = [choice for choice, _ in taken[:-1]] + [taken[-1][0] + 1]


def naps(begin: Callable[[], tuple[Program, Program]]) -> Iterator[tuple[Program, Program]]:
    """Let the first program sleep once: before any of its operations, until the other one has done any number of its own."""
    for before in itertools.count():
        for meanwhile in itertools.count(1):
            first, second = programs = begin()
            for program, steps in ((first, before), (second, meanwhile)):
                for _ in range(steps):
                    if not program.ended:
                        program.step()
            awake, done = first.ended, second.ended
            for program in programs:
                while not program.ended:
                    program.step()
            yield programs
            if done:
                break
        if awake:
            return
