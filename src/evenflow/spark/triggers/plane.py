"""Triggers on Spark: every lane is a trigger worker, and a round is one heartbeat with a time budget.

Between two rounds everything is in one DataFrame: each lane's state (its rows and its waiting triggers) and the mail
between lanes. A round sends both to their lanes with ``repartitionById`` and runs the workers with ``mapInArrow``.
Its output is the next states and the next mail. A round is not an iteration of the application: a lane sees its own
writes at once, works until its budget is used up, and keeps the remaining triggers for the next round.
The master and its policy run in the driver. They get one heartbeat per lane and round, and send instructions as mail.
"""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from evenflow.actor import Received, Send, Started, Woken
from evenflow.errors import BadInput
from evenflow.spark.kit.storage import Storage, checked_url
from evenflow.triggers.app import Key, Row, TriggerApp, Write
from evenflow.triggers.homes import Homes, by_hash, parts
from evenflow.triggers.master import TriggerMaster
from evenflow.triggers.messages import Events, Execute, Executed, Heartbeat, Took
from evenflow.triggers.policies import Policy
from evenflow.triggers.settings import WorkerSettings
from evenflow.triggers.store import Rows, checked
from evenflow.triggers.worker import TriggerWorker

SCHEMA: Final = "lane int, kind string, sender int, number long, body binary"
ARROW: Final = pa.schema(
    [("lane", pa.int32()), ("kind", pa.string()), ("sender", pa.int32()), ("number", pa.int64()), ("body", pa.binary())]
)
STATE, MAIL, REPORT = "state", "mail", "report"
LAST: Final = "last.json"
MASTER: Final = "master"
OUTSIDE: Final = -1
MORE: Final = 1.25  # a lane's budget, as a multiple of the average lane's time in the last round


def lane_name(lane: int) -> str:
    """Return the name of a lane's worker."""
    return f"lane-{lane}"


def _number(name: str) -> int:
    return int(name.removeprefix("lane-"))


@dataclass(frozen=True)
class Placed:
    """An application with its placement: everything that a lane needs to build its worker.

    ``homes`` maps the key of a row to its lane; a row that is not in it is placed by a hash of its key.
    """

    app: Callable[[], TriggerApp]
    homes: Mapping[Any, int]
    settings: WorkerSettings

    def home(self, lanes: int) -> Homes:
        """Return the function that maps a row to its worker, for this number of lanes."""
        homes = self.homes

        def home(_: str, key: Key) -> str:
            lane = homes.get(key)
            return lane_name(by_hash(key, lanes) if lane is None else lane)

        return home

    def check(self, lanes: int) -> None:
        """Refuse homes that are not lanes, because their mail would arrive at another lane.

        Raises
        ------
        BadInput
            For the first such row.
        """
        given: Mapping[Any, Any] = self.homes
        for key, lane in given.items():
            if isinstance(lane, bool) or not isinstance(lane, int | np.integer) or not 0 <= lane < lanes:
                raise BadInput(f"{lane!r} as the home of row {key!r}", f"a lane from 0 to {lanes - 1}", "homes")

    def worker(self, lane: int, lanes: int, rows: Rows | None = None, start: tuple[str, ...] = ()) -> TriggerWorker:
        """Return a lane's worker in its initial state."""
        return TriggerWorker(lane_name(lane), self.app(), self.home(lanes), self.settings, MASTER, rows, start)


@dataclass(frozen=True)
class Report:
    """The report of a lane after a round."""

    lane: int
    beat: Heartbeat
    executed: int
    busy_s: float  # CPU seconds in triggers
    cpu_s: float  # CPU seconds of the lane's task, including reading and writing
    quiet: bool
    mail: int
    counts: Mapping[str, int]
    announced: Mapping[int, int]  # lane → number of its rows that were written to


@dataclass(frozen=True)
class LaneRound:
    """The function for ``mapInArrow`` after ``repartitionById``: it runs one lane for one round."""

    placed: Placed
    lanes: int
    budget_s: float
    now: float

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Read the lane's state and mail, run triggers, and yield the next state, mail and report."""
        began = time.thread_time()
        given = [row for batch in batches for row in batch.to_pylist()]
        states = [row for row in given if row["kind"] == STATE]
        if not states:
            return  # Spark also calls this for empty partitions
        lane = states[0]["lane"]
        worker = self.placed.worker(lane, self.lanes)
        worker.restore(states[0]["body"])
        before, executed_before = worker.state.busy_s, worker.state.counts.get("executed", 0)
        out = _Outbox(worker, self.now)
        mail = [row for row in given if row["kind"] == MAIL]
        mail.sort(key=lambda row: (row["sender"] == OUTSIDE, row["sender"], row["number"]))  # orders after updates
        for row in mail:
            sender = MASTER if row["sender"] == OUTSIDE else lane_name(row["sender"])
            messages = pickle.loads(row["body"])  # noqa: S301 - written by our own round
            if row["sender"] != OUTSIDE:
                messages = [tuple(messages)]  # handled as one event instead of thousands
            for message in messages:
                out.give(Received(sender, message))
        out.work(self.budget_s)
        out.give(Woken("heartbeat"))
        state = worker.state
        report = Report(
            lane,
            out.beats[-1],
            state.counts.get("executed", 0) - executed_before,
            state.busy_s - before,
            0.0,
            worker.quiet and not out.mail,
            sum(len(messages) for messages in out.mail.values()),
            dict(state.counts),
            out.announced(),
        )
        rows = [(lane, STATE, lane, 0, worker.snapshot())]
        rows += [
            (to, MAIL, lane, 0, pickle.dumps(messages, pickle.HIGHEST_PROTOCOL)) for to, messages in out.mail.items()
        ]
        report = replace(report, cpu_s=time.thread_time() - began)  # now includes the time to write the state
        rows.append((lane, REPORT, lane, 0, pickle.dumps(report)))
        yield pa.RecordBatch.from_pylist([dict(zip(ARROW.names, row, strict=True)) for row in rows], ARROW)


