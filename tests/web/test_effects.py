"""What a move promised and what came of it, on the page of each system."""

from __future__ import annotations

import pytest

from evenflow.experiments import registry
from evenflow.trace import MemoryTrace, Run
from evenflow.web import board

SMALL = {
    "ami": {"levels": 3, "operators": 60, "seconds": 120.0},
    "dlber": {"pages": 200, "workers": 4},
}


@pytest.mark.parametrize("name", SMALL)
def test_both_nodes_are_told(name):
    trace = MemoryTrace()
    experiment = registry.find(name)
    experiment.run(experiment.settings(**SMALL[name]), 1, trace)
    moves = board.moves_seen(Run.of(trace.records))
    assert moves
    for move in moves:
        assert move.why
        assert move.predicted.startswith("giver ")
        assert ", taker " in move.predicted
    assert any(move.actual.startswith("giver ") for move in moves)
