"""One session for all Spark tests: starting one costs more than most tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from evenflow.spark.session import QUICK_START, local_session

    connect = os.environ.get("EVENFLOW_TEST_CONNECT") == "1"  # set by the test that runs these tests once more
    session = local_session(lanes=2, name="evenflow tests", settings=QUICK_START, connect=connect)
    yield session
    session.stop()
