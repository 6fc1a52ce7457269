"""A running balanced query: Spark's own handle, plus the operator's methods to inspect and move slices."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from evenflow.errors import BadInput
from evenflow.spark.kit import drivers, requests
from evenflow.spark.kit.notebook import query_html
from evenflow.spark.kit.plane import Plane
from evenflow.spark.kit.routes import MOVE, RECEIPT, Routes
from evenflow.spark.kit.samples import Samples

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NODES: Final = "lane int, in_use boolean, slices int, arriving int, leaving int, rows long, cpu_s double, wall_s double"
MOVES: Final = "session long, slice int, giver int, taker int, at double, done boolean, why string"
SAMPLES: Final = (
    "batch long, lane int, slice int, rows long, cpu_s double, wall_s double, state_bytes long, held_rows long"
)


class BalancedQuery:
    """A streaming query with all methods of Spark's ``StreamingQuery`` and the operator's methods.

    ``move``, ``drain``, ``pin`` and the others write a request.
    It is carried out between two batches and survives a restart.
    """

    def __init__(
        self, query: StreamingQuery, plane: Plane, spark: SparkSession, driver: int, policies: Collection[str] = ()
    ) -> None:
        self._query = query
        self._plane = plane
        self._spark = spark
        self._driver = driver
        self._policies = policies

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)

    # -- how it ended: if a newer driver has taken over, report that, whatever error the old driver met first -----------

    def exception(self) -> Exception | None:
        """Return the error that ended the query: Spark's, or ``SupersededError`` if a newer driver has taken over."""
        error: Exception | None = self._query.exception()
        if error is not None:
            try:
                drivers.check(self._plane.place, self._driver)
            except drivers.SupersededError as superseded:
                return superseded
        return error

    def awaitTermination(self, timeout: int | None = None) -> bool | None:  # noqa: N802 - Spark's name
        """Wait until the query ends, like Spark's method."""
        with self._ended():
            ended: bool | None = self._query.awaitTermination(timeout)
        return ended

    def processAllAvailable(self) -> None:  # noqa: N802 - Spark's name
        """Wait until all available input is processed, like Spark's method."""
        with self._ended():
            self._query.processAllAvailable()

    @contextmanager
    def _ended(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            drivers.check(self._plane.place, self._driver)
            raise

    # -- inspecting ----------------------------------------------------------------------------

    def routes(self) -> Routes:
        """Return the current lane of every slice, and the slices that are moving."""
        log = self._plane.log()
        return log.at(log.length())

    def nodes(self) -> DataFrame:
        """Return one row per lane: the number of its slices, and the rows and seconds of its last batch."""
        return self._spark.createDataFrame(self._nodes(), NODES)

    def _nodes(self) -> list[tuple[Any, ...]]:
        routes = self.routes()
        moving = routes.moving().values()
        last = {sample.lane: sample for sample in Samples(self._plane.place).new()}
        rows = []
        for lane in range(routes.lanes):
            sample = last.get(lane)
            rows.append(
                (
                    lane,
                    lane not in routes.resting,
                    routes.lane.count(lane),
                    sum(m.taker == lane for m in moving),
                    sum(m.giver == lane for m in moving),
                    sample.rows if sample else 0,
                    sample.cpu_s if sample else 0.0,
                    sample.wall_s if sample else 0.0,
                )
            )
        return rows

    def moves(self) -> DataFrame:
        """Return the moves that are still in the log, oldest first; the trace has all moves."""
        return self._spark.createDataFrame(self._moves(), MOVES)

    def _moves(self) -> list[tuple[Any, ...]]:
        log = self._plane.log()
        entries = log.between(log.first(), log.length())
        done = {e.session for e in entries if e.kind == RECEIPT}
        return [
            (e.session, e.slice, e.giver, e.taker, e.at, e.session in done, e.why) for e in entries if e.kind == MOVE
        ]

    def _repr_html_(self) -> str:
        """Return the lanes and the latest moves as HTML, for a notebook."""
        return query_html(self._query.name or "balanced query", self._nodes(), self._moves())

    def samples(self) -> DataFrame:
        """Return rows, seconds and state size of the last batches, by lane and slice."""
        rows = [
            (s.batch, s.lane, n, c.rows, c.cpu_s, c.wall_s, c.state_bytes, c.held_rows)
            for s in Samples(self._plane.place).new()
            for n, c in sorted(s.slices.items())
        ]
        return self._spark.createDataFrame(rows, SAMPLES)

    # -- requests ------------------------------------------------------------------------------

    def move(self, moves: Mapping[int, int], why: str = "asked for") -> None:
        """Move slices to lanes; a slice that is already moving is skipped."""
        self._ask({"what": requests.MOVE, "moves": [[s, lane, why] for s, lane in moves.items()]})

    def drain(self, lane: int) -> None:
        """Take a lane out of use; its slices move to the other lanes."""
        self._ask({"what": "rest", "value": [lane]})

    def add(self, lanes: int = 1) -> list[int]:
        """Put unused lanes into use, lowest numbers first; return their numbers."""
        resting = sorted(self.routes().resting)
        if not 1 <= lanes <= len(resting):
            allowed = f"1 to {len(resting)}: {self._plane.lanes} lanes were fixed with the checkpoint"
            raise BadInput(f"{lanes} more lanes", allowed if resting else "none, all lanes are in use", "add")
        self._ask({"what": "use", "value": resting[:lanes]})
        return resting[:lanes]

    def pin(self, slice: int, lane: int) -> None:  # noqa: A002 - the word of the matter
        """Put a slice on a lane and keep it there."""
        self._ask({"what": "pin", "value": [slice, lane]})

    def unpin(self, slice: int) -> None:  # noqa: A002 - the word of the matter
        """Let a slice move again."""
        self._ask({"what": "unpin", "value": slice})

    def use_policy(self, name: str) -> None:
        """Switch to another policy: a built-in one, or one named in ``Balancing``."""
        self._ask({"what": "policy", "value": name})

    def pause_balancing(self) -> None:
        """Stop planning until :meth:`resume_balancing`; requests are still carried out."""
        self._ask({"what": "paused", "value": True})

    def resume_balancing(self) -> None:
        """Start planning again."""
        self._ask({"what": "paused", "value": False})

    def _ask(self, request: dict[str, Any]) -> None:
        plane = self._plane
        resting = self.routes().resting if request["what"] == "rest" else ()
        requests.checked(request, requests.Askable(plane.slices, plane.lanes, self._policies, resting))
        # The name begins with the time, because requests are carried out in the order of their names.
        name = f"{time.time_ns():020}-{uuid.uuid4().hex[:8]}"
        plane.place.write(f"{requests.FOLDER}/{name}", json.dumps(request).encode())
