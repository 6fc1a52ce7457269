"""One classic session for all Spark tests: starting one costs more than most tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from evenflow.spark.session import QUICK_START, local_session

    session = local_session(lanes=2, name="evenflow tests", settings=QUICK_START)
    yield session
    session.stop()
