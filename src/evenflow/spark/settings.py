"""What a plane is: fixed with its checkpoint, known to driver and executors, checked when a query starts again."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, Final

from evenflow.errors import BadInput
from evenflow.spark.keys import Keys
from evenflow.spark.log import ControlLog
from evenflow.spark.routes import Routes
from evenflow.spark.storage import Storage

FILE: Final = "plane.json"
FOLDER: Final = "evenflow"  # inside the checkpoint
OFFSET: Final = "evenflow"  # the control source's offset: how many entries of the log are read


@dataclass(frozen=True, slots=True)
class Plane:
    """What cannot change while a checkpoint lives.

    Parameters
    ----------
    checkpoint
        The query's checkpoint, as a URL.
    slices, lanes, used
        How many slices and lanes there are, and how many lanes own slices at the beginning.
    by, assign, nulls
        How a row finds its slice, see :class:`evenflow.spark.assign.Assign`.
    schema, output
        The stream's and the output's columns, to refuse a change with a sentence.
    begun
        How many lanes the checkpoint began with, if it has grown since, see :mod:`evenflow.spark.grow`.
    """

    checkpoint: str
    slices: int
    lanes: int
    used: int
    by: tuple[str, ...]
    assign: str
    nulls: str | int
    schema: str = ""
    output: str = ""
    begun: int = 0

    @property
    def place(self) -> Storage:
        """The plane's own directory."""
        return Storage(self.checkpoint).under(FOLDER)

    @property
    def keys(self) -> Keys:
        """The keys of slices on lanes."""
        return keys_of(self.slices, self.lanes, self.begun)

    def empty_routes(self) -> Routes:
        """Return the routes before the first move."""
        return Routes(self.slices, self.lanes, self.used, begun=self.begun)

    def log(self) -> ControlLog:
        """Return a new view of the control log."""
        return ControlLog(self.place, self.empty_routes())

    def settle(self) -> Plane:
        """Write down what this plane is, or refuse to go on with another one; return it as the checkpoint knows it.

        Raises
        ------
        BadInput
            When the checkpoint was begun with other columns, slices, lanes or another assignment.
        """
        mine = {name: value for name, value in asdict(self).items() if name != "checkpoint"}
        mine["by"] = list(self.by)
        if not self.place.has(FILE):
            with suppress(FileExistsError):  # another driver began it in this moment: compare, as with an older one
                self.place.create(FILE, json.dumps(mine, indent=1).encode())
        known: dict[str, Any] = json.loads(self.place.read(FILE))
        begun = int(known.get("begun", 0))
        for name, value in mine.items():
            if name != "begun" and known.get(name) != value:
                raise BadInput(
                    f"{name} = {value!r}",
                    f"{known.get(name)!r}, with which this checkpoint began, or a new checkpoint",
                    self.checkpoint,
                )
        return replace(self, begun=begun)


@lru_cache(maxsize=8)
def keys_of(slices: int, lanes: int, begun: int = 0) -> Keys:
    """Return the keys, which remember what they computed."""
    return Keys(slices, lanes, begun)


@lru_cache(maxsize=8)
def homes(plane: Plane) -> tuple[int, ...]:
    """Return the lane that owns each slice from the beginning."""
    return tuple(plane.empty_routes().lane)


class UnreadableOffsetError(Exception):
    """A task cannot tell which routes its batch is pinned to."""


def control_offset(checkpoint: Storage, batch: int) -> int:
    """Return how many entries of the control log a batch ended with, as Spark itself wrote down before it ran.

    Spark fixes ``offsets/<batch>`` before the batch runs and keeps it when the batch runs again:
    so every attempt of a batch sees the same routes, and an append sink gets the same rows.
    """
    if batch < 0:
        return 0
    name = f"offsets/{batch}"
    try:
        lines = checkpoint.read(name).decode().splitlines()
    except OSError as error:
        raise UnreadableOffsetError(
            f"{checkpoint.url}/{name} cannot be read ({error}); the batch must not run"
        ) from None
    found = [offset for line in lines if (offset := _offset_in(line)) is not None]
    if len(found) != 1:
        raise UnreadableOffsetError(f"{checkpoint.url}/{name} holds {len(found)} offsets of the control log, not 1")
    return found[0]


def batch_stamped(checkpoint: Storage, millis: int) -> int:
    """Return the batch that Spark stamped with this time, which is in its offset file too and stays when it runs again."""
    numbers = sorted(int(name) for name in checkpoint.names("offsets") if name.isdigit())
    for batch in reversed(numbers[-3:]):
        about = checkpoint.read(f"offsets/{batch}").decode().splitlines()[1]
        if json.loads(about).get("batchTimestampMs") == millis:
            return batch
    raise UnreadableOffsetError(f"{checkpoint.url}/offsets has no batch of {millis}; the batch must not run")


def _offset_in(line: str) -> int | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return int(value[OFFSET]) if isinstance(value, dict) and set(value) == {OFFSET} else None
