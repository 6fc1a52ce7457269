"""A sweep on Spark: one function, many items, one Spark task for each, results in the order in which they are done."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE: Final = 64  # tasks that are handed to Spark together; how many run is the cluster's matter


def sweep(spark: SparkSession, function: Callable[[T], R], items: Sequence[T], on_done: Callable[[T, R], None]) -> None:
    """Call a function for every item on Spark's workers.

    Each item is a job of one task, not a partition of one large job: so results arrive one by one,
    and the first failure ends the sweep.

    Parameters
    ----------
    spark
        Any session, classic or Connect.
    function
        Must be picklable, and importable on the workers if it is of a module.
    items
        Picklable.
    on_done
        Called in this thread with an item and its result, as they are done.

    Raises
    ------
    Exception
        What the function raised, as itself.
    """
    tag = f"evenflow-sweep-{uuid.uuid4().hex}"

    def one(item: T) -> R:
        spark.addTag(tag)  # tags belong to a thread
        call = OneCall(function, item)
        content = spark.range(1, numPartitions=1).mapInArrow(call, "result binary").toArrow()["result"][0].as_py()
        outcome = pickle.loads(content)  # noqa: S301 - written by our own task
        if isinstance(outcome, Raised):
            raise outcome.error
        result: R = outcome
        return result

    with ThreadPoolExecutor(min(AT_ONCE, len(items) or 1)) as pool:
        futures = {pool.submit(one, item): item for item in items}
        try:
            for future in as_completed(futures):
                on_done(futures[future], future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            spark.interruptTag(tag)
            raise


@dataclass(frozen=True)
class Raised:
    """What a function raised: Spark would make a text of it."""

    error: BaseException


@dataclass(frozen=True)
class OneCall(Generic[T, R]):
    """For ``mapInArrow`` over one row: calls the function."""

    function: Callable[[T], R]
    item: T

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Return the pickled result."""
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"result": pa.array([self._outcome()], pa.binary())})

    def _outcome(self) -> bytes:
        try:
            return pickle.dumps(self.function(self.item))
        except Exception as error:  # noqa: BLE001 - it is raised again in the driver
            try:
                content = pickle.dumps(Raised(error))
                pickle.loads(content)  # noqa: S301 - our own: not every exception survives the way
            except Exception:  # noqa: BLE001 - as above
                return pickle.dumps(Raised(RuntimeError(f"{type(error).__name__}: {error}")))
            return content
