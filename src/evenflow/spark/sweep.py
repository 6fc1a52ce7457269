"""Sweeps on Spark: run a function for many items, one Spark task each; results arrive in the order of completion."""

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

AT_ONCE: Final = 64  # tasks that are submitted to Spark at the same time; the cluster decides how many run


def sweep(spark: SparkSession, function: Callable[[T], R], items: Sequence[T], on_done: Callable[[T, R], None]) -> None:
    """Call a function for every item on Spark's workers.

    Each item is a job with one task, not a partition of one large job. So results arrive one by one,
    and the first failure ends the sweep.

    Parameters
    ----------
    spark
        Any session, classic or Connect.
    function
        Must be picklable, and importable on the workers if it belongs to a module.
    items
        The arguments; they must be picklable.
    on_done
        Called in this thread with each item and its result, when the item is done.

    Raises
    ------
    Exception
        The exception that the function raised, with its own type.
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
    """An exception that a function raised; it is passed as a result, because Spark would turn it into text."""

    error: BaseException


@dataclass(frozen=True)
class OneCall(Generic[T, R]):
    """A function for ``mapInArrow`` over one row, which calls the user's function."""

    function: Callable[[T], R]
    item: T

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the pickled result."""
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"result": pa.array([self._outcome()], pa.binary())})

    def _outcome(self) -> bytes:
        try:
            return pickle.dumps(self.function(self.item))
        except Exception as error:  # noqa: BLE001 - it is raised again in the driver
            try:
                content = pickle.dumps(Raised(error))
                pickle.loads(content)  # noqa: S301 - our own data; not every exception can be unpickled
            except Exception:  # noqa: BLE001 - as above
                return pickle.dumps(Raised(RuntimeError(f"{type(error).__name__}: {error}")))
            return content
