# SPDX-License-Identifier: Apache-2.0
"""Where a stream's versions lie. A store keeps bytes by name; a name is written once."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from hipress.errors import InvalidArgument
from hipress.weights.version import Buffer

_SUFFIX = ".weights"
#: File systems without hard links say one of these.
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class Store(Protocol):
    """A place for versions. For an object store: a class with these methods over its client."""

    def names(self) -> Iterable[str]:
        """The names that are there, in any order."""

    def read(self, name: str) -> bytes:
        """The bytes of a name. Raises FileNotFoundError if it is not there."""

    def write(self, name: str, parts: Iterable[Buffer]) -> None:
        """Makes the joined parts readable under a name, all at once. Raises FileExistsError if the name is taken."""

    def delete(self, name: str) -> None:
        """Removes a name; nothing happens if it is not there."""


class FolderStore:
    """A folder of one file per version, which may be a network file system.

    A file has its name only when it is complete and on the disk, so a publisher that dies leaves no cut file.

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
        """As Store."""
        return (entry.name for entry in os.scandir(self._folder) if not entry.name.startswith("."))

    def read(self, name: str) -> bytes:
        """As Store."""
        return (self._folder / name).read_bytes()

    def write(self, name: str, parts: Iterable[Buffer]) -> None:
        """As Store."""
        descriptor, unfinished = tempfile.mkstemp(prefix=f".{name}-", dir=self._folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
            self._name(Path(unfinished), self._folder / name)
            self._sync()
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(unfinished)

    def delete(self, name: str) -> None:
        """As Store."""
        (self._folder / name).unlink(missing_ok=True)

    def _name(self, unfinished: Path, name: Path) -> None:
        try:
            os.link(unfinished, name)  # unlike a renaming it never replaces what another publisher wrote
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
    """The name of a version; names have the versions' order."""
    return f"{version:012d}{_SUFFIX}"


def versions(store: Store) -> list[int]:
    """The versions in a store, ascending. Other names are left alone."""
    found = (name.removesuffix(_SUFFIX) for name in store.names() if name.endswith(_SUFFIX))
    return sorted(int(number) for number in found if number.isdecimal() and len(number) == 12)
