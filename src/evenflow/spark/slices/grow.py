"""Adds lanes to a checkpoint while no query runs: Spark repartitions the state, and this module updates the routes.

Spark puts a key into partition ``pmod(hash(key), lanes)``, so with more lanes a slice may be on another lane.
No key changes: if the new number of lanes is a multiple of the old one, each key is still the first of its slice's ints
that Spark hashes to that lane.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from evenflow.errors import BadInput
from evenflow.spark.kit.control_log import FOLDER, SNAPSHOT
from evenflow.spark.kit.drivers import take_over
from evenflow.spark.kit.plane import FILE, Plane, control_offset, known_fields
from evenflow.spark.kit.plane import FOLDER as PLACE
from evenflow.spark.kit.routes import Routes
from evenflow.spark.kit.storage import Storage, checked_url

PARTITIONS: Final = "spark.sql.shuffle.partitions"
MOST: Final = (
    2  # factor over the first number of lanes: a slice has 40 ints per first lane, and needs one on every lane
)


def grow(checkpoint: str, lanes: int) -> Plane:
    """Update the routes and the plane of a checkpoint whose state Spark has repartitioned to more lanes.

    Parameters
    ----------
    checkpoint
        The checkpoint of a query that is not running.
    lanes
        The new number of lanes: twice the number that the checkpoint began with.

    Returns
    -------
    Plane
        The new plane of the checkpoint; a second call changes nothing.

    Raises
    ------
    BadInput
        When the checkpoint cannot grow to this number, or Spark has not repartitioned its state yet.
    """
    url = checked_url(checkpoint)
    plane = _known(url)
    if plane.lanes == lanes:
        return plane
    begun = plane.begun or plane.lanes
    if lanes != MOST * begun:
        raise BadInput(f"{lanes} lanes", f"{MOST * begun}, twice the {begun} that the checkpoint began with", "--lanes")
    take_over(plane.place)  # a suspended driver must not continue with the old number of lanes
    version = _settled(url, plane, lanes)
    grown = replace(plane, lanes=lanes, begun=begun)
    keys = grown.keys
    if any(keys.lane_of(keys.key(s, lane)) != lane for s in range(plane.slices) for lane in range(lanes)):
        raise BadInput(f"{plane.slices} slices on {lanes} lanes", "a new checkpoint: a slice has no key on a lane", url)
    routes = plane.log().at(version)
    if version and routes.lanes != lanes:  # otherwise an earlier call was interrupted after this step
        _replace_log(plane.place, _translated(routes, plane, grown))
    plane.place.write(FILE, json.dumps(grown.plain(), indent=1).encode())
    return grown


def _known(url: str) -> Plane:
    try:
        fields = known_fields(Storage(url).under(PLACE))
    except FileNotFoundError:
        raise BadInput(f"'{url}', which holds no plane", "the checkpoint of a balanced query", "CHECKPOINT") from None
    return Plane(**{**fields, "checkpoint": url, "by": tuple(fields["by"])})


def _settled(url: str, plane: Plane, lanes: int) -> int:
    """Return the control log's length; check that the last batch is committed, read the whole log and used ``lanes`` lanes."""
    place = Storage(url)
    last = max((int(name) for name in place.names("offsets") if name.isdigit()), default=-1)
    if last < 0 or not place.has(f"commits/{last}"):
        raise BadInput("a batch that is not done", "a query that ended well, as with availableNow", url)
    version = control_offset(place, last)
    if plane.log().length() != version:
        raise BadInput("orders that no batch has read", "a query that ran once more, with availableNow", url)
    about = json.loads(place.read(f"offsets/{last}").split(b"\n")[1])
    found = int(about["conf"][PARTITIONS])
    if found != lanes:
        raise BadInput(
            f"a state on {found} lanes", f"one that Spark has spread over {lanes}, see docs/spark-clusters.md", url
        )
    return version


def _translated(routes: Routes, before: Plane, after: Plane) -> Routes:
    """Return routes in which every lane is replaced by the one to which Spark now hashes the same key."""

    def now(slice_id: int, lane: int) -> int:
        return before.keys.lane_among(after.lanes, slice_id, lane)

    made = Routes.of(routes.plain())
    made.lanes, made.begun = after.lanes, after.begun
    made.lane = [now(s, lane) for s, lane in enumerate(routes.lane)]
    made.pinned = {s: now(s, lane) for s, lane in routes.pinned.items()}
    made.resting = {lane for lane in range(after.lanes) if lane % before.lanes in routes.resting}
    for session in made.sessions.values():
        session.giver, session.taker = now(session.slice, session.giver), now(session.slice, session.taker)
    return made


def _replace_log(place: Storage, routes: Routes) -> None:
    """Replace all entries, which use the old lane numbers, with a snapshot."""
    old = place.names(FOLDER)
    name = f"{SNAPSHOT}{routes.version:012}"
    place.write(f"{FOLDER}/{name}", json.dumps(routes.plain(), separators=(",", ":")).encode())
    for other in old:
        if other != name:
            place.delete(f"{FOLDER}/{other}")
