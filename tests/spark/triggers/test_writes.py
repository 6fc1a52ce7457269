"""Changes from outside reach the rows of all lanes, also rows that no lane had before."""

from __future__ import annotations

from evenflow.spark.triggers.plane import Placed, TriggerRun
from evenflow.triggers.app import Entries, TriggerApp, Write
from evenflow.triggers.policies import NoBalancing
from evenflow.triggers.settings import WorkerSettings
from evenflow.triggers.store import Rows

SETTINGS = WorkerSettings(heartbeat_s=0.0, reads="end", direct=True)


def test_one_write_for_rows_of_several_lanes(spark):
    def app():  # lanes cannot import this module, so nothing in here is one of its names
        made = TriggerApp("totals")
        made.table("regions", amounts=Entries(), total=0.0)
        made.table("all", totals=Entries(), total=0.0)

        @made.on("regions.amounts")
        def add_up(row):
            row["total"] = sum(row["amounts"].values())
            row.put("all", ["everything"], "totals", row.key, row["total"])  # a row that no home names

        @made.on("all.totals")
        def add_all(row):
            row["total"] = sum(row["totals"].values())

        return made

    new = "new"
    homes = {"a": 0, "b": 1}
    placed = Placed(app, homes, SETTINGS)
    run = TriggerRun(spark, placed, 2, NoBalancing())
    run.start(lambda _: Rows(app()), ())
    run.write([Write("regions", ("a", "b", new), "amounts", "order 1", 1.0)])
    run.run(most=6)
    assert {key: row["total"] for key, row in run.rows("regions").items()} == {"a": 1.0, "b": 1.0, new: 1.0}
    assert {key: row["total"] for key, row in run.rows("all").items()} == {"everything": 3.0}
