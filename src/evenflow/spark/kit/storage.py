"""A directory on the checkpoint's filesystem, shared by driver and executors; every file appears complete or not at all."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pyarrow import fs

from evenflow.errors import BadInput

WHOLE_WRITES: Final = frozenset({"s3", "gcs", "abfs"})
"""Filesystems on which a file appears only when it is closed, and on which a rename would be a copy."""

_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
"""Error numbers returned by filesystems without hard links."""

_SAME_AS: Final = {"s3a": "s3", "s3n": "s3"}  # Hadoop's name of a filesystem → Arrow's


def checked_url(location: str) -> str:
    """Return a location as a URL with a scheme, so that Spark and Arrow resolve it to the same place.

    Examples
    --------
    >>> checked_url("s3a://bucket/run-7/")
    's3a://bucket/run-7'
    """
    scheme = urlsplit(location).scheme
    if not location:
        raise BadInput("an empty location", "a path or a URL", "checkpointLocation")
    if scheme in ("", "file"):
        return Path(os.path.abspath(urlsplit(location).path if scheme else location)).as_uri()  # noqa: PTH100 - no links resolved
    return location.rstrip("/")


@lru_cache(maxsize=64)
def _opened(url: str) -> tuple[Any, str]:
    scheme, colon, rest = url.partition(":")
    try:
        filesystem, path = fs.FileSystem.from_uri(_SAME_AS.get(scheme, scheme) + colon + rest)
    except (ValueError, OSError) as error:
        raise BadInput(f"'{url}' ({error})", "a filesystem that pyarrow can open", "checkpointLocation") from None
    return filesystem, path


@dataclass(frozen=True, slots=True)
class Storage:
    """A directory; file names in it are separated by ``/``.

    Examples
    --------
    >>> import tempfile
    >>> place = Storage(checked_url(tempfile.mkdtemp()))
    >>> place.write("log/1", b"one")
    >>> place.read("log/1"), place.names("log"), place.names("nothing")
    (b'one', ['1'], [])
    """

    url: str

    def under(self, name: str) -> Storage:
        """Return a directory inside this one."""
        return Storage(f"{self.url}/{name}")

    def read(self, name: str) -> bytes:
        """Return a file's content; raise :class:`FileNotFoundError` if there is no such file."""
        filesystem, root = _opened(self.url)
        with filesystem.open_input_file(f"{root}/{name}") as file:
            content: bytes = file.read()
        return content

    def write(self, name: str, content: bytes, *, lasting: bool = True) -> None:
        """Write or replace a file; a reader sees either the old or the new content, never a part.

        On a local filesystem, a ``lasting`` file is synced to disk before this returns:
        Spark may commit a batch that needs the file just before a power failure.
        """
        filesystem, root = _opened(self.url)
        final = f"{root}/{name}"
        if filesystem.type_name == "local":
            _put(Path(final), content, os.replace, lasting=lasting)
        elif filesystem.type_name in WHOLE_WRITES:
            _stream(filesystem, final, content)
        else:
            temporary = _beside(final)
            _stream(filesystem, temporary, content)
            if filesystem.type_name == "hdfs" and self.has(name):
                filesystem.delete_file(final)  # an HDFS rename does not replace a file
            filesystem.move(temporary, final)

    def create(self, name: str, content: bytes) -> None:
        """Create a file that must not exist yet: if several writers try, one succeeds and the others get an error.

        A local hard link and an HDFS rename are atomic and decide this themselves.
        Arrow has no such call for object stores. There we check before and after the write,
        so two writers can both believe that they succeeded only if they write at the same moment.

        Raises
        ------
        FileExistsError
            When the file exists already.
        """
        filesystem, root = _opened(self.url)
        final = f"{root}/{name}"
        if filesystem.type_name == "local":
            try:
                _put(Path(final), content, os.link, lasting=True)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                self._create_looking(name, content)
        elif filesystem.type_name == "hdfs":
            temporary = _beside(final)
            _stream(filesystem, temporary, content)
            try:
                filesystem.move(temporary, final)
            except OSError:
                filesystem.delete_file(temporary)
                if self.has(name):
                    raise FileExistsError(final) from None
                raise
        else:
            self._create_looking(name, content)

    def _create_looking(self, name: str, content: bytes) -> None:
        if self.has(name):
            raise FileExistsError(name)
        self.write(name, content)
        if self.read(name) != content:
            raise FileExistsError(name)

    def names(self, folder: str) -> list[str]:
        """Return the sorted names of the complete files in a folder; an empty list if the folder does not exist."""
        filesystem, root = _opened(self.url)
        try:
            found = filesystem.get_file_info(fs.FileSelector(f"{root}/{folder}", allow_not_found=True))
        except FileNotFoundError:  # created during the call: Arrow lists first, then checks whether the folder exists
            return []
        return sorted(i.base_name for i in found if i.type == fs.FileType.File and not i.base_name.startswith("."))

    def has(self, name: str) -> bool:
        """Return whether a file exists."""
        return self.size(name) is not None

    def size(self, name: str) -> int | None:
        """Return a file's size in bytes, or ``None`` if there is no such file."""
        filesystem, root = _opened(self.url)
        found = filesystem.get_file_info(f"{root}/{name}")
        return int(found.size) if found.type == fs.FileType.File else None

    def delete(self, name: str) -> None:
        """Delete a file; do nothing if it does not exist."""
        filesystem, root = _opened(self.url)
        try:
            filesystem.delete_file(f"{root}/{name}")
        except FileNotFoundError:
            return


def _beside(final: str) -> str:
    """Return a unique hidden name, so that two attempts of one task do not write into the same file."""
    folder, _, last = final.rpartition("/")
    return f"{folder}/.{last}.{uuid.uuid4().hex}"


def _stream(filesystem: Any, path: str, content: bytes) -> None:
    filesystem.create_dir(path.rpartition("/")[0], recursive=True)
    with filesystem.open_output_stream(path) as file:
        file.write(content)


def _put(final: Path, content: bytes, place: Callable[[Path, Path], None], *, lasting: bool) -> None:
    """Write a hidden file, then give it its final name; sync a lasting file first and its folder afterwards."""
    _make(final.parent)
    temporary = Path(_beside(str(final)))
    try:
        with temporary.open("xb") as file:
            file.write(content)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        place(temporary, final)
    finally:
        temporary.unlink(missing_ok=True)
    if lasting:
        _sync(final.parent)


def _make(folder: Path) -> None:
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
