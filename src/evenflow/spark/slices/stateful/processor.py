"""The slice processor of jobs with a clock: Spark's times go in, and Spark is asked to call when a slice's timer expires."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorHandleState
from pyspark.sql.types import StructType

from evenflow.spark.kit.plane import Plane
from evenflow.spark.slices.cells import of_cells
from evenflow.spark.slices.processor import SliceProcessor
from evenflow.spark.slices.stateful.work import Processing, Times, Work
from evenflow.spark.slices.turn import Job

OURS: Final = ("slice", "held", "buckets")
"""The plane's own variables in Spark's state."""


class StatefulSlices(SliceProcessor):
    """For ``transformWithState``: a user's stateful work, slice by slice.

    Parameters
    ----------
    plane, job
        As for the plane's own; ``job.process`` is the work.
    """

    def __init__(self, plane: Plane, job: Job) -> None:
        super().__init__(plane, job)
        assert isinstance(job.process, Work)
        self._work = job.process
        self._driver = False

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the plane's state, and let the user's processor declare its own."""
        super().init(handle)
        client = handle._statefulProcessorApiClient  # noqa: SLF001 - Spark tells only there where it runs
        self._spark = handle
        self._driver = client.handle_state == StatefulProcessorHandleState.PRE_INIT
        if not self._driver:
            self._work.begin(lambda text: _parsed(client, text))
        elif isinstance(self._work, Processing):
            # On the driver Spark looks at every declaration: wrong ones, and changed ones, are refused before the first row.
            self._work.processor.init(Declared(handle))

    def _turn(
        self, key: Any, rows: Iterator[Any], values: TimerValues, *, last: bool, initial: Any = None
    ) -> Iterator[Row]:
        self._work.at(Times(*_times(values)), key[0], last=last, initial=initial)
        output = super().handleInputRows(key, rows, values)
        for call, at in self._work.calls:
            getattr(self._spark, call)(at)
        return output

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 - Spark's names
        """Process a slice's rows and the timers that are over."""
        return self._turn(key, rows, timerValues, last=True)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Wake a slice without rows for its timers."""
        return self._turn(key, iter(()), timerValues, last=True)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        """Give a slice the initial states of its keys; rows of the same batch come after, and then timers."""
        self._turn(key, iter(()), timerValues, last=False, initial=of_cells([bytes(initialState.cell)]))

    def close(self) -> None:
        """Let the user's processor clean up, and write down what the task took."""
        if not self._driver:
            self._work.close()
        elif isinstance(self._work, Processing):
            self._work.processor.close()
        super().close()


def _times(values: TimerValues) -> tuple[int, int]:
    return values.getCurrentProcessingTimeInMs(), values.getCurrentWatermarkInMs()


_SCHEMAS: dict[str, StructType] = {}  # a worker lives through many batches: it asks Spark once what a text means


def _parsed(client: Any, text: str) -> StructType:
    if text not in _SCHEMAS:
        _SCHEMAS[text] = client._parse_string_schema(text)  # noqa: SLF001
    return _SCHEMAS[text]


class Declared(StatefulProcessorHandle):
    """Spark's handle on the driver, where names that the plane uses itself belong to the plane."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        super().__init__(handle._statefulProcessorApiClient)  # noqa: SLF001

    def getValueState(self, stateName: str, *given: Any, **named: Any) -> Any:  # noqa: N802, N803
        """Declare a single value."""
        return super().getValueState(_name(stateName), *given, **named)

    def getListState(self, stateName: str, *given: Any, **named: Any) -> Any:  # noqa: N802, N803
        """Declare a list."""
        return super().getListState(_name(stateName), *given, **named)

    def getMapState(self, stateName: str, *given: Any, **named: Any) -> Any:  # noqa: N802, N803
        """Declare a map."""
        return super().getMapState(_name(stateName), *given, **named)

    def deleteIfExists(self, stateName: str) -> None:  # noqa: N802, N803
        """Delete a variable."""
        super().deleteIfExists(_name(stateName))


def _name(name: str) -> str:
    return f"user_{name}" if name in OURS else name
