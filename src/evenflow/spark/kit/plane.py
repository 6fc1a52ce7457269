"""The description of a plane: fixed with its checkpoint, shared by driver and executors, checked at every restart."""

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
ENTERED: Final = (LOG, "requests")  # folders whose files refer to slices and lanes
_ZONE: Final = re.compile(r"tz=[^\],]+")
OFFSET: Final = "evenflow"  # the control source's offset: the number of log entries read


@dataclass(frozen=True, slots=True)
class Plane:
    """The settings that cannot change during the life of a checkpoint.

    Parameters
    ----------
    checkpoint
        The query's checkpoint, as a URL.
    slices, lanes, used
        How many slices and lanes there are, and how many lanes own slices at the beginning.
        ``used`` may be 0 until the plane is settled; it then means all lanes, or the number the checkpoint began with.
    by, assign, nulls
        How a row finds its slice, see :class:`evenflow.spark.slices.assign.Assign`.
    schema, output
        The columns of the stream and of the output, to reject a change with a clear message.
    kind
        The kind of state the slices keep: that of ``process``, that of ``process_each``, or none for ``map``.
    begun
        The number of lanes the checkpoint began with, if it has grown since; see :mod:`evenflow.spark.slices.grow`.
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
        """Write this plane to the checkpoint, or reject it if it differs from the stored one; return the agreed plane.

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
            # An earlier start failed: its entries refer to slices and lanes that will not exist.
            for folder in ENTERED:
                for name in self.place.names(folder):
                    self.place.delete(f"{folder}/{name}")
        if known != fields:
            self.place.write(FILE, json.dumps(fields, indent=1).encode())
        return agreed

    def agreed(self) -> Plane:
        """Return this plane, completed from the checkpoint, without writing anything.

        Nothing is fixed until Spark has planned a batch, so a failed start does not restrict the next one.

        Raises
        ------
        BadInput
            When the checkpoint began with other columns, slices or lanes, or another assignment or kind of state,
            or when its content cannot be read.
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
        """Check the checkpoint again as the newest driver: another driver may have settled another plane meanwhile.

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
        """Return the fields that are stored in the checkpoint."""
        fields = {name: value for name, value in asdict(self).items() if name != "checkpoint"}
        return {**fields, "by": list(self.by)}

    def _planned(self) -> bool:
        """Return whether Spark has planned a batch on this checkpoint."""
        return any(name.isdigit() for name in Storage(self.checkpoint).names("offsets"))


def known_fields(place: Storage) -> dict[str, Any]:
    """Return the stored description of a plane; raise :class:`FileNotFoundError` if there is none."""
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
    """Return whether a checkpoint with one value of a setting can continue with another.

    If null keys were refused so far, no slice holds state of null keys, so they may go to any slice from now on.
    A time zone in the output only affects how timestamps are shown. Earlier versions took it from the session.
    """
    if name == "nulls" and before == "refuse":
        return True
    if name == "output":
        return bool(_ZONE.sub("", str(before)) == _ZONE.sub("", str(now)))
    return bool(before == now)


@lru_cache(maxsize=8)
def keys_of(slices: int, lanes: int, begun: int = 0) -> Keys:
    """Return the shared ``Keys`` object, which caches the keys it has computed."""
    return Keys(slices, lanes, begun)


@lru_cache(maxsize=8)
def homes(plane: Plane) -> tuple[int, ...]:
    """Return the lane that owns each slice at the beginning."""
    return tuple(plane.empty_routes().lane)


class UnreadableOffsetError(Exception):
    """A task cannot find out which routes its batch is pinned to."""


def control_offset(checkpoint: Storage, batch: int) -> int:
    """Return the control log's offset at the end of a batch, from the file that Spark wrote before the batch ran.

    Spark writes ``offsets/<batch>`` before the batch runs and keeps it when the batch runs again.
    So every attempt of a batch sees the same routes, and an append sink gets the same rows.
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
    """Return the batch with this timestamp; Spark stores it in the batch's offset file and keeps it across reruns."""
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
