from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subscription_strategies import close_publication, close_subscription

from evenflow.actor import Wake, Woken
from evenflow.errors import BadInput
from evenflow.subscriptions.language import matches, parse_publication, parse_subscription
from evenflow.subscriptions.press import (
    Arrived,
    Requested,
    Sampled,
    Sampler,
    SamplerState,
    Spectrum,
    and_not,
    count_bits,
)

ARRIVALS = [
    "[class,'STOCK'],[volume,0]",
    "[class,'STOCK'],[volume,10]",
    "[class,'STOCK'],[volume,20]",
    "[class,'SPORTS'],[type,'racing']",
    "[class,'STOCK'],[volume,100]",
    "[class,'STOCK'],[volume,500]",
]
OFFLOADED = {
    "[class,eq,'STOCK']": "110111",
    "[class,eq,'STOCK'],[volume,>,15]": "110100",
    "[class,eq,'STOCK'],[volume,>,150]": "100000",
    "[class,eq,'SPORTS']": "001000",
}
ACCEPTING = {
    "[class,eq,'STOCK'],[volume,>,50]": "110000",
    "[class,eq,'STOCK'],[volume,<,5]": "000001",
    "[class,eq,'MOVIES']": "000000",
}


@pytest.fixture
def spectrum():
    texts = [*OFFLOADED, *ACCEPTING]
    return Spectrum.of([(text, parse_subscription(text)) for text in texts], [*map(parse_publication, ARRIVALS)])


def written(words, samples=6):
    return Spectrum(("x",), samples, words.reshape(1, -1)).text("x")


def test_table_4_1(spectrum):
    assert {name: spectrum.text(name) for name in spectrum.ids} == OFFLOADED | ACCEPTING
    assert spectrum.samples == 6


def test_equations_4_1_to_4_6(spectrum):
    offloaded, accepting = spectrum.only(OFFLOADED), spectrum.only(ACCEPTING)
    assert offloaded.rates(3.0)[0] == 2.5  # 4.2
    known = accepting.union()
    assert written(known) == "110001"  # 4.3
    added = and_not(offloaded.words, known)
    assert written(added[0]) == "000110"  # 4.4
    assert offloaded.added_rates(known, 3.0)[0] == 1.0  # 4.5
    after = offloaded.only(["[class,eq,'STOCK']"]).union() | known
    assert written(after) == "110111"  # 4.6, printed with a seventh digit
    assert offloaded.added_rates(after, 3.0).tolist() == [0.0, 0.0, 0.0, 0.5]


@settings(max_examples=100, deadline=None)
@given(st.lists(close_subscription, max_size=8), st.lists(close_publication, max_size=150))
def test_the_bits_are_what_matches(subscriptions, publications):
    names = [f"s{number}" for number in range(len(subscriptions))]
    spectrum = Spectrum.of(zip(names, subscriptions, strict=True), publications)
    expected = {
        name: "".join("01"[matches(s, p)] for p in reversed(publications))
        for name, s in zip(names, subscriptions, strict=True)
    }
    assert {name: spectrum.text(name) for name in names} == expected
    bits = {name: int(text or "0", 2) for name, text in expected.items()}
    assert spectrum.counts().tolist() == [value.bit_count() for value in bits.values()]
    either = 0
    for value in bits.values():
        either |= value
    assert count_bits(spectrum.union()) == either.bit_count()
    first = bits[names[0]] if names else 0
    if names:
        left = count_bits(and_not(spectrum.words, spectrum.words[0])).tolist()
        assert left == [(value & ~first).bit_count() for value in bits.values()]


def test_no_sample_estimates_nothing():
    spectrum = Spectrum.of([("s", parse_subscription("[a,=,1]"))], [])
    assert (spectrum.samples, spectrum.text("s"), spectrum.rates(9.0).tolist()) == (0, "", [0.0])


def test_the_sample_ends_with_the_last_publication_it_wants():
    sampler = Sampler(samples=3, timeout=30)
    assert sampler.handle(Arrived([0]), 9) == []  # before the request
    assert sampler.handle(Requested(), 10) == [Wake(40, ("press", 1))]
    assert sampler.handle(Requested(), 11) == []  # does not begin again
    assert sampler.handle(Arrived([1, 2]), 12) == []
    assert sampler.state is SamplerState.SAMPLING
    (done,) = sampler.handle(Arrived([3, 4]), 16)
    assert done == Sampled((1, 2, 3), 6)
    assert done.input_rate == 0.5
    assert sampler.state is SamplerState.IDLE
    assert sampler.handle(Arrived([5]), 17) == []
    assert sampler.handle(Woken(("press", 1)), 40) == []


def test_the_sample_ends_at_the_timeout_with_fewer():
    sampler = Sampler(samples=3, timeout=30)
    sampler.handle(Requested(), 10)
    sampler.handle(Arrived([1]), 39.9)
    assert sampler.handle(Woken(("press", 1)), 39.95) == []  # a clock that is a little early
    assert sampler.handle(Woken("other"), 50) == []
    assert sampler.handle(Woken(("press", 1)), 40) == [Sampled((1,), 30)]


def test_what_arrives_at_the_deadline_is_too_late():
    sampler = Sampler(samples=3, timeout=30)
    sampler.handle(Requested(), 10)
    assert sampler.handle(Arrived([1]), 40) == [Sampled((), 30)]


def test_a_late_wake_up_lengthens_nothing():
    sampler = Sampler(samples=3, timeout=30)
    sampler.handle(Requested(), 10)
    assert sampler.handle(Arrived([1]), 41) == [Sampled((), 30)]
    assert sampler.handle(Requested(), 41) == [Wake(71, ("press", 2))]
    assert sampler.handle(Woken(("press", 1)), 71) == []  # the first one's
    assert sampler.handle(Woken(("press", 2)), 71) == [Sampled((), 30)]


def test_a_sample_in_no_time_has_no_rate():
    sampler = Sampler(samples=1, timeout=1)
    sampler.handle(Requested(), 5)
    (done,) = sampler.handle(Arrived([1]), 5)
    assert done.input_rate == 0.0


@pytest.mark.parametrize(("samples", "timeout"), [(0, 1), (1, 0), (1, math.nan), (1, -1)])
def test_settings_that_make_no_sense(samples, timeout):
    with pytest.raises(BadInput):
        Sampler(samples, timeout)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=40), st.integers(1, 6), st.integers(1, 8))
def test_samples_are_the_next_publications_whatever_happens(steps, samples, timeout):
    """Every sample is a run of consecutive publications from the request on, and none arrived after its deadline."""
    sampler = Sampler(samples, timeout)
    now, number, began, first = 0, 0, 0, 0
    due: list[Wake] = []
    for kind, wait in steps:
        now += wait
        event = [Requested(), Arrived([number]), Arrived([number, number + 1]), None][kind]
        events = [Woken(due.pop(0).name)] if event is None and due and due[0].at <= now else [event] if event else []
        for one in events:
            idle = sampler.state is SamplerState.IDLE
            commands = sampler.handle(one, now)
            if isinstance(one, Requested) and idle:
                began, first = now, number
            number += len(one.publications) if isinstance(one, Arrived) else 0
            for command in commands:
                if isinstance(command, Wake):
                    due.append(command)
                else:
                    assert command.publications == tuple(range(first, first + len(command.publications)))
                    assert len(command.publications) <= samples
                    assert command.seconds <= timeout
                    assert len(command.publications) == samples or now - began >= timeout
