"""What an index costs beside matching: to build, to hold, to add to, and to find the covering set of its subscriptions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from evenflow.bench.workloads import Workload
from evenflow.subscriptions.covering import covering_set
from evenflow.subscriptions.matching import Index

T = TypeVar("T")
ADDED_SHARE = 0.04  # below the share at which an index is compiled anew, so that the delta is what is measured


def index_costs(workload: Workload, more: Workload, *, covering: bool) -> dict[str, Any]:
    """Build an index, add to it, and match once after it, each in CPU-seconds; all compiled functions are loaded before.

    Parameters
    ----------
    more
        Subscriptions to add.
    covering
        Whether to find the covering set too; without a template in common this is slow.
    """
    size, added = workload.predicates.count, more.predicates.count
    few = more.predicates.only(np.arange(min(added, 5000)))
    warm = Index.from_columns(pa.array(np.arange(few.count)), few, engine="numba")
    warm.add_many(pa.array(np.arange(few.count) + few.count), few)
    warm.match(workload.events.slice(0, 10)).counts()
    covering_set([str(n) for n in range(few.count)], few)
    events = workload.events.slice(0, 1)
    build, index = _timed(
        lambda: Index.from_columns(pa.array(np.arange(size, dtype=np.int32)), workload.predicates, engine="numba")
    )
    before, _ = _timed(lambda: index.match(events).counts())
    ids = pa.array(np.arange(size, size + added, dtype=np.int32))
    add, _ = _timed(lambda: index.add_many(ids, more.predicates))
    after, _ = _timed(lambda: index.match(events).counts())
    row = {
        "workload": workload.name,
        "subscriptions": size,
        "build_s": round(build, 3),
        "index_mb": round(index.nbytes / 1e6, 3),
        "added": added,
        "add_us": round((add + max(0.0, after - before)) / added * 1e6, 3),
        "covering_s": None,
        "covering_size": None,
    }
    if covering:
        names = [str(n) for n in range(size)]
        seconds, found = _timed(lambda: covering_set(names, workload.predicates))
        row |= {"covering_s": round(seconds, 3), "covering_size": len(found)}
    return row


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    begun = time.process_time()
    found = work()
    return time.process_time() - begun, found
