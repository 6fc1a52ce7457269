from __future__ import annotations

from evenflow.brokers.session_trace import LoadEstimate, SessionTrace

OFFLOAD = {
    "kind": "offload",
    "at": 3.0,
    "session": "B1.0.1",
    "giver": "B1",
    "taker": "B2",
    "giver_after": {"input": 0.4, "output": 0.3},
    "taker_after": {"input": 0.2, "output": 0.5},
}
ENDED = {
    "kind": "broker_session", "at": 9.0, "began": 2.0, "session": "B1.0.1", "giver": "B1", "taker": "B2",
    "algorithm": "input", "how": "done", "moved": 7,
}  # fmt: skip


def told(*records, estimate=None):
    found = []
    session_trace = SessionTrace(found.append, max)
    for record in records:
        session_trace.observe(record, estimate)
    return found


def test_a_session_says_what_it_expects():
    agreed, done = told(OFFLOAD, ENDED)
    assert (agreed["at"], agreed["step"], done["at"], done["step"]) == (2.0, "agreed", 9.0, "done")
    assert done["why"] == "input offload of 7 subscribers"
    assert done["expects"] == {"B1": 0.4, "B2": 0.5}


def test_what_moved_nothing_is_no_session():
    assert told(OFFLOAD, {**ENDED, "moved": 0}) == told(OFFLOAD, {**ENDED, "how": "refused"}) == []


def test_a_settled_broker_shows_the_effect():
    status = {"kind": "broker_status", "at": 40.0, "broker": "B1", "to": "OK"}
    estimate = LoadEstimate(9.0, "B1.0.1", "B1", "offloader", 0.4, 0.3, 0.01, (0.45, 0.35, 0.02))
    assert told(status, estimate=estimate) == [
        {"kind": "effect", "at": 40.0, "session": "B1.0.1", "node": "B1", "load": 0.45}
    ]
