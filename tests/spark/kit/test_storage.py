"""Files of a checkpoint appear whole, last, and are created once."""

from __future__ import annotations

import os
import resource
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from evenflow.rundir import RUN, write_run
from evenflow.spark.kit import storage
from evenflow.spark.kit.requests import Askable
from evenflow.spark.kit.samples import FOLDER as SAMPLES
from evenflow.spark.kit.samples import Meter
from evenflow.spark.kit.state_transfer import Ship
from evenflow.spark.kit.storage import Storage
from evenflow.spark.slices.dead_letters import write_letters
from evenflow.web.page import ask


@pytest.fixture
def place(tmp_path) -> Storage:
    return Storage(tmp_path.as_uri())


@contextmanager
def small_disk(most: int):
    """Let every file end at so many bytes: a write breaks off in the middle, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


LONG = 10_000
WRITERS = {
    "write": ("file", lambda place, path, size: place.write("file", b"x" * size)),
    "not lasting": ("file", lambda place, path, size: place.write("file", b"x" * size, lasting=False)),
    "create": ("file", lambda place, path, size: place.create("file", b"x" * size)),
    "shipped state": ("ship/000000000007", lambda place, path, size: Ship(place).send(7, 3, b"x" * size)),
    "dead letters": (
        "000000000001-000002.parquet",
        lambda place, path, size: write_letters(place, 1, 2, [(pa.table({"a": [os.urandom(size)]}), "why")]),
    ),
    "run.json": (RUN, lambda place, path, size: write_run(path, {"why": "x" * size})),
    "request": (None, lambda place, path, size: ask(path / "requests", "policy", "p" * (size // 20), "me", Askable())),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_write_that_breaks_off_leaves_what_was_there_and_nothing_else(place, tmp_path, name):
    file, write = WRITERS[name]
    if file is not None and name != "create":
        write(place, tmp_path, 10)
        before = place.read(file)
    with small_disk(200), pytest.raises(OSError, match="File too large"):
        write(place, tmp_path, LONG)
    if file is None or name == "create":
        assert place.names("") == place.names("requests") == []
    else:
        assert place.read(file) == before
        assert len(place.names(file.rpartition("/")[0])) == 1
    write(place, tmp_path, LONG // 10)


def test_a_reader_never_sees_a_part(place, monkeypatch):
    seen = []
    kept = {name: getattr(os, name) for name in ("replace", "link", "fsync")}
    for name, call in kept.items():

        def spy(*args, call=call):
            seen.append([place.size("a"), place.size("b"), *place.names("")])
            result = call(*args)
            seen.append([place.size("a"), place.size("b"), *place.names("")])
            return result

        monkeypatch.setattr(os, name, spy)
    place.write("a", b"1" * 5)
    place.write("a", b"2" * 9)
    place.create("b", b"3" * 7)
    assert {state[0] for state in seen} == {None, 5, 9}
    assert {state[1] for state in seen} == {None, 7}
    assert {name for state in seen for name in state[2:]} == {"a", "b"}


def test_what_must_last_is_on_the_disk_before_it_has_its_name_and_its_folder_after(place, tmp_path, monkeypatch):
    done = []

    def note(name, call):
        def noted(*args):
            if name == "fsync":
                path = Path(f"/proc/self/fd/{args[0]}").readlink()
                done.append("sync folder" if path.is_dir() else "sync file")
            else:
                done.append(name)
            return call(*args)

        monkeypatch.setattr(os, name, noted)

    for name in ("fsync", "replace", "link"):
        note(name, getattr(os, name))

    def steps(call) -> list[str]:
        done.clear()
        call()
        return list(done)

    (tmp_path / "ship").mkdir()
    (tmp_path / SAMPLES).mkdir()
    whole = ["sync file", "replace", "sync folder"]
    assert steps(lambda: place.write("plane.json", b"{}")) == whole
    assert steps(lambda: Ship(place).send(1, 3, b"state")) == whole
    assert steps(lambda: place.create("b", b"{}")) == ["sync file", "link", "sync folder"]
    assert steps(lambda: place.write("new/inner/c", b"{}")) == ["sync folder", "sync folder", *whole]
    assert steps(lambda: Meter().write(place, 1, 0)) == ["replace"]  # of no use after a crash


def test_of_two_that_create_a_file_the_second_fails_and_changes_nothing(place, tmp_path):
    place.create("log/5", b"one")
    for content in (b"two", b"one"):
        with pytest.raises(FileExistsError):
            place.create("log/5", content)
    assert (place.read("log/5"), [file.name for file in (tmp_path / "log").iterdir()]) == (b"one", ["5"])


@pytest.mark.parametrize("links", ["EPERM", "EOPNOTSUPP"])
def test_without_hard_links_an_existing_file_is_not_replaced_either(place, monkeypatch, links):
    import errno

    def refuse(*_):
        raise OSError(getattr(errno, links), "no links here")

    monkeypatch.setattr(os, "link", refuse)
    place.create("a", b"one")
    with pytest.raises(FileExistsError):
        place.create("a", b"two")
    assert place.read("a") == b"one"


class Remote:
    """A filesystem of Arrow's under another name: what we do for it is what we would do for the real one."""

    def __init__(self, inner, kind: str, *, replaces: bool) -> None:
        self._inner = inner
        self.type_name = kind
        self._replaces = replaces

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def move(self, source, target):
        if not self._replaces and Path(target).exists():
            raise OSError(f"rename {source} to {target} failed")
        self._inner.move(source, target)


@pytest.mark.parametrize(("kind", "replaces"), [("hdfs", False), ("s3", True), ("other", True)])
def test_on_other_filesystems_files_are_replaced_by_write_and_kept_by_create(place, monkeypatch, kind, replaces):
    inner, root = storage._opened(place.url)
    monkeypatch.setattr(storage, "_opened", lambda _: (Remote(inner, kind, replaces=replaces), root))
    place.write("x/a", b"one")
    place.write("x/a", b"two")
    with pytest.raises(FileExistsError):
        place.create("x/a", b"three")
    place.create("x/b", b"four")
    assert (place.read("x/a"), place.read("x/b")) == (b"two", b"four")
    assert sorted(file.name for file in Path(root, "x").iterdir()) == ["a", "b"]
    if kind not in storage.WHOLE_WRITES:
        with small_disk(200), pytest.raises(OSError, match="File too large"):
            place.write("x/a", b"x" * LONG)
        assert place.read("x/a") == b"two"


def test_on_an_object_store_who_was_replaced_in_the_same_moment_hears_it(place, monkeypatch):
    inner, root = storage._opened(place.url)
    monkeypatch.setattr(storage, "_opened", lambda _: (Remote(inner, "s3", replaces=True), root))
    wrote = Storage.write

    def and_another(self, name, content):
        wrote(self, name, content)
        wrote(self, name, b"of another driver")

    monkeypatch.setattr(Storage, "write", and_another)
    with pytest.raises(FileExistsError):
        place.create("a", b"mine")
