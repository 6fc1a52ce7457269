"""Our offload: every pick lowers the sum of squares, as the full estimates say, and the arrays agree with them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.brokers.load import Load
from evenflow.brokers.offload import Candidate, Limits, OffloadState, PressSample
from evenflow.brokers.offload_even import JointOffload, best_numbers, offload_even, unevenness

SAMPLES = 16


def offload_state(subscribers, bits, per_bit=0.0, taker=0):
    giver = Load(sum(subscribers) + 5, 0.05, 12.0, 900_000.0, 2_000_000.0, 0.6, slope=1e-4, per_bit=per_bit)
    other = Load(taker, 0.01 if taker else 0.0, 6.0 if taker else 0.0, 90_000.0 if taker else 0.0, 1_000_000.0, 0.1,
                 slope=1e-4, per_bit=per_bit)  # fmt: skip
    candidates = {str(n): Candidate(str(n), s, b) for n, (s, b) in enumerate(zip(subscribers, bits, strict=True))}
    above = {name: frozenset() for name in candidates}
    return OffloadState(
        giver, other, PressSample(SAMPLES, 12.0, 400.0), Limits(), False, candidates, above, known=0b101 if taker else 0
    )


cases = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 2**SAMPLES - 1)), min_size=1, max_size=6)


@given(cases, st.sampled_from([0.0, 1e-7, 4e-7]), st.sampled_from([0, 20]))
def test_the_arrays_say_what_the_whole_estimates_say(pairs, per_bit, taker):
    one = offload_state([s for s, _ in pairs], [b for _, b in pairs], per_bit, taker)
    rounds = JointOffload(one)
    numbers, scores = best_numbers(one, rounds.columns())
    for candidate, number, score in zip(rounds.candidates, numbers, scores, strict=True):
        tried = {n: unevenness(one, candidate, n) for n in range(1, candidate.subscribers + 1)}
        assert score == pytest.approx(tried[int(number)], rel=1e-6, abs=1e-9)
        assert tried[int(number)] <= min(tried.values()) + 1e-9


@given(cases, st.sampled_from([0.0, 2e-7]))
def test_every_decision_evens_and_overloads_nobody(pairs, per_bit):
    one = offload_state([s for s, _ in pairs], [b for _, b in pairs], per_bit, 20)
    before = (one.giver, one.taker)
    decision = offload_even(one)

    def squares(giver, taker):
        gaps = (
            giver.input_ratio - taker.input_ratio,
            giver.output_ratio - taker.output_ratio,
            (giver.matching_delay - taker.matching_delay) / Limits().normalization,
        )
        return float(np.square(gaps).sum())

    assert squares(decision.giver, decision.taker) <= squares(*before) + 1e-9
    assert not decision.picks or not decision.taker.above(Limits().lower)
    assert len({pick.name for pick in decision.picks}) == len(decision.picks)


def test_who_names_much_goes_for_less_of_them():
    """With costs per output bit, few subscribers with much output even out what many without would."""
    broad, narrow = 2**SAMPLES - 1, 0
    plain = offload_even(offload_state([30, 30], [broad, narrow], taker=20))
    aware = offload_even(offload_state([30, 30], [broad, narrow], 4e-7, taker=20))
    assert {p.name: p.subscribers for p in plain.picks} != {p.name: p.subscribers for p in aware.picks}