class _Outbox:
    """The driver of one worker on its lane: it runs the triggers that the worker starts and collects its messages."""

    def __init__(self, worker: TriggerWorker, now: float) -> None:
        self.worker = worker
        self.now = now
        self.mail: dict[int, list[Any]] = {}
        self.beats: list[Heartbeat] = []
        # Triggers that were running when the last round ended are started again, because they had no effect yet.
        self.ready: list[Execute] = [
            Execute(ticket, run[0].trigger, run[0].size) for ticket, run in worker.state.running.items()
        ]

    def give(self, event: Any) -> None:
        for command in self.worker.handle(event, self.now):
            kind = type(command)
            if kind is Execute:
                self.ready.append(command)
            elif kind is Send:
                if command.to == MASTER:
                    self.beats.append(command.message)
                else:
                    self.mail.setdefault(_number(command.to), []).append(command.message)

    def work(self, budget_s: float) -> None:
        """Run triggers until the budget is used up or nothing waits."""
        used, clock = 0.0, time.thread_time
        while self.ready and used < budget_s:
            execute = self.ready.pop(0)
            began = clock()
            self.give(Executed(execute.ticket, None))
            seconds = clock() - began
            used += seconds
            self.worker.handle(Took(execute.trigger, execute.size, seconds), self.now)

    def announced(self) -> dict[int, int]:
        """Return the number of rows of each lane that this round wrote to."""
        found: dict[int, int] = {}
        for to, messages in self.mail.items():
            keys: set[Key] = set()
            for message in messages:
                for part in message if type(message) is tuple else (message,):
                    if type(part) is Events:
                        keys.update(key for write in part.writes for key in write.keys)
            found[to] = len(keys)
        return found


