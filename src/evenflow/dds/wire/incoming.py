"""The one way in: every sample is decoded and checked here, and what does not fit is dropped, counted and told.

Nothing behind it, neither an actor nor a journal, ever sees a sample that was not checked.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from evenflow.dds.wire.fields import MalformedError

T = TypeVar("T")
S = TypeVar("S")
TELL_S = 10.0  # between two lines about what was dropped
_HEADER = 4  # octets of every serialised sample
_log = logging.getLogger("evenflow.dds")


def sample_of(kind: Any, data: bytes) -> Any:
    """Return the object of a serialised sample.

    Raises
    ------
    MalformedError
        When it is none of ``kind``.
    """
    if len(data) < _HEADER:
        raise MalformedError(f"a sample of {len(data)} octets")
    try:
        return kind.deserialize(data)
    except Exception as error:
        # Cyclone's deserialiser raises what its parts raise: struct.error, KeyError, UnicodeDecodeError, bare exceptions
        raise MalformedError(f"a sample that is no {kind.__name__} ({error})") from error


class Incoming:
    """Admits samples and counts those that it drops, by topic.

    The first dropped sample is told at once, those of the next seconds together in one line.

    Parameters
    ----------
    tell
        Takes the line.
    """

    def __init__(
        self, tell: Callable[[str], object] = _log.warning, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.dropped: Counter[str] = Counter()
        self._tell = tell
        self._clock = clock
        self._told: Counter[str] = Counter()
        self._tell_at = 0.0
        self._why = ""

    @property
    def total(self) -> int:
        """How many samples were dropped."""
        return self.dropped.total()

    def admit(self, topic: str, samples: Iterable[S], read: Callable[[S], T]) -> Iterator[T]:
        """Return what ``read`` makes of the samples, without those that it refuses.

        Each is read when it is asked for: whether a message is in place may depend on the one before it.
        """
        for sample in samples:
            try:
                found = read(sample)
            except MalformedError as error:
                self.drop(topic, str(error))
            else:
                yield found

    def drop(self, topic: str, why: str, count: int = 1) -> None:
        """Count samples that do not fit."""
        self.dropped[topic] += count
        self._why = f"{topic}: {why[:300]}"
        self.tell()

    def tell(self, *, last: bool = False) -> None:
        """Say how many samples were dropped since that was last said, if it is time; ``last`` says it now."""
        new = self.total - self._told.total()
        if new and (last or self._clock() >= self._tell_at):
            self._tell_at = self._clock() + TELL_S
            self._told = self.dropped.copy()
            counts = ", ".join(f"{topic} {count}" for topic, count in sorted(self.dropped.items()))
            what = "a sample that does" if new == 1 else f"{new} samples that do"
            self._tell(f"dropped {what} not fit (in all: {counts}); the last one, {self._why}")
