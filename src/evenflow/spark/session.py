"""A small session on this machine, classic or Connect, with everything that must be set before it starts."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final
from weakref import WeakSet

from pyspark.sql import SparkSession

from evenflow.errors import BadInput

_OTHER_PYTHON: Final = re.compile(r"No module named '[\w.]+'|PYTHON_VERSION_MISMATCH|Cannot run program \"[^\"]*\"")
_WORKING: WeakSet[Any] = WeakSet()  # sessions whose workers are known to be able

SMALL: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
"""What a session of two cores needs, no more; the heap and the page must be settled before the JVM starts."""

QUICK_START: Mapping[str, str] = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""For tests: the JVM compiles little and starts on about 40 % less CPU, but long queries run slower."""


def local_session(
    lanes: int = 2,
    *,
    connect: bool = False,
    name: str = "evenflow",
    settings: Mapping[str, str] | None = None,
    master: str = "",
) -> SparkSession:
    """Start a session on this machine with ``lanes`` cores and as many shuffle partitions.

    Parameters
    ----------
    lanes
        Cores, and partitions of every shuffle.
    connect
        Whether to speak Spark Connect to a server that this call starts.
        A process may hold classic or Connect sessions, not both.
    name
        What Spark calls the application.
    settings
        Further Spark settings, which win over the small defaults.
    master
        Another classic master than ``local[lanes]``, such as ``local-cluster[2,1,1024]``.

    Returns
    -------
    SparkSession
        The session; ``stop()`` it when done.
    """
    # Workers take the first python3 of the PATH otherwise, which has none of our packages.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    options = {**SMALL, "spark.sql.shuffle.partitions": str(lanes), **(settings or {})}
    if not connect:
        builder = SparkSession.builder.master(master or f"local[{lanes}]").appName(name)
        for key, value in options.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
    options |= {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        # The client always calls the default port. Where it is taken the server must not start on the next one:
        # the client would then speak to a stranger's server.
        "spark.connect.grpc.port.maxRetries": "0",
    }
    # The Connect builder sends its settings to a server that already runs; what the server itself needs
    # must be in its command line, and that is read from this variable.
    words = [word for key, value in options.items() for word in ("--conf", f"{key}={value}")]
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*words, "pyspark-shell"])
    return SparkSession.builder.remote(f"local[{lanes}]").appName(name).getOrCreate()


def check_workers(spark: SparkSession) -> None:
    """Refuse a session whose workers run another Python than ours, once and before a query is built on it.

    Raises
    ------
    BadInput
        When a worker cannot import evenflow and what it needs.
    """
    if spark in _WORKING:
        return
    try:
        spark.range(1).mapInArrow(_with_evenflow, "id long").collect()
    except Exception as error:
        found = _OTHER_PYTHON.search(str(error))
        if found is None:  # a fault of the session, which is for Spark to tell
            raise
        raise BadInput(
            f"workers that cannot run evenflow ({found[0]})",
            f"PYSPARK_PYTHON={sys.executable} in the environment before the session starts, "
            "or on a cluster a Python with evenflow[spark] on every machine",
            "Spark",
        ) from None
    _WORKING.add(spark)


def _with_evenflow(batches: Iterator[Any]) -> Iterator[Any]:
    import evenflow.spark.processor  # noqa: F401, PLC0415 - in the worker: it needs all that a slice needs

    yield from batches
