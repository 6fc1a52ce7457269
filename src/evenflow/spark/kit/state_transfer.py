"""Transfer of state from giver to taker: one sealed file per session, written atomically, deleted after the taker's commit.

The seal is the file's first line: session, slice, length and checksum of the state that follows.
A taker installs a state only if its seal is exactly the expected one.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final

from evenflow.spark.kit.storage import Storage

FOLDER: Final = "ship"
_SEAL: Final = re.compile(rb"evenflow state 1: session (\d+), slice (\d+), (\d+) bytes, blake2b ([0-9a-f]{32})")


class CargoError(Exception):
    """The shipped state of a slice is missing, or differs from what the giver shipped."""


def seal_of(session: int, slice_id: int, state: bytes) -> bytes:
    """Return the seal of a state, which is the first line of its file.

    Examples
    --------
    >>> seal_of(7, 3, b"state").decode().strip()
    'evenflow state 1: session 7, slice 3, 5 bytes, blake2b 87e215c447237b2e892edad6a952ee2c'
    """
    digest = blake2b(state, digest_size=16).hexdigest()
    return f"evenflow state 1: session {session}, slice {slice_id}, {len(state)} bytes, blake2b {digest}\n".encode()


def sealed(session: int, slice_id: int, state: bytes) -> bytes:
    """Return a state with its seal."""
    return seal_of(session, slice_id, state) + state


def unsealed(content: bytes, session: int, slice_id: int, where: str) -> bytes:
    """Check the seal and return the state; ``where`` names the file in the error message."""
    seal, end, state = content.partition(b"\n")
    if seal + end != seal_of(session, slice_id, state):
        raise CargoError(
            f"{where} {_fault(seal, state, session, slice_id)}; "
            "nothing was installed, restore the file and start the query again"
        )
    return state


def _fault(seal: bytes, state: bytes, session: int, slice_id: int) -> str:
    """Return what is wrong with a file whose seal is not the expected one."""
    if not seal and not state:
        return "is empty"
    read = _SEAL.fullmatch(seal)
    if read is None:
        return "does not begin with the seal of a shipped state"
    of_session, of_slice, length = (int(read[n]) for n in (1, 2, 3))
    if (of_session, of_slice) != (session, slice_id):
        return (
            f"holds the state of slice {of_slice} in session {of_session}, not of slice {slice_id} in session {session}"
        )
    if length != len(state):
        return f"holds {len(state)} bytes of state, and its seal says {length}"
    return "holds a state with another checksum than its seal says"


class Ship:
    """The storage of shipped states.

    A batch that runs again replaces the file. This is safe, because the taker reads it only after the batch is committed.
    """

    def __init__(self, place: Storage) -> None:
        self._place = place

    def send(self, session: int, slice_id: int, state: bytes) -> None:
        """Write a state for the taker."""
        self._place.write(_name(session), sealed(session, slice_id, state))

    def receive(self, session: int, slice_id: int) -> bytes:
        """Return the state that a giver sent."""
        where = f"{self._place.url}/{_name(session)}"
        try:
            content = self._place.read(_name(session))
        except FileNotFoundError:
            raise CargoError(
                f"{where}, the shipped state of slice {slice_id}, is missing; "
                "nothing was installed, restore the file and start the query again"
            ) from None
        return unsealed(content, session, slice_id, where)

    def forget(self, session: int) -> None:
        """Delete a state after its install is committed."""
        self._place.delete(_name(session))


def _name(session: int) -> str:
    return f"{FOLDER}/{session:012}"
