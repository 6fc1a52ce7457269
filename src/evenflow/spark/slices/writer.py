"""A stream writer like Spark's own, except that it knows the checkpoint before it builds the query."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from evenflow.errors import BadInput
from evenflow.spark.kit.drivers import take_over
from evenflow.spark.kit.query import BalancedQuery
from evenflow.spark.kit.storage import checked_url
from evenflow.spark.slices.workers import check_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from evenflow.spark.slices.balance import Processed

CHECKPOINT: Final = "checkpointLocation"
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
NOT_UP: Final = "Python worker failed to connect back"
ATTEMPTS: Final = 3
MODES: Final = ("append", "update")


class Writer:
    """A writer with the methods of Spark's ``DataStreamWriter``; ``start`` builds the plane on the checkpoint and starts it.

    The output of a slice is written once and never changed, so ``append`` and ``update`` write the same rows.
    ``complete`` is not supported.
    """

    def __init__(self, processed: Processed) -> None:
        self._processed = processed
        self._calls: list[Callable[[DataStreamWriter], DataStreamWriter]] = []
        self._options: dict[str, Any] = {}
        self._mode = "append"
        self._name: str | None = None
        self._by_batch = False

    def _keep(self, call: Callable[[DataStreamWriter], DataStreamWriter]) -> Writer:
        self._calls.append(call)
        return self

    def format(self, source: str) -> Writer:
        """Choose the sink."""
        return self._keep(lambda w: w.format(source))

    def outputMode(self, outputMode: str) -> Writer:  # noqa: N802, N803 - Spark's names
        """Choose ``append`` or ``update``."""
        if outputMode.lower() not in MODES:
            raise BadInput(f"'{outputMode}'", "'append' or 'update'", "outputMode")
        self._mode = outputMode.lower()
        return self

    def option(self, key: str, value: Any) -> Writer:
        """Set an option of the sink, or ``checkpointLocation``."""
        if key.lower() == CHECKPOINT.lower():
            self._options[CHECKPOINT] = value
            return self
        return self._keep(lambda w: w.option(key, value))

    def options(self, **options: Any) -> Writer:
        """Set options."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def partitionBy(self, *cols: Any) -> Writer:  # noqa: N802 - Spark's name
        """Partition the output by columns."""
        return self._keep(lambda w: w.partitionBy(*cols))

    def clusterBy(self, *cols: Any) -> Writer:  # noqa: N802 - Spark's name
        """Cluster the output by columns."""
        return self._keep(lambda w: w.clusterBy(*cols))

    def queryName(self, queryName: str) -> Writer:  # noqa: N802, N803 - Spark's names
        """Name the query."""
        self._name = queryName
        return self

    def trigger(self, **when: Any) -> Writer:
        """Choose when a batch begins; ``continuous`` is not possible with state."""
        if "continuous" in when:
            raise BadInput("trigger(continuous=…)", "processingTime or availableNow", "trigger")
        return self._keep(lambda w: w.trigger(**when))

    def foreach(self, f: Any) -> Writer:
        """Call a function with every row of the output."""
        return self._keep(lambda w: w.foreach(f))

    def foreachBatch(self, func: Callable[[DataFrame, int], None]) -> Writer:  # noqa: N802 - Spark's name
        """Call a function with every batch of the output."""
        self._by_batch = True
        return self._keep(lambda w: w.foreachBatch(func))

    def start(self, path: str | None = None, **given: Any) -> BalancedQuery:
        """Start the query; the arguments are those of Spark's ``start``."""
        return self._begin(lambda w: w.start(path) if path is not None else w.start(), given)

    def toTable(self, tableName: str, **given: Any) -> BalancedQuery:  # noqa: N802, N803 - Spark's names
        """Start the query and write its output into a table."""
        return self._begin(lambda w: w.toTable(tableName), given)

    def _begin(self, go: Callable[[DataStreamWriter], StreamingQuery], given: dict[str, Any]) -> BalancedQuery:
        for name in ("format", "outputMode", "partitionBy", "queryName"):
            if given.get(name) is not None:
                getattr(self, name)(given.pop(name))
        self.options(**given)
        spark = self._processed.balance.stream.sparkSession
        checkpoint = self._checkpoint(spark)
        check_workers(spark)
        plane = self._processed.plane(checkpoint).settle()
        # With foreachBatch on Connect, another thread than the query's runs the batch, and tasks do not get its number.
        stamped = self._by_batch and type(spark).__module__.startswith("pyspark.sql.connect")
        driver = take_over(plane.place)  # before Spark reads the checkpoint: an older driver must not write any more
        plane.confirm()
        writer = self._processed.frame(plane, self._mode, driver=driver, stamped=stamped).writeStream
        for call in self._calls:
            writer = call(writer)
        writer = writer.outputMode(self._mode).option(CHECKPOINT, checkpoint)
        if self._name is not None:
            writer = writer.queryName(self._name)
        with _settings(spark, plane.lanes):
            query = begun(lambda: go(writer))
        return BalancedQuery(query, plane, spark, driver, self._processed.balance.balancing.switchable)

    def _checkpoint(self, spark: SparkSession) -> str:
        given = self._options.get(CHECKPOINT)
        base = spark.conf.get("spark.sql.streaming.checkpointLocation", None)
        if given is None and base and self._name:
            given = f"{base}/{self._name}"
        if given is None:
            raise BadInput(
                "no checkpoint", "option('checkpointLocation', path): slices and their moves live there", "writeStream"
            )
        return checked_url(str(given))


def begun(start: Callable[[], StreamingQuery], attempts: int = ATTEMPTS) -> StreamingQuery:
    """Start a query and wait until its sources are running; retry if a source does not start in time.

    Spark waits 10 seconds for the process of a Python source to start, which is not enough on a busy machine.
    The query then ends before it has done anything, so it is safe to start it again.
    """
    for attempt in range(1, attempts + 1):
        query = start()
        while query.isActive and str(query.status["message"]).startswith("Initializing"):
            time.sleep(0.02)
        error = None if query.isActive else query.exception()
        if error is None or NOT_UP not in str(error) or query.lastProgress is not None or attempt == attempts:
            break
    return query


@contextmanager
def _settings(spark: SparkSession, lanes: int) -> Iterator[None]:
    """Set the Spark settings that the query reads at its start, and restore the old ones for other queries."""
    wanted = {
        "spark.sql.shuffle.partitions": str(lanes),
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
