"""Publishers as a process of their own: many writers, each with its items, its log and its patience."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenflow.actor import Received
from evenflow.dds.bus import AckPort, Bus
from evenflow.dds.journal import Journal
from evenflow.dds.process import Cell, Process
from evenflow.dds.wire.idl import item_type
from evenflow.dds.wire.values import to_sample
from evenflow.slices.ledger import publisher_of
from evenflow.slices.messages import Ack
from evenflow.slices.publisher import Due, Publish, Publisher, publisher_name


@dataclass
class Reading:
    """What the writers of the experiment write: a sensor's temperature (Figure 10)."""

    sensor: int
    temperature: float


class CountReadings:
    """The listener of the experiment: counts readings per slice."""

    topic = "readings"
    type = Reading

    def on_data(self, item: Any, state: Any) -> Any:
        """Add one."""
        return (state or 0) + 1

    def on_correlating_data(self, item: Any) -> None:
        """Ignore it."""


class WritersProcess:
    """Runs publishers until every item is written and acknowledged, or the patience ends.

    Parameters
    ----------
    schedules
        What each writer writes, by the writer's number.
    kinds
        The dataclass of each topic's values.
    log
        A directory; each writer's log of what it wrote lies in it. Without one nothing is logged.
    items
        How many items the schedules hold in all; ``None``: whenever a schedule ends.
    patience_s
        How long to wait for acknowledgements after the last item.
    """

    def __init__(
        self,
        schedules: Mapping[int, Iterator[Due]],
        kinds: Mapping[str, type],
        domain: int,
        log: Path | None,
        *,
        items: int | None,
        retry_s: float = 1.0,
        patience_s: float = 30.0,
    ) -> None:
        self.bus = Bus(domain)
        self.kinds = kinds
        self.items = items
        self.patience_s = patience_s
        self.port = AckPort(self.bus)
        self.publishers = {
            n: Publisher(n, schedule, retry_s, record=log is not None) for n, schedule in schedules.items()
        }
        self.cells: dict[int, Cell] = {}
        for number, publisher in self.publishers.items():
            name = publisher_name(number)
            for topic, kind in kinds.items():
                self.bus.writer(topic, item_type(kind), name)  # readers find it before the first item
            journal = None if log is None else Journal(log / name, keep=True)
            self.cells[number] = Cell(name, publisher, journal, _nobody, None, {Publish: self._publisher(name)})
        self.process = Process(self.bus, self.cells.values(), [self._acks], self._turn)
        self._complete_at: float | None = None

    def run(self) -> int:
        """Write everything; return how many items nobody acknowledged."""
        self.process.run()
        return sum(p.unacknowledged for p in self.publishers.values())

    def _publisher(self, name: str) -> Any:
        def publish(command: Publish) -> None:
            item = command.item
            kind = self.kinds[item.topic]
            self.bus.write(self.bus.writer(item.topic, item_type(kind), name), to_sample(item, kind))

        return publish

    def _acks(self) -> list[tuple[Cell, Any]]:
        events = []
        for sender, ack in self.port.arrived():
            ours: dict[int, list[int]] = {}
            for item in ack.items:
                if publisher_of(item) in self.cells:
                    ours.setdefault(publisher_of(item), []).append(item)
            events += [(self.cells[n], Received(sender, Ack(tuple(ids)))) for n, ids in ours.items()]
        return events

    def _turn(self, now: float) -> None:
        if self.items is None:
            if not all(p.exhausted for p in self.publishers.values()):
                return
        elif sum(p.written for p in self.publishers.values()) < self.items:
            return
        if self._complete_at is None:
            self._complete_at = now
        late = now - self._complete_at > self.patience_s
        if late:
            self._note_waiting(now)
        if late or not any(p.unacknowledged for p in self.publishers.values()):
            self.process.stop()

    def _note_waiting(self, now: float) -> None:
        """Log what is given up on: it is kept here to the end, so it was not lost."""
        for number, publisher in self.publishers.items():
            journal = self.cells[number].journal
            if journal is not None and publisher.unacknowledged:
                journal.write({}, [{"kind": "waiting", "at": now, "ids": [item.id for item in publisher.kept]}])


def readings(number: int, begin: float, count: int, period_s: float, slices: int) -> Iterator[Due]:
    """Return the schedule of one writer: a sensor per slice in turn, evenly spaced in time."""
    for i in range(count):
        sensor = (number * 7919 + i) % (5 * slices)
        value = {"sensor": sensor, "temperature": 20.0 + sensor % 13}
        yield Due(begin + (i + number % 50 / 50) * period_s, sensor % slices, topic=CountReadings.topic, value=value)


def main(words: Sequence[str]) -> int:
    """Run writers ``first…last``: domain, log, first, last, items per writer, seconds between items, slices, retry_s, patience_s.

    It says that it is ready by a file in ``log``, and begins at the time that the file ``begin`` there holds.
    """
    domain, log, first, last, count, period_s, slices, retry_s, patience_s = words
    each = int(count)
    begin = _Begin(Path(log) / "begin")
    schedules = {n: _delayed(begin, n, each, float(period_s), int(slices)) for n in range(int(first), int(last) + 1)}
    writers = WritersProcess(
        schedules,
        {CountReadings.topic: Reading},
        int(domain),
        Path(log),
        items=each * len(schedules),
        retry_s=float(retry_s),
        patience_s=float(patience_s),
    )
    writers.process.catch_signals()
    (Path(log) / f"ready-{first}").touch()
    begin.wait()
    return 0 if writers.run() == 0 else 4


class _Begin:
    """The time at which writing begins, once somebody says it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.at = 0.0

    def wait(self) -> None:
        """Wait for the file."""
        while not self.path.exists():
            time.sleep(0.05)
        self.at = float(self.path.read_text())


def _delayed(begin: _Begin, number: int, count: int, period_s: float, slices: int) -> Iterator[Due]:
    yield from readings(number, begin.at, count, period_s, slices)


def _nobody(to: str, message: Any) -> None:
    """Drop it: publishers publish and send nothing."""


if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1:]))
