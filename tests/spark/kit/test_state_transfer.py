"""A shipped state that was changed on its way: the taker installs exactly what the giver sent, or nothing."""

from __future__ import annotations

import random
import re
from itertools import permutations

import pyarrow as pa
import pytest

from evenflow.spark.kit import state_transfer as ship
from evenflow.spark.kit.orders import EXPECT, RELEASE, Order
from evenflow.spark.kit.state_transfer import Ship
from evenflow.spark.kit.storage import Storage, checked_url
from evenflow.spark.slices.cells import to_cell
from evenflow.spark.slices.turn import INSTALL, Job, Turn
from evenflow.spark.testing import KeyMemory

SESSIONS = {7: 3, 8: 3, 17: 4}  # session → slice; 7 and 8 move the same slice, with a later state


def total(rows, state):
    """Keep a sum per device, and put it out."""
    state = dict(state or {})
    for row in rows.to_pylist():
        state[row["device"]] = state.get(row["device"], 0) + row["value"]
    return pa.table({"sum": [sum(state.values())]}), state


def rows_of(number):
    return [to_cell(pa.table({"device": [str(number), str(number + 1), "x" * number], "value": [number, 10, 100]}))]


class Voyage:
    """Three givers have shipped; any taker may be asked to install what lies in its file now."""

    def __init__(self, place):
        self.place = Storage(checked_url(str(place)))
        self.folder = place / "ship"
        for session, slice_id in SESSIONS.items():
            turn = Turn(Job(total), slice_id, KeyMemory({}), Ship(self.place), home=True)
            turn.run([Order(0, RELEASE, session)], rows_of(session))
        self.files = {session: (self.folder / f"{session:012}").read_bytes() for session in SESSIONS}
        self.exact = {session: self.installed(session, content) for session, content in self.files.items()}

    def installed(self, session, content):
        """Install what the file holds and process rows on it; return what comes out."""
        (self.folder / f"{session:012}").write_bytes(content)
        memory = KeyMemory({})
        Turn(Job(total), SESSIONS[session], memory, Ship(self.place), home=False).run([Order(0, EXPECT, session)], [])
        turn = Turn(Job(total), SESSIONS[session], memory, Ship(self.place), home=False)
        return [table.to_pylist() for table in turn.run([Order(1, INSTALL, session)], rows_of(1))]


def changed(files, session, chance):
    """Yield a file as it may come to be: every bit, every length, every field of every other file."""
    content = files[session]
    for at in range(len(content)):
        for bit in range(8):
            yield "flipped", content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
        yield "truncated", content[:at]
        yield "headless", content[at + 1 :]
        yield "byte lost", content[:at] + content[at + 1 :]
        yield "zeroed", content[:at] + bytes(min(16, len(content) - at)) + content[at + 16 :]
    for length in (1, 2, 8, 64, 512):
        yield "extended", content + chance.randbytes(length)
        yield "extended in front", chance.randbytes(length) + content
    seal, _, state = content.partition(b"\n")
    words = re.split(rb"(\w+)", seal)
    for other, whole in files.items():
        if other != session:
            yield "another's file", whole
            yield "another's state", seal + b"\n" + whole.partition(b"\n")[2]
            yield "another's seal", whole.partition(b"\n")[0] + b"\n" + state
            for n, word in enumerate(re.split(rb"(\w+)", whole.partition(b"\n")[0])):
                if word != words[n]:  # session, slice, length and checksum, one at a time
                    yield "another's field", b"".join([*words[:n], word, *words[n + 1 :]]) + b"\n" + state
    for n, word in enumerate(words):
        if word.isdigit():
            yield "next number", b"".join([*words[:n], b"%d" % (int(word) + 1), *words[n + 1 :]]) + b"\n" + state
            yield "padded", b"".join([*words[:n], b"0" + word, *words[n + 1 :]]) + b"\n" + state
    for first, second in permutations(range(0, len(content) - 8, 8), 2):
        if first < second and chance.random() < 0.1:
            a, b = content[first : first + 8], content[second : second + 8]
            yield "blocks swapped", content[:first] + b + content[first + 8 : second] + a + content[second + 8 :]


def test_a_changed_file_is_refused_by_name_or_changes_nothing(tmp_path):
    voyage, session = Voyage(tmp_path), 7
    sentence = re.compile(rf"file:/\S+/ship/{session:012} [^\n]+; nothing was installed, [^\n]+")
    refused = 0
    for how, content in changed(voyage.files, session, random.Random(session)):
        if content == voyage.files[session]:
            assert voyage.installed(session, content) == voyage.exact[session], how
            continue
        refused += 1
        with pytest.raises(ship.CargoError) as refusal:
            voyage.installed(session, content)
        assert sentence.fullmatch(str(refusal.value)), how
    assert refused > 1000
    assert voyage.installed(session, voyage.files[session]) == voyage.exact[session]  # put right, it goes on


def test_the_sentence_says_what_is_wrong(tmp_path):
    voyage = Voyage(tmp_path)
    seventh = voyage.files[7]
    for content, expected in (
        (b"", "is empty"),
        (seventh[:20], "does not begin with the seal"),
        (seventh.partition(b"\n")[2], "does not begin with the seal"),  # as it was shipped before there were seals
        (seventh[:-1], "bytes of state, and its seal says"),
        (seventh[:-1] + b"?", "another checksum"),
        (voyage.files[8], "state of slice 3 in session 8, not of slice 3 in session 7"),
        (voyage.files[17], "state of slice 4 in session 17, not of slice 3 in session 7"),
    ):
        with pytest.raises(ship.CargoError, match=expected):
            voyage.installed(7, content)
    (voyage.folder / f"{7:012}").unlink()
    with pytest.raises(ship.CargoError, match=r"/ship/000000000007, the shipped state of slice 3, is missing"):
        Ship(voyage.place).receive(7, 3)


def test_a_state_that_never_had_rows_travels_too(tmp_path):
    place = Storage(checked_url(str(tmp_path)))
    Ship(place).send(1, 2, b"")
    assert Ship(place).receive(1, 2) == b""
