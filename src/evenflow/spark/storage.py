"""A directory that driver and executors share, on the checkpoint's filesystem; every file appears whole or not at all."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pyarrow import fs

from evenflow.errors import BadInput

WHOLE_WRITES: Final = frozenset({"s3", "gcs", "abfs"})
"""Filesystems on which a file appears when its writing ends; a rename there would be a copy."""

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

    def write(self, name: str, content: bytes) -> None:
        """Write a file, or replace it; a reader sees the old or the new one, never a part."""
        filesystem, root = _opened(self.url)
        final = f"{root}/{name}"
        folder, _, last = final.rpartition("/")
        filesystem.create_dir(folder, recursive=True)
        whole = filesystem.type_name in WHOLE_WRITES
        # Named for the process: two attempts of one task must not write into each other's file.
        temporary = final if whole else f"{folder}/.{last}.{os.getpid()}"
        with filesystem.open_output_stream(temporary) as file:
            file.write(content)
        if not whole:
            if filesystem.type_name == "hdfs" and self.has(name):
                filesystem.delete_file(final)  # its rename does not replace
            filesystem.move(temporary, final)

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
        filesystem, root = _opened(self.url)
        found: bool = filesystem.get_file_info(f"{root}/{name}").type == fs.FileType.File
        return found

    def delete(self, name: str) -> None:
        """Delete a file; one that is not there is gone already."""
        filesystem, root = _opened(self.url)
        try:
            filesystem.delete_file(f"{root}/{name}")
        except FileNotFoundError:
            return
