"""A running balanced query: Spark's own handle, and what an operator may ask of its slices."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from evenflow import policies
from evenflow.errors import BadInput
from evenflow.spark.clerk import REQUESTS
from evenflow.spark.notebook import query_html
from evenflow.spark.routes import MOVE, RECEIPT, Routes
from evenflow.spark.samples import Samples
from evenflow.spark.settings import Plane

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NODES: Final = "lane int, in_use boolean, slices int, arriving int, leaving int, rows long, cpu_s double, wall_s double"
MOVES: Final = "session long, slice int, giver int, taker int, at double, done boolean, why string"
SAMPLES: Final = (
    "batch long, lane int, slice int, rows long, cpu_s double, wall_s double, state_bytes long, held_rows long"
)


class BalancedQuery:
    """Everything that Spark's ``StreamingQuery`` has, and the operator's verbs.

    A verb is a request: it is carried out between two batches, and survives a restart.
    """

    def __init__(self, query: StreamingQuery, plane: Plane, spark: SparkSession) -> None:
        self._query = query
        self._plane = plane
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)

    # -- what is -------------------------------------------------------------------------------

    def routes(self) -> Routes:
        """Return where every slice is by now, and which are on their way."""
        log = self._plane.log()
        return log.at(log.length())

    def nodes(self) -> DataFrame:
        """Return the lanes: how many slices each owns, and what its last batch took."""
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
        """Return the moves that the log still holds, the oldest first; the trace has all of them."""
        return self._spark.createDataFrame(self._moves(), MOVES)

    def _moves(self) -> list[tuple[Any, ...]]:
        log = self._plane.log()
        entries = log.between(log.first(), log.length())
        done = {e.session for e in entries if e.kind == RECEIPT}
        return [
            (e.session, e.slice, e.giver, e.taker, e.at, e.session in done, e.why) for e in entries if e.kind == MOVE
        ]

    def _repr_html_(self) -> str:
        """Show the lanes and the latest moves in a notebook."""
        return query_html(self._query.name or "balanced query", self._nodes(), self._moves())

    def samples(self) -> DataFrame:
        """Return what the last batches took, by lane and slice."""
        rows = [
            (s.batch, s.lane, n, c.rows, c.cpu_s, c.wall_s, c.state_bytes, c.held_rows)
            for s in Samples(self._plane.place).new()
            for n, c in sorted(s.slices.items())
        ]
        return self._spark.createDataFrame(rows, SAMPLES)

    # -- what shall be -------------------------------------------------------------------------

    def move(self, moves: Mapping[int, int], why: str = "asked for") -> None:
        """Move slices to lanes; one that is under way is passed over."""
        for slice_id, lane in moves.items():
            self._check(lane, slice_id)
        self._ask(MOVE, moves=[[s, lane, why] for s, lane in moves.items()])

    def drain(self, lane: int) -> None:
        """Let a lane rest: its slices go to the others."""
        self._check(lane)
        if set(range(self._plane.lanes)) - self.routes().resting <= {lane}:
            raise BadInput(f"lane {lane}, the only one in use", "one of several lanes", "drain")
        self._ask("rest", value=[lane])

    def add(self, lanes: int = 1) -> list[int]:
        """Take further lanes into use, the lowest that rest; return which."""
        resting = sorted(self.routes().resting)
        if not 1 <= lanes <= len(resting):
            allowed = f"1 to {len(resting)}: {self._plane.lanes} lanes were fixed with the checkpoint"
            raise BadInput(f"{lanes} more lanes", allowed if resting else "none, all lanes are in use", "add")
        self._ask("use", value=resting[:lanes])
        return resting[:lanes]

    def pin(self, slice: int, lane: int) -> None:  # noqa: A002 - the word of the matter
        """Put a slice on a lane and keep it there."""
        self._check(lane, slice)
        self._ask("pin", value=[slice, lane])

    def unpin(self, slice: int) -> None:  # noqa: A002 - the word of the matter
        """Let a slice move again."""
        self._check(0, slice)
        self._ask("unpin", value=slice)

    def use_policy(self, name: str) -> None:
        """Decide by another policy from now on."""
        policies.kind_of(name)
        self._ask("policy", value=name)

    def pause_balancing(self) -> None:
        """Plan nothing until :meth:`resume_balancing`; orders are still carried out."""
        self._ask("paused", value=True)

    def resume_balancing(self) -> None:
        """Plan again."""
        self._ask("paused", value=False)

    def _check(self, lane: int, slice_id: int = 0) -> None:
        plane = self._plane
        if not (0 <= slice_id < plane.slices and 0 <= lane < plane.lanes):
            allowed = f"slices 0 to {plane.slices - 1}, lanes 0 to {plane.lanes - 1}"
            raise BadInput(f"slice {slice_id}, lane {lane}", allowed, "query")

    def _ask(self, what: str, **fields: Any) -> None:
        # Named for the moment: requests are carried out in the order in which they were made.
        name = f"{time.time_ns():020}-{uuid.uuid4().hex[:8]}"
        self._plane.place.write(f"{REQUESTS}/{name}", json.dumps({"what": what, **fields}).encode())
