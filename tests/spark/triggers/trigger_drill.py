"""A run of triggers that can be ended at any time: ``python trigger_drill.py FOLDER`` goes on where it was."""

from __future__ import annotations

import sys

import numpy as np

from evenflow.experiments.triggers.graph import power_law, skewed_homes
from evenflow.spark.session import local_session
from evenflow.spark.triggers.plane import Placed, TriggerRun
from evenflow.triggers.pagerank import DIST, page_rows, pagerank
from evenflow.triggers.policies import FillToMean
from evenflow.triggers.settings import WorkerSettings

TOLERANCE = 1e-2
LANES = 2
GRAPH = power_law(150, np.random.default_rng(1), mean=5.0)


def trigger_run(spark, folder: str) -> TriggerRun:
    def app():  # lanes cannot import this module, so it must not be one of its names
        return pagerank(TOLERANCE, lazy=True)

    homes = skewed_homes(GRAPH.pages, LANES, 1.5, np.random.default_rng(2))
    worker = WorkerSettings(heartbeat_s=0.0, trigroup_s=0.0005, estimate="line", first_s=1e-4, reads="end", direct=True)
    run = TriggerRun(spark, Placed(app, homes, worker), LANES, FillToMean(0.0005), 0.05, 0.005, folder)
    if not run.resume():
        shares = [[page for page in GRAPH.pages if homes[page] == lane] for lane in range(LANES)]
        run.start(lambda lane: page_rows(app(), GRAPH.links, GRAPH.linked, shares[lane]), (DIST,))
    return run


def main(folder: str) -> None:
    session = local_session(2, name="trigger drill", settings={"spark.log.level": "ERROR"})
    run = trigger_run(session, folder)
    while True:
        reports = run.round()
        sys.stdout.write("round\n")
        sys.stdout.flush()
        if all(report.quiet for report in reports):
            break
    sys.stdout.write("done\n")
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1])
