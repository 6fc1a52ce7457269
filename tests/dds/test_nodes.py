"""The processes themselves: a small run in every test, the full one on demand."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.filterwarnings("default")


def run(evenflow, *words):
    done = evenflow("experiment", "dds-nodes", "--json", *words)
    assert done.code == 0, done.err
    return json.loads(done.out)["rows"][0]


@pytest.mark.long
@pytest.mark.parametrize("where", ["reader"])
def test_nothing_is_lost_or_doubled_while_nodes_come_go_and_die(evenflow, where):
    settings = (
        "items=3200",
        "rate=200",
        "writers=8",
        "publishers=2",
        "nodes=2",
        "join=1",
        "slices=12",
        "monitor_s=0.5",
    )
    row = run(evenflow, *(word for s in (*settings, f"filter={where}") for word in ("--set", s)))
    assert row["published"] == 3200
    assert (row["lost"], row["duplicated"], row["unknown"], row["failed_exits"]) == (0, 0, 0, 0)
    assert row["committed"] == 3200
    assert (row["nodes_at_end"], row["slices_uneven"]) == (2, 0)
    assert row["sessions"] >= 3
    assert row["filter_ratio"] <= 1.2


@pytest.mark.long
def test_the_whole_experiment(evenflow):
    row = run(evenflow)
    assert row["published"] == 200_000
    assert (row["lost"], row["duplicated"], row["unknown"], row["failed_exits"]) == (0, 0, 0, 0)
    assert row["nodes_at_end"] == 5
    assert row["slices_uneven"] <= 1
    assert row["filter_ratio"] <= 1.2


@pytest.mark.long
def test_with_the_filter_in_the_node(evenflow):
    row = run(evenflow, "--set", "filter=node", "--set", "items=20000", "--set", "rate=1000")
    assert (row["lost"], row["duplicated"], row["unknown"]) == (0, 0, 0)
