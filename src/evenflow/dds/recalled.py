"""What a journal gives back is checked before an actor starts from it: a wrong one ends the start with one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from evenflow.dds.application import Application
from evenflow.dds.journal import Journal
from evenflow.dds.wire.fields import (
    LONGEST_NAME,
    NUMBERS,
    PUBLISHERS,
    MalformedError,
    distinct,
    name,
    pairs,
    shown,
    text,
    whole,
)
from evenflow.dds.wire.idl import item_type
from evenflow.dds.wire.incoming import sample_of
from evenflow.errors import BadInput
from evenflow.slices.handoff import State
from evenflow.slices.ledger import Ledger
from evenflow.slices.session import Phase

SLICE, RESULTS, RESULT = "slice/", "results", "result/"
_PHASES = {phase.value for phase in Phase}
_giver = partial(text, most=LONGEST_NAME)  # empty when there is none


def check_notes(journal: Journal, slices: int, where: Path) -> None:
    """Check the notes from which a balancer starts.

    Raises
    ------
    BadInput
        When one is none of a balancer's, or names a slice that does not exist.
    """
    for note in journal.notes:
        try:
            _check_note(note, slices)
        except (MalformedError, KeyError, TypeError) as error:
            raise _refusal(f"the note {shown(note)}", error, slices, where) from error


def _check_note(note: Mapping[str, Any], slices: int) -> None:
    if note["kind"] == "session":
        whole(note["session"], 1)
        _giver(note["giver"])
        name(note["taker"])
        distinct(note["slices"], partial(whole, high=slices - 1))
        if note["step"] not in _PHASES or type(note["at"]) not in (int, float):
            raise MalformedError(f"step {note['step']!r} at {note['at']!r}")
    elif note["kind"] == "node":
        name(note["node"])
        text(note["step"])
    else:
        text(note["what"])


def check_saved(journal: Journal, application: Application, slices: int, where: Path) -> None:
    """Check the values from which a node starts.

    Raises
    ------
    BadInput
        When one is none of a node's, or names a slice or a topic that does not exist.
    """
    saved = journal.saved
    for key, value in saved.items():
        try:
            _check_value(key, value, slices, application)
        except (MalformedError, ValueError, TypeError) as error:
            raise _refusal(shown(key), error, slices, where) from error
    for session, (_, shipped) in saved.get("shipping", {}).items():
        for s in shipped:
            if saved.get(f"{SLICE}{s}", (None,))[0] is not State.SHIPPED:
                raise _refusal(
                    "'shipping'", f"session {session} ships slice {s}, which it does not have", slices, where
                )


def _check_value(key: str, value: Any, slices: int, application: Application) -> None:
    if key.startswith(SLICE):
        whole(int(key.removeprefix(SLICE)), 0, slices - 1)
        phase, session, state, ledger = value
        if type(phase) is not State or phase is State.ABSENT or type(ledger) is not Ledger:
            raise MalformedError(f"{shown(value)} is no slice")
        whole(session)
        _mapping(state, text, lambda part: part)
        if not set(state) <= {application.topic.name}:
            raise MalformedError(f"the topics {sorted(state)}, and the listener has {application.topic.name!r}")
    elif key.startswith(RESULT):
        whole(int(key.removeprefix(RESULT)), 0, NUMBERS - 1)
        topic, data = value
        if topic not in application.results or type(data) is not bytes:
            raise MalformedError(f"a result for {shown(topic)}, and the listener has {sorted(application.results)}")
        sample_of(item_type(application.results[topic]), data)
    elif key in _READ:
        _READ[key](value)


def _shipped(value: Any) -> None:
    taker, slices = value
    name(taker)
    distinct(slices, whole)


def _results(value: Any) -> None:
    publisher, bound = value
    whole(publisher, 0, PUBLISHERS - 1)
    whole(bound, 0, NUMBERS)


def _mapping(value: Any, key: Callable[[Any], Any], read: Callable[[Any], Any]) -> None:
    if not isinstance(value, dict):
        raise MalformedError(f"{shown(value)} is no mapping")
    pairs(list(value.items()), key, read)


_READ: Mapping[str, Callable[[Any], Any]] = {
    "over": whole,
    "steps": lambda value: _mapping(value, whole, whole),
    "closed": lambda value: _mapping(value, whole, text),
    "shipping": lambda value: _mapping(value, whole, _shipped),
    RESULTS: _results,
}


def _refusal(what: str, error: object, slices: int, where: Path) -> BadInput:
    allowed = (
        f"a journal that evenflow wrote with {slices} slices; start with another directory, or with the old settings"
    )
    return BadInput(f"{what} ({error})", allowed, f"state '{where}'")
