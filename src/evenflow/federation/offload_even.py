"""Our offload: lower the differences of all three load indices at once, so that no algorithm undoes another's work.

The published algorithms balance one index each and guard against the others, which can leave a small broker
with broad subscriptions, or with none, for good. Here every pick must lower the sum of the squared differences
of input ratio, output ratio and (normalised) matching delay between the two brokers.
"""

from __future__ import annotations

from evenflow.federation.load import Load
from evenflow.federation.offload import Candidate, Decision, Desk

WORTH = 1e-4  # of the sum of squares that a pick must bring; less is not worth a subscriber's trouble


def offload_even(desk: Desk) -> Decision:
    """Decide a joint offload: the best pick, again and again, until none is worth it."""
    now = _unevenness(desk, desk.giver, desk.taker)
    while desk.candidates:
        best: tuple[float, int, str] | None = None
        for candidate in desk.candidates.values():
            found = _best(desk, candidate)
            if found is not None and (best is None or found < best):
                best = found
        if best is None or best[0] > now - WORTH:
            break
        now = best[0]
        desk.take(best[2], best[1], "even")
    return desk.decision()


def _differences(desk: Desk, giver: Load, taker: Load) -> tuple[float, float, float]:
    return (
        giver.input_rate * giver.matching_delay - taker.input_rate * taker.matching_delay,
        giver.output_used / giver.output_total - taker.output_used / taker.output_total,
        (giver.matching_delay - taker.matching_delay) / desk.limits.normalization,
    )


def _unevenness(desk: Desk, giver: Load, taker: Load) -> float:
    return sum(d * d for d in _differences(desk, giver, taker))


def _best(desk: Desk, candidate: Candidate) -> tuple[float, int, str] | None:
    """Find the number of subscribers that evens most: the differences are linear in it, but for the last subscriber."""
    giver, taker, sample = desk.giver, desk.taker, desk.sample
    rate = sample.rate(candidate.bits)
    added = sample.rate(candidate.bits & ~desk.known)
    reducible = desk.reducible(candidate)
    bits = rate * sample.message_size
    giver_slope = giver.matching_delay / giver.n_subs if giver.n_subs else giver.slope
    taker_slope = taker.matching_delay / taker.n_subs if taker.n_subs else taker.slope
    out_slope = bits * (1.0 / giver.output_total + 1.0 / taker.output_total)
    norm = desk.limits.normalization

    def value(number: int) -> float:
        give = giver.input_rate - (reducible if number == candidate.subscribers else 0.0)
        give_delay = giver.matching_delay - giver_slope * number
        take_delay = taker.matching_delay + taker_slope * number
        one = give * give_delay - (taker.input_rate + added) * take_delay
        two = giver.output_used / giver.output_total - taker.output_used / taker.output_total - out_slope * number
        three = (give_delay - take_delay) / norm
        return one * one + two * two + three * three

    start = (
        giver.input_rate * giver.matching_delay - (taker.input_rate + added) * taker.matching_delay,
        giver.output_used / giver.output_total - taker.output_used / taker.output_total,
        (giver.matching_delay - taker.matching_delay) / norm,
    )
    slope = (
        -(giver.input_rate * giver_slope + (taker.input_rate + added) * taker_slope),
        -out_slope,
        -(giver_slope + taker_slope) / norm,
    )
    square = sum(s * s for s in slope)
    ideal = -sum(a * b for a, b in zip(start, slope, strict=True)) / square if square else 0.0
    near = int(min(max(ideal, 1.0), candidate.subscribers))
    tries = {near, min(near + 1, candidate.subscribers), candidate.subscribers}
    score, number = min((value(n), n) for n in tries)
    if desk.taker.exceeds_after(desk.gain(candidate, number), desk.limits.lower):
        most = desk.most(candidate)
        if not most:
            return None
        score, number = min((value(n), n) for n in {most, min(near, most)})
    return score, number, candidate.name
