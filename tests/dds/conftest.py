"""Lets the tests of this folder share the domain in memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def domain(monkeypatch):
    """A domain in memory, with a clock of its own; see :mod:`domain_in_memory`."""
    from domain_in_memory import Domain

    made = Domain(monkeypatch)
    yield made
    made.close()


@pytest.fixture
def heard(domain):
    """What a subscriber of the alerts got."""
    from alerting import Alert

    from evenflow.dds import plain

    got = []
    reading = plain.Subscription(
        "alerts", Alert, got.append, None, None, 1, plain.Topic("alerts", plain.Count()), 0, 0.1
    )

    class Polling:
        turn = staticmethod(lambda: reading.poll(0.0))

    domain.processes.append(Polling)
    return got
