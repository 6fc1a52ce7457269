"""A check, made once per session, that Spark's workers can run evenflow."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any, Final
from weakref import WeakSet

from pyspark.sql import SparkSession

from evenflow.errors import BadInput

_OTHER_PYTHON: Final = re.compile(r"No module named '[\w.]+'|PYTHON_VERSION_MISMATCH|Cannot run program \"[^\"]*\"")
_WORKING: WeakSet[Any] = WeakSet()  # sessions that passed the check


def check_workers(spark: SparkSession) -> None:
    """Check, before a query is built, that a session's workers run a Python with evenflow.

    Raises
    ------
    BadInput
        When a worker cannot import evenflow and its dependencies.
    """
    if spark in _WORKING:
        return
    try:
        spark.range(1).mapInArrow(_with_evenflow, "id long").collect()
    except Exception as error:
        found = _OTHER_PYTHON.search(str(error))
        if found is None:  # another fault of the session: Spark's own message explains it
            raise
        raise BadInput(
            f"workers that cannot run evenflow ({found[0]})",
            f"PYSPARK_PYTHON={sys.executable} in the environment before the session starts, "
            "or on a cluster a Python with evenflow[spark] on every machine",
            "Spark",
        ) from None
    _WORKING.add(spark)


def _with_evenflow(batches: Iterator[Any]) -> Iterator[Any]:
    import evenflow.spark.slices.processor  # noqa: F401, PLC0415 - in the worker: imports all that a slice needs

    yield from batches
