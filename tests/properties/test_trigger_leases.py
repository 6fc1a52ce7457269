"""A lent trigger has its effect once, in every delivery order; and without numbered channels it would not."""

from __future__ import annotations

import pytest
from trigger_search import FAULTS, search


def test_no_order_breaks_the_law():
    states, wrong = search({}, limit=400)
    assert wrong is None
    assert states > 20


@pytest.mark.parametrize("kind", FAULTS)
def test_one_fault(kind):
    states, wrong = search({kind: 1}, limit=150)
    assert wrong is None
    assert states > 100


@pytest.mark.long
@pytest.mark.parametrize("kind", FAULTS)
def test_one_fault_of_a_kind_with_an_early_timer_in_full(kind):
    assert search({kind: 1, "early": 2}, limit=20_000)[1] is None


@pytest.mark.parametrize("kind", ["lose"])
def test_the_numbers_are_needed(kind):
    assert search({kind: 1}, limit=400, numbered=False)[1] is not None
