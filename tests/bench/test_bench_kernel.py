"""The bench of the simulator has its fields and its table."""

from __future__ import annotations

import json


def test_rows_name_their_baseline(evenflow):
    done = evenflow("bench", "kernel", "--events", 5000, "--json")
    found = json.loads(done.out)
    assert done.code == 0
    assert found["bench"] == "kernel"
    assert [row["variant"] for row in found["rows"]] == ["perfect network", "faulty network"]
    assert {row["baseline"] for row in found["rows"]} == {"perfect network"}
    assert all(row["events_per_cpu_s"] > 0 for row in found["rows"])


def test_the_table_is_for_people(evenflow):
    done = evenflow("bench", "kernel", "--events", 1000)
    assert done.code == 0
    assert "events per CPU-second" in done.out
