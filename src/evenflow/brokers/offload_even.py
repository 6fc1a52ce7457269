"""Our offload algorithm: balances all three load indices at once, so that no session undoes another's work.

The published algorithms balance one index each and can get stuck, or work against each other. Here every pick lowers
the *unevenness*: the sum of the squared differences of input ratio, output ratio and normalised matching delay between
the two brokers. Each round evaluates every candidate, as arrays, with its best number of subscribers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.brokers.load import Load
from evenflow.brokers.offload import Candidate, Decision, OffloadState

MIN_GAIN = 1e-4  # smallest decrease of the unevenness that is worth moving a subscriber
Floats = npt.NDArray[np.float64]
Vector = tuple[float, float, float]


class CandidateColumns(NamedTuple):
    """The candidates as arrays: number of subscribers, and the three rates of `Traffic`."""

    subscribers: Floats
    rate: Floats
    added: Floats
    reducible: Floats


class JointOffload:
    """The candidates as arrays, computed once, and the picks of each round."""

    def __init__(self, state: OffloadState) -> None:
        self.state = state
        self.candidates = sorted(state.candidates.values(), key=lambda one: one.name)
        self.left = np.ones(len(self.candidates), dtype=bool)
        self.matched = np.array([self._row(one.bits) for one in self.candidates])
        self.subscribers = np.array([float(one.subscribers) for one in self.candidates])

    def _row(self, bits: int) -> Floats:
        size = self.state.sample.samples
        raw = np.frombuffer(bits.to_bytes(size // 8 + 1, "little"), dtype=np.uint8)
        return np.unpackbits(raw, bitorder="little")[:size].astype(np.float64)

    def columns(self) -> CandidateColumns:
        """LoadReturn the rates of all candidates (see `OffloadState.traffic`)."""
        state, sample = self.state, self.state.sample
        masks = np.stack(
            [self._row(-1 & ((1 << sample.samples) - 1) & bits) for bits in (-1, ~state.known, state.alone)]
        )
        per = sample.input_rate / sample.samples if sample.samples else 0.0
        rates = self.matched @ masks.T * per
        return CandidateColumns(self.subscribers, rates[:, 0], rates[:, 1], rates[:, 2])

    def best(self, below: float) -> tuple[float, int, str] | None:
        """Return the pick that leaves the least unevenness (with unevenness and number), if it is less than ``below``."""
        numbers, scores = best_numbers(self.state, self.columns())
        scores[~self.left] = np.inf
        best: tuple[float, int, str] | None = None
        for place in np.argsort(scores, kind="stable").tolist():
            score = float(scores[place])
            if score >= below or (best is not None and score > best[0]):
                break  # the remaining candidates cannot be better
            fitting = self._fitting(self.candidates[place], int(numbers[place]), score)
            if fitting is not None and fitting[0] < below and (best is None or fitting < best):
                best = fitting
        return best

    def _fitting(self, one: Candidate, number: int, score: float) -> tuple[float, int, str] | None:
        """Return the pick, reduced to what the acceptor can take, or None if it can take nothing."""
        most = self.state.most(one)
        if number <= most:
            return score, number, one.name
        return (unevenness(self.state, one, most), most, one.name) if most else None

    def take(self, name: str, number: int) -> None:
        """Carry a pick out."""
        self.left[next(i for i, one in enumerate(self.candidates) if one.name == name)] = False
        self.state.take(name, number, "even")


def offload_even(state: OffloadState) -> Decision:
    """Decide a joint offload: repeat the best pick until none is worth it."""
    if not state.candidates:
        return state.decision()
    rounds = JointOffload(state)
    now = sum(d * d for d in _differences(state, state.giver, state.taker))
    while (best := rounds.best(now - MIN_GAIN)) is not None:
        now = best[0]
        rounds.take(best[2], best[1])
    return state.decision()


def _differences(state: OffloadState, giver: Load, taker: Load) -> Vector:
    return (
        giver.input_ratio - taker.input_ratio,
        giver.output_ratio - taker.output_ratio,
        (giver.matching_delay - taker.matching_delay) / state.limits.normalization,
    )


def unevenness(state: OffloadState, one: Candidate, number: int) -> float:
    """Return the unevenness that a pick would leave."""
    giver, taker = state.giver.after(state.loss(one, number)), state.taker.after(state.gain(one, number))
    return sum(d * d for d in _differences(state, giver, taker))


def best_numbers(state: OffloadState, columns: CandidateColumns) -> tuple[Floats, Floats]:
    """Return for every candidate the number of subscribers that leaves the least unevenness, and this unevenness.

    The differences are linear in the number, except for the last subscriber, whose move lowers the giver's incoming
    rate. So the unevenness is a parabola: the best number is next to its minimum, or all subscribers.
    """
    giver, taker = state.giver, state.taker
    rate_in = taker.input_rate + columns.added
    output = columns.rate * state.sample.message_size  # bits per second of one subscriber
    naming = giver.per_bit * output, taker.per_bit * output  # engine time for this output
    start, scale = _differences(state, giver, taker), state.limits.normalization
    given, taken = giver.per_bit * giver.output_used, taker.per_bit * taker.output_used
    begin = giver.input_ratio - (rate_in * taker.base_delay + taken)
    per_message = _each_message(naming[0], giver.input_rate) + _each_message(naming[1], rate_in)
    start_delay = start[2] - (_each_message(taken, rate_in) - _each_message(taken, taker.input_rate)) / scale
    lean = (
        -(giver.input_rate * giver.each + rate_in * taker.each + naming[0] + naming[1]),
        -output * (1.0 / giver.output_total + 1.0 / taker.output_total),
        -(giver.each + taker.each + per_message) / scale,
    )

    def left(number: Floats) -> Floats:
        gone = np.where(number == columns.subscribers, columns.reducible, 0.0)
        stays = np.maximum(0.0, giver.input_rate - gone)
        named = given - naming[0] * number
        first = stays * (giver.base_delay - giver.each * number) + named
        first -= rate_in * (taker.base_delay + taker.each * number) + taken + naming[1] * number
        last = (_each_message(named, stays) - _each_message(named, giver.input_rate)) / scale
        third = start_delay + lean[2] * number + last
        unevenness_left: Floats = first**2 + (start[1] + lean[1] * number) ** 2 + third**2
        return unevenness_left

    square = lean[0] ** 2 + lean[1] ** 2 + lean[2] ** 2
    ideal = -(begin * lean[0] + start[1] * lean[1] + start_delay * lean[2]) / np.where(square > 0.0, square, 1.0)
    near = np.floor(np.clip(ideal, 1.0, columns.subscribers))
    above, below = np.minimum(near + 1.0, columns.subscribers), np.maximum(near - 1.0, 1.0)
    tries = np.stack([near, above, below, columns.subscribers])
    scores = np.stack([left(number) for number in tries])
    chosen = scores.argmin(axis=0)
    every = np.arange(len(near))
    return tries[chosen, every], scores[chosen, every]


def _each_message(seconds: Floats | float, rate: Floats | float) -> Floats:
    """Return engine seconds per message; 0 where no messages arrive."""
    per_message: Floats = np.where(np.asarray(rate) > 0.0, seconds / np.where(np.asarray(rate) > 0.0, rate, 1.0), 0.0)
    return per_message
