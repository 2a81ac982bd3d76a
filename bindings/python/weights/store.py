# SPDX-License-Identifier: Apache-2.0
"""The stores of a stream's versions. A store keeps bytes by name; each name is written once."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from hipress.errors import InvalidArgument
from hipress.weights.version import Buffer

_SUFFIX = ".weights"
_PUBLISHER = ".publisher"
#: A version that is being written: the name that it will get, and letters of tempfile.
_UNFINISHED = re.compile(rf"\.(\d{{12}}{re.escape(_SUFFIX)})-\w+")
#: The errors of file systems without hard links.
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class Store(Protocol):
    """A store of versions. For an object store, write a class with these methods over its client."""

    def names(self) -> Iterable[str]:
        """The existing names, in any order."""

    def read(self, name: str) -> bytes:
        """The bytes of a name. Raises FileNotFoundError if the name does not exist."""

    def write(self, name: str, parts: Iterable[Buffer]) -> None:
        """Makes the joined parts readable under a name, all at once. Raises FileExistsError if the name is taken."""

    def delete(self, name: str) -> None:
        """Removes a name. Does nothing if the name does not exist."""


class FolderStore:
    """A folder with one file per version; the folder may be on a network file system.

    A file gets its name only when it is complete and on the disk, so a publisher that dies leaves no truncated version.
    The file without a name that it leaves is removed when the next version has been written.

    Raises InvalidArgument if the folder cannot be made.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidArgument(f"the folder {self._folder} for weights cannot be made: {error.strerror}") from None

    def __str__(self) -> str:
        return str(self._folder)

    def names(self) -> Iterator[str]:
        """See Store."""
        return (entry.name for entry in os.scandir(self._folder) if not entry.name.startswith("."))

    def read(self, name: str) -> bytes:
        """See Store."""
        return (self._folder / name).read_bytes()

    def write(self, name: str, parts: Iterable[Buffer]) -> None:
        """See Store."""
        descriptor, unfinished = tempfile.mkstemp(prefix=f".{name}-", dir=self._folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
            try:
                self._name(Path(unfinished), self._folder / name)
            except FileNotFoundError:  # another publisher has written this version or a newer one, see _remove_dead
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name) from None
            if name.endswith(_SUFFIX):
                self._remove_dead(name)
            self._sync()
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(unfinished)

    def delete(self, name: str) -> None:
        """See Store."""
        (self._folder / name).unlink(missing_ok=True)

    def _remove_dead(self, name: str) -> None:
        """Removes unfinished files of versions up to this one. Their publisher was killed; or it was overtaken, and is
        refused when it finds its file gone."""
        for entry in os.scandir(self._folder):
            found = _UNFINISHED.fullmatch(entry.name)
            if found is not None and found[1] <= name:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(entry.path)

    def _name(self, unfinished: Path, name: Path) -> None:
        try:
            os.link(unfinished, name)  # unlike rename(), it never replaces another publisher's file
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if name.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(name)) from None
            unfinished.rename(name)

    def _sync(self) -> None:
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def name_of(version: int) -> str:
    """The name of a version. The order of the names is the order of the versions."""
    return f"{version:012d}{_SUFFIX}"


def versions(names: Iterable[str]) -> list[int]:
    """The versions among a store's names, ascending. Other names are ignored."""
    found = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    return sorted(int(number) for number in found if number.isdecimal() and len(number) == 12)


def new_publisher() -> str:
    """A name by which a store says which publisher is the stream's. No other publisher has it."""
    return uuid.uuid4().hex + _PUBLISHER


def publishers(names: Iterable[str]) -> list[str]:
    """The names of publishers among a store's names."""
    return [name for name in names if name.endswith(_PUBLISHER)]
