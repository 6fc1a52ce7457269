"""What a plane is: fixed with its checkpoint, known to driver and executors, checked when a query starts again."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, Final

from evenflow.errors import BadInput
from evenflow.spark.kit.control_log import FOLDER as LOG
from evenflow.spark.kit.control_log import ControlLog
from evenflow.spark.kit.keys import Keys
from evenflow.spark.kit.routes import Routes
from evenflow.spark.kit.storage import Storage

FILE: Final = "plane.json"
FOLDER: Final = "evenflow"  # inside the checkpoint
SHAPE: Final = ("slices", "lanes", "used")
ENTERED: Final = (LOG, "requests")  # folders that speak of slices and lanes
_ZONE: Final = re.compile(r"tz=[^\],]+")
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
        ``used`` may be 0 until the plane is settled: all lanes, or as many as the checkpoint began with.
    by, assign, nulls
        How a row finds its slice, see :class:`evenflow.spark.slices.assign.Assign`.
    schema, output
        The stream's and the output's columns, to refuse a change with a sentence.
    kind
        What the slices keep: the state of ``process``, of ``process_each``, or none for ``map``.
    begun
        How many lanes the checkpoint began with, if it has grown since, see :mod:`evenflow.spark.slices.grow`.
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
    kind: str = ""
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
            As :meth:`agreed`.
        """
        agreed = self.agreed()
        fields = agreed.plain()
        try:
            known = known_fields(self.place)
        except (FileNotFoundError, BadInput):
            known = {}
        if known and any(known[name] != fields[name] for name in SHAPE):
            # A start that came to nothing: what was entered speaks of slices and lanes that there will not be.
            for folder in ENTERED:
                for name in self.place.names(folder):
                    self.place.delete(f"{folder}/{name}")
        if known != fields:
            self.place.write(FILE, json.dumps(fields, indent=1).encode())
        return agreed

    def agreed(self) -> Plane:
        """Return this plane as the checkpoint knows it, and write nothing.

        Until Spark has planned a batch nothing is fixed: a start that failed leaves nothing to agree with.

        Raises
        ------
        BadInput
            When the checkpoint was begun with other columns, slices, lanes, another assignment or kind of state,
            or when what it holds cannot be read.
        """
        if not self._planned():
            return replace(self, used=self.used or self.lanes)
        try:
            known = known_fields(self.place)
        except FileNotFoundError:
            raise BadInput(
                f"batches without {FOLDER}/{FILE}", "a whole checkpoint, or a new one", self.checkpoint
            ) from None
        agreed = replace(self, used=self.used or int(known["used"]), begun=int(known.get("begun", 0)))
        for name, value in agreed.plain().items():
            if name in known and not _may_follow(name, known[name], value):
                hint = ": query.add takes further lanes into use" if name == "used" else ""
                raise BadInput(
                    f"{name} = {value!r}",
                    f"{known[name]!r}, with which this checkpoint began{hint}, or a new checkpoint",
                    self.checkpoint,
                )
        return agreed

    def confirm(self) -> None:
        """Look once more, as the newest driver: one that started in the same moment may have settled another plane.

        Raises
        ------
        BadInput
            When the checkpoint now describes another plane.
        """
        try:
            known = known_fields(self.place)
        except FileNotFoundError:
            return
        mine = self.plain()
        for name in SHAPE:
            if known[name] != mine[name]:
                given = f"{name} = {mine[name]!r}"
                raise BadInput(given, f"{known[name]!r}, which another driver has just settled", self.checkpoint)

    def plain(self) -> dict[str, Any]:
        """Return what is written down."""
        fields = {name: value for name, value in asdict(self).items() if name != "checkpoint"}
        return {**fields, "by": list(self.by)}

    def _planned(self) -> bool:
        """Say whether Spark has planned a batch on this checkpoint."""
        return any(name.isdigit() for name in Storage(self.checkpoint).names("offsets"))


def known_fields(place: Storage) -> dict[str, Any]:
    """Return what a plane's directory says the plane is; :class:`FileNotFoundError` if it says nothing."""
    content = place.read(FILE)
    fields: Any = None
    fault = "describes no plane"
    try:
        fields = json.loads(content)
    except ValueError as error:
        fault = f"cannot be read ({error})"
    if isinstance(fields, dict) and {*SHAPE, "by", "assign", "nulls"} <= set(fields):
        return fields
    raise BadInput(f"a file that {fault}", "the file that the first start wrote, restored", f"{place.url}/{FILE}")


def _may_follow(name: str, before: Any, now: Any) -> bool:
    """Say whether a checkpoint that has one value can go on with another.

    As long as a null key was refused, no slice holds anything of null keys: they may go anywhere from now on.
    A zone in the output is how timestamps are shown, not what they are; it came from the session once.
    """
    if name == "nulls" and before == "refuse":
        return True
    if name == "output":
        return bool(_ZONE.sub("", str(before)) == _ZONE.sub("", str(now)))
    return bool(before == now)


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
        lines = checkpoint.read(name).split(b"\n")
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
        about = checkpoint.read(f"offsets/{batch}").split(b"\n")[1]
        if json.loads(about).get("batchTimestampMs") == millis:
            return batch
    raise UnreadableOffsetError(f"{checkpoint.url}/offsets has no batch of {millis}; the batch must not run")


def _offset_in(line: bytes) -> int | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return int(value[OFFSET]) if isinstance(value, dict) and set(value) == {OFFSET} else None
