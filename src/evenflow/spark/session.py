"""A small Spark session on this machine, classic or Connect, with all settings that must be made before it starts."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

SMALL: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
"""Settings for a session on two cores; the heap size and the web UI must be set before the JVM starts."""

QUICK_START: Mapping[str, str] = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Settings for tests: the JVM compiles less and needs about 40 % less CPU to start, but long queries run slower."""


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
        Number of cores, and of partitions of every shuffle.
    connect
        Whether to use Spark Connect, with a server that this call starts.
        A process may have classic or Connect sessions, but not both.
    name
        Spark's name for the application.
    settings
        Further Spark settings, which override the small defaults.
    master
        Another classic master than ``local[lanes]``, such as ``local-cluster[2,1,1024]``.

    Returns
    -------
    SparkSession
        The session; ``stop()`` it when done.
    """
    # Otherwise workers use the first python3 on the PATH, which does not have our packages.
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
        # The client always connects to the default port. If that is taken, the server must not use the next port:
        # the client would then talk to another user's server.
        "spark.connect.grpc.port.maxRetries": "0",
    }
    # The Connect builder sends its settings to a running server. Settings of the server itself
    # must be on its command line, which is read from this variable.
    words = [word for key, value in options.items() for word in ("--conf", f"{key}={value}")]
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*words, "pyspark-shell"])
    return SparkSession.builder.remote(f"local[{lanes}]").appName(name).getOrCreate()


@contextlib.contextmanager
def stderr_into(log: Path) -> Iterator[None]:
    """Redirect standard error, also of processes that start in this block, to a file."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
