"""The session from ``spark-submit`` or a new one, and the import path that workers need."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from evenflow.spark.session import local_session

GATEWAY: Final = "PYSPARK_GATEWAY_PORT"  # set by spark-submit: the JVM is already running, with its own settings


def make_importable(*folders: Path) -> None:
    """Let driver and workers import modules from folders; a JVM that starts later passes the path to its workers."""
    for place in (str(folder.resolve()) for folder in folders):
        if place not in sys.path:
            sys.path.append(place)  # last, so that it does not hide other modules
        known = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
        if place not in known:
            os.environ["PYTHONPATH"] = os.pathsep.join([*known, place])


def session(name: str, master: str = "local[*]", settings: Mapping[str, str] | None = None) -> SparkSession:
    """Return the session of ``spark-submit``, whose settings take precedence, or start one on ``master``."""
    builder = SparkSession.builder.appName(name)
    if GATEWAY in os.environ:
        return builder.getOrCreate()
    if master.startswith("local["):
        return local_session(name=name, master=master, settings=settings)
    # A cluster: use none of the defaults for small local sessions, only the settings that were given.
    builder = builder.master(master)
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
