"""CPU seconds of this process and of everything it started: the JVM and its Python workers count as well."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil


def cpu_seconds() -> float:
    """Sum the CPU time of this process and its descendants so far.

    Examples
    --------
    >>> cpu_seconds() > 0
    True
    """
    total = time.process_time()  # finer than what the system tells of other processes
    for process in psutil.Process().children(recursive=True):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def cpu_of(work: Callable[[], object]) -> float:
    """Give the CPU seconds that a piece of work takes."""
    before = cpu_seconds()
    work()
    return cpu_seconds() - before
