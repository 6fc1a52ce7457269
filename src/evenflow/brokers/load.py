"""The load of a broker, and estimates of its load with more or fewer subscribers (Cheung 2006, Eq. 3.1-3.3, 4.7-4.16).

Rates are messages per second, delays seconds, bandwidths bits per second, memory bytes.
"""

from __future__ import annotations

from typing import NamedTuple

RATIOS = ("input", "output", "cpu", "memory")


class MemoryUse(NamedTuple):
    """A broker's memory by use (Eq. 4.11), and its total, in bytes."""

    input_queue: float = 0.0
    output_queue: float = 0.0
    engine: float = 0.0
    total: float = 0.0

    @property
    def used(self) -> float:
        """The memory in use (Eq. 4.11)."""
        return self.input_queue + self.output_queue + self.engine

    @property
    def ratio(self) -> float:
        """The memory utilisation ratio (Eq. 4.12); 0 if the total is unknown."""
        return self.used / self.total if self.total > 0 else 0.0


class LoadChange(NamedTuple):
    """A change of load, negative for a loss: subscriptions, incoming messages per second, output bits per second."""

    subscriptions: int
    input_rate: float
    output: float


class Load(NamedTuple):
    """A broker's load as measured, or as estimated.

    Parameters
    ----------
    n_subs
        Subscriptions in the matching engine, including the system's own.
    matching_delay
        Seconds to match one message.
    input_rate
        Publications per second that reach the input queue.
    output_used, output_total
        Bits per second.
    cpu
        The measured CPU utilisation ratio.
    memory
        Queues, engine and total.
    slope
        Seconds of matching delay per subscription, for a broker without subscriptions; Eq. 4.7 does not cover it.
    per_bit
        Engine seconds per bit of output, in addition to the part that grows with the number of subscriptions.
        Eq. 4.7 has no such part (0). A fast engine spends most of its time on writing the lists of matches.

    Examples
    --------
    >>> load = Load(100, 0.06, 20.0, 10_000.0, 100_000.0, 0.9)
    >>> round(load.input_ratio, 6), load.output_ratio
    (1.2, 0.1)
    >>> after = load.after(LoadChange(-1, -9.0, -900.0))
    >>> round(after.input_ratio, 4), after.output_ratio
    (0.6534, 0.091)
    """

    n_subs: int
    matching_delay: float
    input_rate: float
    output_used: float
    output_total: float
    cpu: float = 0.0
    memory: MemoryUse = MemoryUse()
    slope: float = 0.0
    per_bit: float = 0.0

    @property
    def base_delay(self) -> float:
        """The part of the matching delay that grows with the number of subscriptions; all of it in Eq. 4.7."""
        if not (self.per_bit and self.input_rate):
            return self.matching_delay
        return max(0.0, self.matching_delay - self.per_bit * self.output_used / self.input_rate)

    @property
    def each(self) -> float:
        """Seconds of matching delay per subscription."""
        return self.base_delay / self.n_subs if self.n_subs else self.slope

    @property
    def input_ratio(self) -> float:
        """The input utilisation ratio, rate over the highest matching rate (Eq. 3.1, 3.2)."""
        return self.input_rate * self.matching_delay

    @property
    def output_ratio(self) -> float:
        """The output utilisation ratio (Eq. 3.3)."""
        return self.output_used / self.output_total

    def ratios(self) -> tuple[float, float, float, float]:
        """Return the four ratios in which a broker can be overloaded: input, output, CPU, memory."""
        return self.input_ratio, self.output_ratio, self.cpu, self.memory.ratio

    def above(self, threshold: float) -> bool:
        """Return whether any of the four ratios is above a threshold."""
        return (
            self.input_rate * self.matching_delay > threshold
            or self.output_used > threshold * self.output_total
            or self.cpu > threshold
            or self.memory.ratio > threshold
        )

    def after(self, change: LoadChange) -> Load:
        """LoadEstimate the load after a change (Eq. 4.7 to 4.16).

        CPU changes in proportion to the input ratio, because with a backlog CPU is 1 whatever the input ratio is.
        """
        n = self.n_subs + change.subscriptions
        rate = max(0.0, self.input_rate + change.input_rate)
        output = max(0.0, self.output_used + change.output)
        growth = n / self.n_subs if self.n_subs else 1.0
        delay = self.base_delay * growth if self.n_subs else self.slope * n
        if self.per_bit and rate:
            delay += self.per_bit * output / rate
        cpu = self._cpu_after(rate, delay)
        memory = self.memory
        if memory.total:
            memory = MemoryUse(
                memory.input_queue * _over(rate, self.input_rate) * growth,  # Eq. 4.13
                memory.output_queue * _over(output, self.output_used),  # Eq. 4.14
                memory.engine * growth,  # Eq. 4.15
                memory.total,
            )
        return Load(n, delay, rate, output, self.output_total, cpu, memory, self.slope, self.per_bit)

    def input_ratio_after(self, subscriptions: int, input_rate: float, output: float) -> float:
        """LoadEstimate the input ratio alone (Eq. 4.7, 4.8); fast, because the offload algorithms try thousands of changes."""
        n, rate = self.n_subs, self.input_rate + input_rate
        if rate <= 0.0:
            return 0.0
        if self.per_bit:
            return rate * self.each * (n + subscriptions) + self.per_bit * max(0.0, self.output_used + output)
        return rate * (self.matching_delay * (n + subscriptions) / n if n else self.slope * subscriptions)

    def exceeds_after(self, change: LoadChange, threshold: float) -> bool:
        """Return ``after(change).above(threshold)``, computed faster."""
        ratio = self.input_ratio_after(change.subscriptions, change.input_rate, change.output)
        if ratio > threshold or self.output_used + change.output > threshold * self.output_total:
            return True
        if not (self.input_rate and self.matching_delay):
            return self.after(change).above(threshold)
        if self.cpu * ratio > threshold * self.input_rate * self.matching_delay:
            return True
        memory, n = self.memory, self.n_subs
        if not memory.total:
            return False
        growth = (n + change.subscriptions) / n if n else 1.0
        used = memory.input_queue * max(0.0, self.input_rate + change.input_rate) / self.input_rate * growth
        used += memory.output_queue * _over(max(0.0, self.output_used + change.output), self.output_used)
        return used + memory.engine * growth > threshold * memory.total

    def _cpu_after(self, rate: float, delay: float) -> float:
        if self.input_rate and self.matching_delay:
            return self.cpu * (rate * delay) / (self.input_rate * self.matching_delay)
        if self.cpu and self.matching_delay:  # a backlog without arrivals: only the delay can change
            return self.cpu * delay / self.matching_delay + rate * delay
        return rate * delay  # Eq. 4.8: below one the input ratio is the CPU ratio


def _over(new: float, old: float) -> float:
    return new / old if old else 1.0


def delay_difference(one: float, other: float, normalization: float) -> float:
    """Return the difference of two delays as a ratio (Eq. 3.5).

    Examples
    --------
    >>> delay_difference(0.75, 0.25, 0.5)
    1.0
    """
    return (one - other) / normalization


def smoothed(value: float, before: float | None, alpha: float) -> float:
    """Return the smoothed load index (Eq. 3.4); the first value is returned unchanged.

    Examples
    --------
    >>> smoothed(1.0, None, 0.75), smoothed(1.0, 0.0, 0.75)
    (1.0, 0.75)
    """
    return value if before is None else alpha * value + (1.0 - alpha) * before
