# SPDX-License-Identifier: Apache-2.0
"""Libraries compiled here, kept in $HIPRESS_CACHE, $XDG_CACHE_HOME/hipress or ~/.cache/hipress.

Codecs, operators of frameworks, and GPU code.

An entry is a library and a file with its checksum. Both get their names by renaming, the checksum last: if a process
ends in between, the next process sees that the entry is incomplete and makes it again. A library is code that this
process runs, so a folder or a file is used only if no other user can have written it (trusted_files.py).
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hipress.compll.build.trusted_files import trusted_file, trusted_folder
from hipress.errors import HipressError, InvalidArgument, Timeout

_loads = itertools.count()


def cache_folder() -> Path:
    """The folder of the cache, which need not exist yet. Raises InvalidArgument if there is no place for it."""
    chosen = os.environ.get("HIPRESS_CACHE")
    if chosen:
        return Path(chosen).absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # the XDG specification ignores relative paths
        return Path(base) / "hipress"
    try:
        return Path.home() / ".cache" / "hipress"
    except RuntimeError as error:
        raise InvalidArgument(f"compiled libraries have no folder: {error}; set HIPRESS_CACHE to a folder") from None


def found(key: str) -> Path | None:
    """The library called `key`, if it is there and whole. Raises InvalidArgument if another user can write to it."""
    path = cache_folder()
    with _usable(path):
        try:
            with trusted_folder(path) as folder:
                return _entry(path, key) if _whole(folder, _entry(path, key)) else None
        except FileNotFoundError:
            return None


def cached(key: str, make: Callable[[Path], Path], wait: float, *, suffix: str = ".so") -> Path:
    """The library called `key`. If it is not there, or damaged, `make(folder)` makes it in an empty folder.

    One process of a machine makes it while the others wait, `wait` seconds at most (Timeout). Raises InvalidArgument if
    the cache's folder cannot be used or another user can write to it, and whatever `make` does.
    """
    path = cache_folder()
    library = path / f"{key}{suffix}"
    with _usable(path), trusted_folder(path, create=True) as folder:
        if not _whole(folder, library):
            with _locked(folder, path / f"{key}.lock", wait):
                if not _whole(folder, library):
                    _make(folder, library, make)
    return library


@contextmanager
def opened(library: Path) -> Iterator[str]:
    """A name for the loader of a library that found() or cached() returned, valid inside the with statement.

    It names the descriptor that was checked, so the loader opens the same file. Raises InvalidArgument if
    the library is not there any more, or another user can write to it.
    """
    with (
        _usable(library.parent),
        trusted_folder(library.parent) as folder,
        trusted_file(folder, library.name, library) as descriptor,
    ):
        if not _is_sum_of(folder, library, descriptor):
            raise InvalidArgument(f"{library} is damaged; remove it, and HiPress makes it again")
        yield _name_for_loader(descriptor)


def _name_for_loader(descriptor: int) -> str:
    """A name for the descriptor that no library has had before.

    The loader compares names first: a name that it has loaded always means that library, even if the number of the
    descriptor belongs to another file by now. "./" and ".//" are the digits of a count.
    """
    count = f"{next(_loads):b}".replace("0", "./").replace("1", ".//")
    return f"/proc/self/{count}fd/{descriptor}"


@contextmanager
def _usable(folder: Path) -> Iterator[None]:
    try:
        yield
    except HipressError:
        raise
    except OSError as error:
        raise InvalidArgument(
            f"{folder} cannot keep compiled libraries: {error}; set HIPRESS_CACHE to a writable folder"
        ) from None


def _entry(folder: Path, key: str) -> Path:
    return folder / f"{key}.so"


def _make(folder: int, library: Path, make: Callable[[Path], Path]) -> None:
    # The names are safe as long as the folder is trusted: no other user can rename a folder on the path to it.
    with tempfile.TemporaryDirectory(prefix=f"{library.stem}-", dir=library.parent) as work:
        made = make(Path(work))
        # The compiler follows umask, which may let other users write.
        made.chmod(made.stat().st_mode & ~(stat.S_IWGRP | stat.S_IWOTH))
        checksum = Path(work) / "checksum"
        checksum.write_text(_digest(made.read_bytes()))
        checksum.chmod(checksum.stat().st_mode & ~(stat.S_IWGRP | stat.S_IWOTH))
        os.rename(made, library.name, dst_dir_fd=folder)
        os.rename(checksum, _checksum_file(library).name, dst_dir_fd=folder)


@contextmanager
def _locked(folder: int, path: Path, wait: float) -> Iterator[None]:
    """Holds a lock on the file. The kernel frees the lock of a process that ends; the empty file stays."""
    descriptor = os.open(path.name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        end = time.monotonic() + wait
        while not _taken(descriptor):
            if time.monotonic() >= end:
                raise Timeout(f"another process that compiles the same library has held {path} for {wait:g} s")
            time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise OSError(error.errno, f"its file system has no locks ({error.strerror})") from None
    return True


def _whole(folder: int, library: Path) -> bool:
    """Whether the library is complete. Loading a file that is cut short would end the process, not only the call."""
    try:
        with trusted_file(folder, library.name, library) as descriptor:
            return _is_sum_of(folder, library, descriptor)
    except FileNotFoundError:
        return False


def _is_sum_of(folder: int, library: Path, descriptor: int) -> bool:
    """Whether the checksum beside the library is the checksum of the file that is open as `descriptor`."""
    path = _checksum_file(library)
    try:
        with trusted_file(folder, path.name, path) as checksum:
            return _content(checksum) == _digest(_content(descriptor)).encode()
    except FileNotFoundError:
        return False


def _content(descriptor: int) -> bytes:
    with open(descriptor, "rb", closefd=False) as file:
        return file.read()


def _checksum_file(library: Path) -> Path:
    return library.with_suffix(".sha256")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest() + "\n"
