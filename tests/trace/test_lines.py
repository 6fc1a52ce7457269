"""The file of a trace: same content, same bytes; a torn end is told from a bad line."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import BadInput
from evenflow.trace import RECORDS, JsonlTrace, MemoryTrace, line, read
from evenflow.trace.records import fault_in

NOTE = {"kind": "note", "at": 1.0}


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Point:
    x: int
    y: float


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)
extras = st.dictionaries(st.text(max_size=8).filter(lambda k: k not in ("kind", "at")), json_values, max_size=4)


def not_torn(sentence: str) -> None:
    pytest.fail(sentence)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.builds(lambda extra, at: {"kind": "other", "at": at, **extra}, extras, st.floats(0, 1e9)), max_size=5)
)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]]) -> None:
    path = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    memory = MemoryTrace()
    with JsonlTrace(path) as trace:
        for record in records:
            trace(record)
            memory(record)
    assert list(read(path, not_torn)) == records
    assert path.read_bytes() == memory.text().encode("ascii")
    assert path.read_bytes().count(b"\n") == len(records)


@settings(max_examples=50, deadline=None)
@given(extras)
def test_same_content_same_bytes(extra: dict[str, Any]) -> None:
    assert line({**extra, **NOTE}) == line({**NOTE, **dict(reversed(extra.items()))})


def test_the_line_is_compact_and_exact() -> None:
    assert line({"kind": "x", "at": 0.1 + 0.2, "b": [1, 2], "a": "é\n"}) == (
        '{"a":"\\u00e9\\n","at":0.30000000000000004,"b":[1,2],"kind":"x"}'
    )


def test_what_python_has_and_json_has_not() -> None:
    record = {
        **NOTE,
        "np": [np.int64(1), np.float32(0.5), np.float64(0.1), np.bool_(False)],
        "array": np.arange(3),
        "enum": Colour.RED,
        "set": {3, 1, 2},
        "tuple": (1, 2),
        "point": Point(1, 2.5),
        "slices": {10: [1], 9: [2]},
    }
    assert json.loads(line(record)) == {
        **NOTE,
        "np": [1, 0.5, 0.1, False],
        "array": [0, 1, 2],
        "enum": "red",
        "set": [1, 2, 3],
        "tuple": [1, 2],
        "point": {"x": 1, "y": 2.5},
        "slices": {"10": [1], "9": [2]},
    }


@pytest.mark.parametrize("value", [math.nan, math.inf, np.float64("nan"), [1, -math.inf]])
def test_nan_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="trace, record of kind 'sample' at 3"):
        line({"kind": "sample", "at": 3, "load": value})


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"kind": "effect", "at": 1.0, "node": "a"}, "a record of kind 'effect' without 'session'"),
        ({"kind": "sample", "at": 1.0, "node": 7}, "field 'node' = '7', allowed is a string"),
        ({"kind": "move", "at": 1.0, "giver": "a", "taker": "b"}, "without its units, allowed is 'unit' or 'what'"),
        ({"at": 1.0}, "a record without 'kind'"),
        (
            {"kind": "session", "at": 1, "session": 1, "step": "done", "giver": "a", "taker": "b", "units": []},
            "without its units, allowed is 'units' or 'slices' or 'what'",
        ),
    ],
)
def test_what_no_reader_takes_is_refused_when_it_is_written(tmp_path: Path, record: dict[str, Any], said: str) -> None:
    with JsonlTrace(tmp_path / "trace.jsonl") as trace:
        for write in (line, MemoryTrace(), trace):
            with pytest.raises(BadInput, match="trace, record of kind .*" + said):
                write(record)
    assert (tmp_path / "trace.jsonl").read_bytes() == b""


def test_numbers_of_numpy_are_numbers_and_sets_are_lists(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with JsonlTrace(path) as trace:
        trace({"kind": "sample", "at": np.float64(1), "node": "a", "load": np.int64(2)})
        trace({"kind": "owner", "at": np.int64(1), "node": "a", "owns": np.bool_(True), "unit": np.int64(3)})
        trace({"kind": "final", "at": 1, "ids": {2, 1}})
        trace({"kind": "final", "at": 1, "ids": np.arange(2)})
    assert [record.get("ids") for record in read(path, not_torn)] == [None, None, [1, 2], [0, 1]]


def test_strange_objects_are_refused() -> None:
    for value, said in (
        (b"raw", "a trace cannot hold a bytes"),
        ({1: 1, "a": 1}, "not supported"),
        ({(1,): 1}, "keys"),
    ):
        with pytest.raises(TypeError, match=f"trace, record of kind 'note' at 1.0: .*{said}"):
            line({**NOTE, "x": value})


# -- ends ---------------------------------------------------------------------------------------


def written(path: Path, count: int = 3) -> bytes:
    with JsonlTrace(path) as trace:
        for i in range(count):
            trace({"kind": "sample", "at": float(i), "node": "a", "load": 0.5})
    return path.read_bytes()


def test_a_file_cut_anywhere_gives_its_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    whole = written(path)
    length = len(whole) // 3
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        told: list[str] = []
        records = list(read(path, told.append))
        complete = (cut + 1) // length  # only the line end missing: the record is whole
        assert len(records) == complete
        torn = cut % length not in (0, length - 1)
        assert len(told) == torn
        if torn:
            assert told == [f"{path}, line {complete + 1}: left out {cut % length} bytes of a torn last line"]


def test_a_file_cut_anywhere_can_be_continued(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    whole = written(path)
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        before = list(read(path, lambda sentence: None))
        with JsonlTrace(path, append=True) as trace:
            trace(NOTE)
        assert list(read(path, not_torn)) == [*before, NOTE]


def test_a_long_torn_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    written(path, 1)
    with path.open("ab") as file:
        file.write(b'{"kind":"note","why":"' + b"x" * 200_000)
    with JsonlTrace(path, append=True) as trace:
        trace(NOTE)
    assert [record["kind"] for record in read(path, not_torn)] == ["sample", "note"]
    path.write_bytes(b"x" * 200_000)
    JsonlTrace(path, append=True).close()
    assert path.read_bytes() == b""


def test_zeros_after_a_power_cut_are_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    written(path)
    with path.open("ab") as file:
        file.write(bytes(4096))
    told: list[str] = []
    assert len(list(read(path, told.append))) == 3
    assert len(told) == 1


def test_a_torn_line_is_logged_by_default(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b'{"kind"')
    assert list(read(path)) == []
    assert "line 1: left out 7 bytes of a torn last line" in caplog.text


def test_begins_anew_unless_told(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    written(path)
    assert len(written(path, 1).splitlines()) == 1
    JsonlTrace(tmp_path / "new.jsonl", append=True).close()
    assert (tmp_path / "new.jsonl").exists()


def test_flush_shows_lines_at_once(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with JsonlTrace(path, flush=True) as trace:
        trace(NOTE)
        assert len(list(read(path, not_torn))) == 1
    with JsonlTrace(path) as trace:
        trace(NOTE)
        trace.flush()
        assert len(list(read(path, not_torn))) == 1
        trace.close()  # and once more by the with


# -- bad lines ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"\n", "one JSON object per line"),
        (b"{\n", "one JSON object per line"),
        (b"[1]\n", "a JSON list"),
        (b"null\n", "a JSON NoneType"),
        (b'{"at":NaN,"kind":"x"}\n', "NaN is no JSON number"),
        (b'{"at":1,"kind":"x"}{"at":1,"kind":"x"}\n', "Extra data"),
        (b"\xff\xfe\n", "one JSON object per line"),
        (b"[" * 100_000 + b"\n", "one JSON object per line"),
        (b'{"at":' + b"9" * 5000 + b',"kind":"x"}\n', "one JSON object per line"),
        (b'{"at":1}\n', "a record without 'kind', allowed is 'kind' with a string"),
        (b'{"at":1,"kind":5}\n', "field 'kind' = '5', allowed is a string"),
        (b'{"kind":"x"}\n', "a record of kind 'x' without 'at'"),
        (b'{"at":true,"kind":"x"}\n', "field 'at' = 'True', allowed is a number"),
        (b'{"at":"1","kind":"x"}\n', "field 'at' = '1', allowed is a number"),
        (b'{"at":1,"kind":"sample"}\n', "a record of kind 'sample' without 'node'"),
        (b'{"at":1,"kind":"sample","node":1}\n', "field 'node' = '1', allowed is a string"),
        (b'{"at":1,"kind":"sample","node":"a","load":"high"}\n', "field 'load' = 'high', allowed is a number"),
        (b'{"at":1,"kind":"owner","node":"a","owns":true}\n', "without its units, allowed is 'unit' or 'slice'"),
        (b'{"at":1,"kind":"owner","node":"a","owns":1,"slice":0}\n', "allowed is true or false"),
        (b'{"at":1,"kind":"session","session":1,"step":"done","giver":"a","taker":"b"}\n', "'units' or 'slices'"),
        (b'{"at":1,"kind":"commit","node":"a","slices":[1]}\n', "field 'slices' = '[1]', allowed is an object"),
    ],
)
def test_a_bad_line_is_refused_with_its_place(tmp_path: Path, text: bytes, said: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(line(NOTE).encode() + b"\n" + text + line(NOTE).encode() + b"\n")
    with pytest.raises(BadInput) as caught:
        list(read(path, not_torn))
    sentence = str(caught.value)
    assert sentence.startswith(f"{path}, line 2: given ")
    assert said in sentence
    assert len(sentence) < 400


def test_a_missing_file_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        list(read(tmp_path / "none"))
    with pytest.raises(BadInput, match="directory"):
        list(read(tmp_path))


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    path.write_bytes(content)
    try:
        list(read(path, lambda sentence: None))
    except BadInput as error:
        sentence = str(error)
        assert "line" in sentence


# -- records ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(RECORDS))
def test_required_fields_are_required(kind: str) -> None:
    some: dict[str, Any] = {"at": 1.0, "node": "a", "step": "s", "why": "w", "unit": 1, "giver": "a", "taker": "b"}
    some |= {"session": 1, "slices": [1], "owns": True, "id": 1, "items": 3, "ids": [1], "fault": "f", "what": "w"}
    some |= {"load": 0.5, "trigger": "t", "read": 2}
    record = {**some, "kind": kind}
    if kind == "commit":
        record["slices"] = {"1": [1]}
    assert fault_in(record) is None
    for name in RECORDS[kind].__required_keys__:
        wrong = fault_in({k: v for k, v in record.items() if k != name})
        assert wrong is not None, name
    assert fault_in({**record, "anything": object()}) is None
