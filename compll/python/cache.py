# SPDX-License-Identifier: Apache-2.0
"""Libraries compiled here, kept in $HIPRESS_CACHE, $XDG_CACHE_HOME/hipress or ~/.cache/hipress: codecs, operators.

An entry is a library and, beside it, its checksum. Both appear by renaming, the checksum last; whatever ends a process
in between, the next one sees that the entry is not whole and makes it anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hipress.errors import HipressError, InvalidArgument, Timeout


def cache_folder() -> Path:
    """It need not exist yet. Raises InvalidArgument if there is no place for it."""
    chosen = os.environ.get("HIPRESS_CACHE")
    if chosen:
        return Path(chosen).absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # others are to be ignored, its specification says
        return Path(base) / "hipress"
    try:
        return Path.home() / ".cache" / "hipress"
    except RuntimeError as error:
        raise InvalidArgument(f"no place for what is compiled: {error}; set HIPRESS_CACHE to a folder") from None


def found(key: str) -> Path | None:
    """The library called `key`, if it is there and whole."""
    library = cache_folder() / f"{key}.so"
    return library if _whole(library) else None


def cached(key: str, make: Callable[[Path], Path], wait: float) -> Path:
    """The library called `key`. If it is not there, or damaged, `make(folder)` makes it in an empty folder.

    One process of a machine makes it while the others wait, `wait` seconds at most (Timeout). Raises InvalidArgument if
    the cache's folder cannot be used, and whatever `make` does.
    """
    folder = cache_folder()
    library = folder / f"{key}.so"
    if _whole(library):
        return library
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(folder / f"{key}.lock", wait):
            if not _whole(library):
                _make(library, make)
    except HipressError:
        raise
    except OSError as error:
        raise InvalidArgument(
            f"what is compiled cannot be kept in {folder}: {error}; set HIPRESS_CACHE to a folder that can be written"
        ) from None
    return library


def _make(library: Path, make: Callable[[Path], Path]) -> None:
    with tempfile.TemporaryDirectory(prefix=f"{library.stem}-", dir=library.parent) as work:
        made = make(Path(work))
        checksum = Path(work) / "checksum"
        checksum.write_text(_digest(made) + "\n")
        os.replace(made, library)
        os.replace(checksum, _checksum_file(library))


@contextmanager
def _locked(path: Path, wait: float) -> Iterator[None]:
    """The kernel frees the lock of a process that ends, however it does; the empty file stays."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        end = time.monotonic() + wait
        while not _taken(descriptor):
            if time.monotonic() >= end:
                raise Timeout(f"another process has held {path}, to compile the same, for {wait:g} s")
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


def _whole(library: Path) -> bool:
    """Checked before the loader maps it: a file that is cut short ends the process there, not the call."""
    try:
        return _checksum_file(library).read_text() == _digest(library) + "\n"
    except (OSError, UnicodeDecodeError):
        return False


def _checksum_file(library: Path) -> Path:
    return library.with_suffix(".sha256")


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