@dataclass
class TriggerRun:
    """One application on Spark, run in rounds.

    Parameters
    ----------
    spark, placed, lanes
        The session, the application with the home lane of every row, and the number of lanes.
    policy
        Decides which groups move between lanes; the same policies as in virtual time.
    budget_s
        CPU seconds that a lane may spend on triggers in one round.
    least_s
        If given, the budget of a round is a little more than the average lane needed in the last round, but at least
        this many CPU seconds. The work that busier lanes have left can then be lent instead of waited for.
    folder
        A folder that all executors can access. It keeps the last round, so a lost executor repeats its part, and after
        the loss of the driver ``resume`` continues. Without it rounds are kept in the executors' block storage, and the
        loss of one executor ends the run.
    """

    spark: SparkSession
    placed: Placed
    lanes: int
    policy: Policy
    budget_s: float = 0.3
    least_s: float | None = None
    folder: str | None = None
    reports: list[list[Report]] = field(default_factory=list)
    wall_s: float = 0.0
    instructed: int = 0

    def __post_init__(self) -> None:
        self.placed.check(self.lanes)
        self._master = TriggerMaster(self.policy, 0.0, self.budget_s)
        self._storage = Storage(checked_url(self.folder)) if self.folder is not None else None
        self._table: DataFrame | None = None
        self._orders: dict[int, list[Any]] = {}
        self._number = 0
        self._budget_s = self.budget_s if self.least_s is None else self.least_s

    def start(self, rows: Callable[[int], Rows], triggers: tuple[str, ...]) -> None:
        """Put the rows on their lanes and invoke triggers for all of them."""
        states = []
        home = self.placed.home(self.lanes)
        for lane in range(self.lanes):
            worker = self.placed.worker(lane, self.lanes, rows(lane), triggers)
            for table in worker.app.tables:
                for key in worker.state.rows.of(table):
                    if home(table, key) != worker.name:  # its events would go to a second row with the same key
                        given = f"row {key!r} of {table!r} for {worker.name}"
                        raise BadInput(given, f"its home {home(table, key)}", "start")
            worker.handle(Started({}), 0.0)
            states.append((lane, STATE, lane, 0, worker.snapshot()))
        self._master.handle(Started({}), 0.0)
        self._table = self._kept(self._frame(states))

    def resume(self) -> bool:
        """Continue after the last complete round in the folder; return whether there is one.

        Writes from outside after that round must be repeated.
        """
        if self._storage is None or not self._storage.has(LAST):
            return False
        last = json.loads(self._storage.read(LAST))
        if last.get("lanes", self.lanes) != self.lanes:
            raise BadInput(f"{self.lanes} lanes", f"{last['lanes']}, as the folder has them", "resume")
        self._number = last["round"]
        self._master.handle(Started({}), float(self._number))  # its numbers are larger than those before the restart
        self._table = self._stored()
        reports = self._reports()
        if reports:
            self._decide(reports)
        return True

    def write(self, writes: Sequence[Write]) -> None:
        """Change tables from outside; the next round sees the changes.

        Raises
        ------
        BadInput
            For a table, a column or an entry that the application does not have; then none of the writes is applied.
        """
        app, home = self.placed.app(), self.placed.home(self.lanes)
        found = [part for write in writes for part in parts(checked(app, write), home)]
        for name, write in found:
            self._orders.setdefault(_number(name), []).append(Events((write,)))

    def round(self) -> list[Report]:
        """Run one round on all lanes and return the reports."""
        assert self._table is not None, "start() or resume() comes first"
        began = time.perf_counter()
        given = self._table.where(f.col("kind") != REPORT)
        if self._orders:
            mail = [(lane, MAIL, OUTSIDE, 0, pickle.dumps(orders)) for lane, orders in sorted(self._orders.items())]
            given = given.unionByName(self._frame(mail))
            self._orders = {}
        self._number += 1
        task = LaneRound(self.placed, self.lanes, self._budget_s, float(self._number))
        self._table = self._kept(given.repartitionById(self.lanes, "lane").mapInArrow(task, SCHEMA))
        found = self._reports()
        self.reports.append(found)
        self._decide(found)
        self.wall_s += time.perf_counter() - began
        return found

    def _kept(self, done: DataFrame) -> DataFrame:
        """Store the result of a round; otherwise the plan of every round would contain all rounds before it.

        A round with a time budget cannot be repeated with the same result, so a lost block must be an error.
        """
        if self._storage is None:
            return done.localCheckpoint(eager=False)
        done.write.mode("overwrite").parquet(self._place())
        self._storage.write(LAST, json.dumps({"round": self._number, "lanes": self.lanes}).encode())
        return self._stored()

    def _stored(self) -> DataFrame:
        return self.spark.read.schema(SCHEMA).parquet(self._place())

    def _place(self) -> str:
        """Return the folder of this round; the round before it uses the other one."""
        assert self._storage is not None
        return f"{self._storage.url}/{'even' if self._number % 2 == 0 else 'odd'}"

    def _reports(self) -> list[Report]:
        assert self._table is not None
        bodies = self._table.where(f.col("kind") == REPORT).select("body").toArrow()["body"].to_pylist()
        found: list[Report] = [pickle.loads(body) for body in bodies]  # noqa: S301 - written by our own round
        return sorted(found, key=lambda report: report.lane)

    def run(self, most: int = 10_000) -> int:
        """Run rounds until no trigger waits and no message is under way; return the number of rounds."""
        for count in range(1, most + 1):
            reports = self.round()
            if all(report.quiet for report in reports) and not self._orders:
                return count
        raise RuntimeError(f"not at rest after {most} rounds")

    def rows(self, table: str) -> dict[Key, Row]:
        """Return the rows of a table from all lanes."""
        assert self._table is not None, "start() comes first"
        found: dict[Key, Row] = {}
        for body in self._table.where(f.col("kind") == STATE).select("body").toArrow()["body"].to_pylist():
            found.update(pickle.loads(body).rows.of(table))  # noqa: S301 - written by our own round
        return found

    def _decide(self, reports: Sequence[Report]) -> None:
        """Give the master the heartbeats, with the expected load of undelivered mail, and post its instructions."""
        now = float(self._number)
        expected = _expected(reports)
        for report in reports:
            beat = report.beat._replace(load_s=report.beat.load_s + expected[report.lane], at=now)
            self._master.handle(Received(lane_name(report.lane), beat), now)
        if self.least_s is not None:
            worked = sum(report.busy_s for report in reports) / len(reports)
            self._budget_s = min(self.budget_s, max(self.least_s, MORE * worked))
        for command in self._master.handle(Woken("decide"), now):
            if isinstance(command, Send):
                self.instructed += 1
                self._orders.setdefault(_number(command.to), []).append(command.message)

    def _frame(self, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
        table = pa.Table.from_pylist([dict(zip(ARROW.names, row, strict=True)) for row in rows], ARROW)
        return self.spark.createDataFrame(table)


def _expected(reports: Sequence[Report]) -> dict[int, float]:
    """Predict the seconds of work that each lane's mail will cause: one trigger for every row that was written to.

    Several lanes may have written to the same row, so only the largest count of one sender is used.
    """
    found = {}
    for report in reports:
        rows = max((other.announced.get(report.lane, 0) for other in reports), default=0)
        mean = report.busy_s / report.executed if report.executed else 0.0
        found[report.lane] = rows * mean
    return found
