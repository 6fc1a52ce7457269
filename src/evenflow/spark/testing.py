"""In-memory planes for your own tests: batches, moves, late installs and repeated batches, without a cluster."""

from __future__ import annotations

from evenflow.spark.slices.stateful.testing import ProcessorTester
from evenflow.spark.slices.testing import KeyMemory, NotRepeatableError, PlaneTester, check_moves

__all__ = ["KeyMemory", "NotRepeatableError", "PlaneTester", "ProcessorTester", "check_moves"]
