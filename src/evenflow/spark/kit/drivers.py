"""Driver numbers: only the newest driver may write to a checkpoint; an older one notices this and stops.

Each driver takes the next number when it starts. Before it writes, it checks that its number is still the highest.
"""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Final

from evenflow.spark.kit.storage import Storage

FOLDER: Final = "drivers"
KEPT: Final = 20  # number of files of earlier drivers, kept for troubleshooting


class SupersededError(Exception):
    """A newer driver was started on this driver's checkpoint."""

    def __init__(self, place: Storage, number: int, newest: int) -> None:
        super().__init__(
            f"driver {number} of the checkpoint at {place.url} stops, because {_described(place, newest)} took over; "
            "nothing is lost or doubled"
        )


def take_over(place: Storage) -> int:
    """Register as the newest driver of a checkpoint; return the number."""
    number = max(_numbers(place), default=0) + 1
    about = json.dumps({"host": socket.gethostname(), "process": os.getpid(), "at": time.time()}).encode()
    while True:
        try:
            place.create(_name(number), about)
        except FileExistsError:
            number += 1
            continue
        for old in _numbers(place):
            if old <= number - KEPT:
                place.delete(_name(old))
        return number


def check(place: Storage, number: int) -> None:
    """Check that this is still the newest driver.

    Raises
    ------
    SupersededError
        When there is a newer one.
    """
    newest = max(_numbers(place), default=0)
    if newest > number:
        raise SupersededError(place, number, newest)


def _numbers(place: Storage) -> list[int]:
    return [int(name) for name in place.names(FOLDER) if name.isdigit()]


def _name(number: int) -> str:
    return f"{FOLDER}/{number:012}"


def _described(place: Storage, number: int) -> str:
    try:
        about = json.loads(place.read(_name(number)))
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(about["at"]))
        return f"driver {number} (process {about['process']} on {about['host']}, started {since})"
    except (OSError, ValueError, KeyError, TypeError):  # an even newer driver may have deleted it
        return f"driver {number}"
