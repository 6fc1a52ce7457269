"""The driver that a kill drill kills: a balanced stream whose slices never rest, then the comparison of what it wrote.

Started as ``python -m evenflow.experiments.slices.kill_child DIRECTORY``; ends when the file ``enough`` appears there.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from evenflow import guards
from evenflow.draft import Draft, RowMove
from evenflow.experiments.slices.trial import OUTPUT, expected, follow, read_order, stream_of, written
from evenflow.invariants import SliceCheck, compare
from evenflow.rundir import TRACE
from evenflow.spark.kit.controller import Balancing
from evenflow.spark.session import QUICK_START, local_session
from evenflow.spark.slices.balance import balance
from evenflow.trace import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenflow.spark.kit.query import BalancedQuery


class Shuffle:
    """Moves slices at random, whatever their load: the worst customer that a hand-off can have."""

    guards: ClassVar[tuple[guards.Guard, ...]] = guards.HARD

    def propose(self, draft: Draft) -> Iterator[RowMove]:
        """Offer a third of the slices to other lanes."""
        chance = random.Random(repr(draft.load.tolist()))
        lanes = range(len(draft.snapshot.node_ids))
        movable = [u for u in range(len(draft.snapshot.unit_ids)) if u not in draft.snapshot.leaving]
        for unit in chance.sample(movable, len(movable) // 3 or len(movable)):
            others = [lane for lane in lanes if lane != draft.owner[unit]]
            if others:
                yield draft.move(unit, chance.choice(others), "shuffled")


RESTLESS = Balancing(
    policy="evenflow.experiments.slices.kill_child:Shuffle",
    load="rows",
    tolerance=-1.0,
    every=1,
    keep_up=0.0,
    rest=0,
    hold=1,
)
"""Something moves in every batch, and its rows wait for a batch."""


def main(directory: Path) -> None:
    """Run the stream until there is enough of it, then write what was found."""
    settings = json.loads((directory / "drill.json").read_text())
    session = {**QUICK_START, **settings["session"]}
    spark = local_session(lanes=2, name="evenflow kill drill", settings=session, master=settings["master"])
    stream = stream_of(spark, directory / "in")
    query = (
        balance(stream, by="device", slices=settings["slices"], lanes=settings["lanes"], balancing=RESTLESS)
        .process(follow, OUTPUT)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(directory / "check"))
        .start(str(directory / "out"))
    )
    while not (directory / "enough").exists():
        if query.exception() is not None or not query.isActive:
            raise SystemExit(f"the query ended: {query.exception()}")
        time.sleep(0.1)
    _settle(query)
    (directory / "findings.part").write_text(json.dumps(findings(spark, directory)))
    (directory / "findings.part").rename(directory / "findings.json")
    spark.stop()


def _settle(query: BalancedQuery) -> None:
    """Work off what is there and let every session end."""
    query.pause_balancing()
    query.processAllAvailable()
    while query.routes().sessions:
        time.sleep(0.1)
        query.processAllAvailable()
    query.stop()


def findings(spark: SparkSession, directory: Path) -> dict[str, Any]:
    """Compare the sink with an undisturbed run and with a batch aggregate, and check the trace."""
    order = read_order(directory / "check")
    want = {row["id"]: row for row in expected(directory / "in", order)}
    got = written(spark, directory / "out")
    check = SliceCheck()
    for record in read(directory / "check" / "evenflow" / "run" / TRACE):
        check.read(record)
    seen = compare(want, (row["id"] for row in got)).judged("the kill drill")
    last = {row["device"]: (row["n"], row["total"]) for row in sorted(got, key=lambda row: int(row["n"]))}
    batch = spark.read.parquet(str(directory / "in")).groupBy("device").agg({"id": "count", "value": "sum"}).toArrow()
    totals = {row["device"]: (row["count(id)"], row["sum(value)"]) for row in batch.to_pylist()}
    found = check.findings()
    return {
        "rows": len(want),
        "files_out_of_order": sum(name > after for name, after in pairwise(order)),
        "lost": seen.lost,
        "duplicated": seen.duplicated,
        "order_violations": sum(row != want.get(row["id"]) for row in got),
        "states_wrong": compare(totals.items(), last.items()).judged("the states of the kill drill").lost,
        "moves": found["moves"],
        "owner_violations": found["owner_violations"],
        "unfinished_sessions": found["unfinished_sessions"],
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
