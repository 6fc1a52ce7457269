"""PRESS: estimate the load of subscriptions from which of the next N publications each one matches.

Cheung 2006, section 4.1.1. A *spectrum* holds one bit vector per subscription;
publication i of the sample is bit i, so as text the right-most digit is the first publication, as in Table 4.1.
Rates, overlaps and the load that a subscription would add to a broker are counts of bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.actor import Wake, Woken
from evenflow.errors import BadInput
from evenflow.subscriptions.columns import Int64s, Words
from evenflow.subscriptions.language import Publication, Subscription
from evenflow.subscriptions.matching import Index


@dataclass(frozen=True, slots=True)
class Spectrum:
    """Which of the sampled publications each subscription matches.

    Parameters
    ----------
    ids
        One for each bit vector.
    samples
        The number of publications in the sample, the N of Eq. 4.1.
    words
        The bit vectors, rows of 64-bit words; publication i is bit i % 64 of word i // 64.

    Examples
    --------
    >>> from evenflow.subscriptions.language import parse_subscription
    >>> subscriptions = [("s", parse_subscription("[volume,>,15]"))]
    >>> spectrum = Spectrum.of(subscriptions, [{"volume": 10}, {"volume": 20}, {"volume": 30}])
    >>> spectrum.text("s"), spectrum.rates(input_rate=3.0).tolist()
    ('110', [2.0])
    """

    ids: tuple[str, ...]
    samples: int
    words: Words

    @classmethod
    def of(cls, subscriptions: Iterable[tuple[str, Subscription]], publications: Sequence[Publication]) -> Spectrum:
        """Return the spectrum of subscriptions over sampled publications."""
        bits = Index(subscriptions).match(publications).bits()
        words = np.zeros((len(bits.row), bits.words.shape[1]), dtype=np.uint64)
        some = bits.row >= 0
        words[some] = bits.words[bits.row[some]]
        return cls(tuple(str(name) for name in bits.ids.to_pylist()), bits.size, words)

    def text(self, name: str) -> str:
        """Return a bit vector as digits, the first publication at the right end."""
        value = int.from_bytes(self.words[self.ids.index(name)].astype("<u8").tobytes(), "little")
        return f"{value:0{self.samples}b}" if self.samples else ""

    def only(self, names: Iterable[str]) -> Spectrum:
        """Return the spectrum of some subscriptions, in the given order."""
        place = {name: row for row, name in enumerate(self.ids)}
        chosen = tuple(names)
        return Spectrum(chosen, self.samples, self.words[[place[name] for name in chosen]].reshape(len(chosen), -1))

    def union(self) -> Words:
        """Return the publications that at least one of the subscriptions matches (OR, Eq. 4.3)."""
        return np.asarray(np.bitwise_or.reduce(self.words, axis=0), dtype=np.uint64)

    def counts(self) -> Int64s:
        """Return the number of bits set for each subscription."""
        return count_bits(self.words)

    def rates(self, input_rate: float) -> npt.NDArray[np.float64]:
        """Return the publication rate of each subscription (Eq. 4.1), in the unit of ``input_rate``."""
        return self._rates(self.words, input_rate)

    def added_rates(self, known: Words, input_rate: float) -> npt.NDArray[np.float64]:
        """Return the rate that each subscription would add to a broker (Eq. 4.5).

        Parameters
        ----------
        known
            The publications that the broker already receives: the union of its covering set's bit vectors.
        """
        return self._rates(and_not(self.words, known), input_rate)

    def _rates(self, words: Words, input_rate: float) -> npt.NDArray[np.float64]:
        # Without a sample the estimate is 0.
        return input_rate * count_bits(words) / max(self.samples, 1)


def and_not(words: Words, known: Words) -> Words:
    """Return the publications of ``words`` that are not in ``known`` (Eq. 4.4)."""
    return words & ~known


def count_bits(words: Words) -> Int64s:
    """Return the number of bits set in each bit vector."""
    return np.asarray(np.bitwise_count(words).sum(axis=-1, dtype=np.int64))


class Requested(NamedTuple):
    """Start a sample; ignored while one is being taken."""


class Arrived(NamedTuple):
    """Publications reached the broker, in this order."""

    publications: Sequence[Any]


class Sampled(NamedTuple):
    """A complete sample: the publications in their order, and how long it took."""

    publications: tuple[Any, ...]
    seconds: float

    @property
    def input_rate(self) -> float:
        """The rate at which publications arrived while sampling; 0 if no time passed."""
        return len(self.publications) / self.seconds if self.seconds > 0 else 0.0


class SamplerState(Enum):
    """The state of a sampler."""

    IDLE = "idle"
    SAMPLING = "sampling"


class Sampler:
    """Takes the next N publications after a request, or those that arrive before a timeout.

    Events are `Requested`, `Arrived` and the `Woken` that it asked for; commands are `Wake` and `Sampled`.
    A publication that arrives at or after the deadline is not in the sample, even if the wake-up is late.

    Parameters
    ----------
    samples
        How many publications to take, the PRESS samples of the thesis.
    timeout
        After how many seconds to end with fewer, the PRESS timeout of the thesis.

    Examples
    --------
    >>> sampler = Sampler(samples=2, timeout=30.0)
    >>> sampler.handle(Requested(), now=5.0)
    [Wake(at=35.0, name=('press', 1))]
    >>> sampler.handle(Arrived([{"a": 1}, {"a": 2}, {"a": 3}]), now=6.0)
    [Sampled(publications=({'a': 1}, {'a': 2}), seconds=1.0)]
    """

    def __init__(self, samples: int, timeout: float) -> None:
        if samples < 1:
            raise BadInput(str(samples), "a whole number of at least 1", "samples")
        if not timeout > 0:
            raise BadInput(str(timeout), "a number of seconds above 0", "timeout")
        self._samples, self._timeout = samples, timeout
        self._state = SamplerState.IDLE
        self._round = 0  # distinguishes the wake-up of this sample from earlier ones
        self._began = 0.0
        self._wake = Wake(0.0)
        self._taken: list[Any] = []

    @property
    def state(self) -> SamplerState:
        """Whether a sample is being taken."""
        return self._state

    def handle(self, event: Requested | Arrived | Woken, now: float) -> list[Wake | Sampled]:
        """Handle one event; all combinations that are not listed change nothing."""
        match self._state, event:
            case SamplerState.IDLE, Requested():
                return self._begin(now)
            case SamplerState.SAMPLING, Arrived(publications):
                return self._take(publications, now)
            case SamplerState.SAMPLING, Woken(name) if name == self._wake.name and now >= self._wake.at:
                return self._end(self._timeout)
        return []

    def _begin(self, now: float) -> list[Wake | Sampled]:
        self._state, self._began, self._taken = SamplerState.SAMPLING, now, []
        self._round += 1
        self._wake = Wake(now + self._timeout, ("press", self._round))
        return [self._wake]

    def _take(self, publications: Sequence[Any], now: float) -> list[Wake | Sampled]:
        if now >= self._wake.at:
            return self._end(self._timeout)
        self._taken += publications[: self._samples - len(self._taken)]
        return self._end(now - self._began) if len(self._taken) == self._samples else []

    def _end(self, seconds: float) -> list[Wake | Sampled]:
        self._state = SamplerState.IDLE
        return [Sampled(tuple(self._taken), seconds)]
