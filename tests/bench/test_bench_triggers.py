"""The bench of balancing decisions has its fields, and something to decide."""

from __future__ import annotations

import json


def test_rows_name_their_baseline(evenflow):
    done = evenflow("bench", "triggers", "--workers", 40, "--triggers", 4000, "--json")
    found = json.loads(done.out)
    assert (done.code, found["bench"]) == (0, "triggers")
    assert [row["variant"] for row in found["rows"]] == ["dlber", "fill_to_mean", "ask_when_idle"]
    assert {row["baseline"] for row in found["rows"]} == {"dlber"}
    assert all(row["moved"] > 0 for row in found["rows"])


def test_the_table_is_for_people(evenflow):
    done = evenflow("bench", "triggers", "--workers", 10, "--triggers", 100)
    assert done.code == 0
    assert "decides in" in done.out
