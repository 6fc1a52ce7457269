"""A processor whose rows say what it does: any sequence of state calls and timers is a stream of such rows.

Random scripts are how the plane is compared with Spark's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

SCHEMA: Final = "k string, at timestamp, op string, a long, b long"
OUTPUT: Final = "k string, said string"
STATE_CALLS: Final = ("value", "no value", "put", "append", "extend", "no items", "set", "remove", "no map", "look")
TIMER_CALLS: Final = ("timer", "timer", "timer", "no timer")


class Script(StatefulProcessor):
    """Carries out its rows.

    Parameters
    ----------
    timed
        What timers are about: ``""`` for no timers, ``"processing"`` or ``"event"``.
    ttl
        The time to live of all three variables, in milliseconds.
    """

    def __init__(self, timed: str = "", ttl: int | None = None) -> None:
        self.timed = timed
        self.ttl = ttl

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare one variable of each kind."""
        self.handle = handle
        self.value = handle.getValueState("value", "a long, b long", self.ttl)
        self.items = handle.getListState("items", "a long", self.ttl)
        self.map = handle.getMapState("map", "a long", "b long", self.ttl)

    def _all(self) -> str:
        timers = sorted(self.handle.listTimers()) if self.timed else []
        return f"{self.value.get()} {list(self.items.get())} {sorted(self.map.iterator())} {timers}"

    def _do(self, op: str, a: int, b: int, now: int) -> str:
        if op == "look":
            found = self.map.getValue((a,))
            return f"{self.map.containsKey((a,))} {found and tuple(found)} {self.value.exists()} {self.items.exists()}"
        calls: dict[str, Callable[[], None]] = {
            "value": lambda: self.value.update((a, b)),
            "no value": self.value.clear,
            "put": lambda: self.items.put([(a,), (b,)]),
            "append": lambda: self.items.appendValue((a,)),
            "extend": lambda: self.items.appendList([(a,), (b,)]),
            "no items": self.items.clear,
            "set": lambda: self.map.updateValue((a,), (b,)),
            "remove": lambda: self.map.removeKey((a,)),
            "no map": self.map.clear,
            "timer": lambda: self.handle.registerTimer(now + 1 + abs(a)),
            "no timer": lambda: self.handle.deleteTimer(now + 1 + abs(a)),
        }
        calls[op]()
        return ""

    def _now(self, values: TimerValues) -> int:
        watermark = values.getCurrentWatermarkInMs()
        return watermark if self.timed == "event" else values.getCurrentProcessingTimeInMs()

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        """Carry out rows, and say what there is then."""
        for row in rows:
            yield Row(k=key[0], said=f"{row.op} {self._do(row.op, row.a, row.b, self._now(timerValues))}")
        yield Row(k=key[0], said=self._all())

    def handleExpiredTimer(self, key: Any, timerValues: TimerValues, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Set the next timer, change the state, or only say so, by the timer's number."""
        at = expiredTimerInfo.getExpiryTimeInMs()
        if at % 3 == 0:
            self.handle.registerTimer(self._now(timerValues) + 2)
        elif at % 3 == 1:
            self.items.appendValue((at,))
        yield Row(k=key[0], said=f"expired {at} {self._all()}")

    def close(self) -> None:
        """Do nothing."""
