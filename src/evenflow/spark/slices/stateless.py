"""Processing without state: uses the same routes and samples as the stateful one, but has no state to hand over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext

from evenflow.spark.kit.plane import Plane
from evenflow.spark.kit.samples import Cost, Meter, stopwatch
from evenflow.spark.kit.storage import Storage
from evenflow.spark.slices.cells import of_cells
from evenflow.spark.slices.dead_letters import write_letters
from evenflow.spark.slices.pack import batch_id
from evenflow.spark.slices.turn import Job


@dataclass(frozen=True)
class MapLane:
    """A function for ``mapInArrow`` after ``repartition``: calls the application with each slice's rows."""

    plane: Plane
    job: Job
    letters: str = ""

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Process one lane's cells, in the order of the source."""
        meter = Meter()
        number = batch_id()
        cells: dict[int, list[tuple[int, int, bytes]]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                if row["what"] is None:
                    number = row["session"]
                    cells.setdefault(self.plane.keys.slice_of(row["k"]), []).append(
                        (row["part"], row["number"], row["cell"])
                    )
        for slice_id in sorted(cells):
            with stopwatch(Cost()) as cost:
                rows = of_cells([cell for _, _, cell in sorted(cells[slice_id], key=lambda cell: cell[:2])])
                called = self.job.call(rows, b"", slice_id)
                cost.rows = rows.num_rows
            meter.add(slice_id, cost)
            if called.poison and number is not None:
                write_letters(Storage(self.letters), number, slice_id, called.poison)
            if called.output is not None:
                yield from called.output.to_batches()
        context = TaskContext.get()
        if number is not None and cells and context is not None:
            meter.write(self.plane.place, number, context.partitionId())
