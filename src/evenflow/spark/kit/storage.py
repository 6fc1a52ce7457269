"""A directory that driver and executors share, on the checkpoint's filesystem; every file appears whole or not at all."""

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
"""Filesystems on which a file appears when its writing ends; a rename there would be a copy."""

_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
"""What a filesystem without hard links answers."""

_SAME_AS: Final = {"s3a": "s3", "s3n": "s3"}  # what Hadoop calls a filesystem, and what Arrow calls it


def checked_url(location: str) -> str:
    """Return a location with its scheme, so that Spark and Arrow mean the same place.

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
    """A directory; names in it use ``/``.

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
        """Return a file's content; :class:`FileNotFoundError` if there is none."""
        filesystem, root = _opened(self.url)
        with filesystem.open_input_file(f"{root}/{name}") as file:
            content: bytes = file.read()
        return content

    def write(self, name: str, content: bytes, *, lasting: bool = True) -> None:
        """Write a file, or replace it; a reader sees the old or the new one, never a part.

        A ``lasting`` file is on the disk when this returns, where the filesystem is this machine's:
        Spark may commit a batch that needs it, and then the power may fail.
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
                filesystem.delete_file(final)  # its rename does not replace
            filesystem.move(temporary, final)

    def create(self, name: str, content: bytes) -> None:
        """Write a file that must not be there: of several who try, one succeeds, the others get an error.

        A local hard link and a rename on HDFS decide that by themselves.
        Arrow has no such call for object stores: there we look before and after, so that only two writers
        within the same moment can both believe that they succeeded.

        Raises
        ------
        FileExistsError
            When there is such a file.
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
        """Return the names of a folder's files in order, without unfinished ones; none if there is no such folder."""
        filesystem, root = _opened(self.url)
        try:
            found = filesystem.get_file_info(fs.FileSelector(f"{root}/{folder}", allow_not_found=True))
        except FileNotFoundError:  # made while we looked: Arrow lists first, and then asks whether the folder is there
            return []
        return sorted(i.base_name for i in found if i.type == fs.FileType.File and not i.base_name.startswith("."))

    def has(self, name: str) -> bool:
        """Say whether there is such a file."""
        return self.size(name) is not None

    def size(self, name: str) -> int | None:
        """Return a file's bytes, ``None`` if there is no such file."""
        filesystem, root = _opened(self.url)
        found = filesystem.get_file_info(f"{root}/{name}")
        return int(found.size) if found.type == fs.FileType.File else None

    def delete(self, name: str) -> None:
        """Delete a file; one that is not there is gone already."""
        filesystem, root = _opened(self.url)
        try:
            filesystem.delete_file(f"{root}/{name}")
        except FileNotFoundError:
            return


def _beside(final: str) -> str:
    """Return a hidden name of its own: two attempts of one task must not write into each other's file."""
    folder, _, last = final.rpartition("/")
    return f"{folder}/.{last}.{uuid.uuid4().hex}"


def _stream(filesystem: Any, path: str, content: bytes) -> None:
    filesystem.create_dir(path.rpartition("/")[0], recursive=True)
    with filesystem.open_output_stream(path) as file:
        file.write(content)


def _put(final: Path, content: bytes, place: Callable[[Path, Path], None], *, lasting: bool) -> None:
    """Write a hidden file, then give it its name; what is lasting is first on the disk itself, then in its folder."""
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
