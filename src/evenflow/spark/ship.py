"""State on its way from giver to taker: one file per session, whole or absent, deleted when the taker has committed."""

from __future__ import annotations

from typing import Final

from evenflow.spark.storage import Storage

FOLDER: Final = "ship"


class MissingCargoError(Exception):
    """A slice's shipped state is not where the giver put it."""


class Ship:
    """Where shipped states are.

    A batch that runs again ships again, and the file is replaced: the taker reads it only after the batch is committed.
    """

    def __init__(self, place: Storage) -> None:
        self._place = place

    def send(self, session: int, state: bytes) -> None:
        """Put a state where the taker finds it."""
        self._place.write(f"{FOLDER}/{session:012}", state)

    def receive(self, session: int) -> bytes:
        """Return the state that a giver sent."""
        try:
            return self._place.read(f"{FOLDER}/{session:012}")
        except FileNotFoundError:
            raise MissingCargoError(
                f"session {session}: its shipped state is not at {self._place.url}/{FOLDER}; nothing was installed"
            ) from None

    def forget(self, session: int) -> None:
        """Delete a state that has been installed for good."""
        self._place.delete(f"{FOLDER}/{session:012}")
