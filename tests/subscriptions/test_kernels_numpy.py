"""Kernels on small arrays: what is done in steps must not depend on where a step ends."""

from __future__ import annotations

import numpy as np
import pytest

from evenflow.subscriptions import kernels_numpy


@pytest.mark.parametrize("seed", range(200))
def test_slices_are_expanded_wherever_a_step_ends(monkeypatch, seed):
    chance = np.random.default_rng(seed)
    monkeypatch.setattr(kernels_numpy, "_PAIRS", int(chance.integers(1, 9)))
    slices, events = (int(n) for n in chance.integers(1, 6, 2))
    members = chance.permutation(40).astype(np.int32)
    start = chance.integers(0, 40, (slices, events)).astype(np.int32)
    stop = np.minimum(40, start + chance.integers(0, 12, (slices, events))).astype(np.int32)
    wanted = [
        np.concatenate([members[start[s, event] : stop[s, event]] for s in range(slices)]) for event in range(events)
    ]
    ends = np.cumsum([0, *map(len, wanted)])
    out, filled = np.zeros(ends[-1], dtype=np.int32), np.zeros(events, dtype=np.int64)
    kernels_numpy.expand_slices(start, stop, members, ends[:-1].astype(np.int64), out, filled)
    assert out.tolist() == np.concatenate(wanted).tolist()
    assert filled.tolist() == [len(part) for part in wanted]
