# SPDX-License-Identifier: Apache-2.0
"""Opens files whose code this process may run: no other user can have written or replaced them.

Trusted users are this user and root, and on the path to a folder the owner of "/", who can replace every program
anyway (in a user namespace that owner need not be uid 0). A path is walked from "/", one open folder at a time: between
a check and a use, a name may come to mean another file, but a descriptor always means the file that was checked.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from hipress.errors import InvalidArgument

#: The most symbolic links in a path; the kernel has the same limit.
_MOST_LINKS = 40
#: The advice for a folder that is not trusted.
_ELSEWHERE = "set HIPRESS_CACHE to a folder that only you can write to"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@contextmanager
def trusted_folder(path: Path, *, create: bool = False) -> Iterator[int]:
    """A descriptor of the folder `path` (absolute), for `dir_fd=`. `create` creates missing folders with mode 0700.

    Raises FileNotFoundError if it is not there, InvalidArgument if another user can write to it, or can put another
    folder in its place, and OSError.
    """
    descriptor = _walk(path, create)
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISDIR(info.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        _check(info, path, _ELSEWHERE)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def trusted_file(folder: int, name: str, path: Path) -> Iterator[int]:
    """A descriptor of the file `name` in a trusted folder. Errors show `path`.

    Raises FileNotFoundError, InvalidArgument if it is no file or another user can write to it, and OSError.
    """
    try:
        # A pipe in the file's place must not make this process wait.
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InvalidArgument(f"{path} is a symbolic link, not a file: remove it") from None
        raise
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise InvalidArgument(f"{path} is not a file: remove it")
        _check(info, path, "remove it")
        yield descriptor
    finally:
        os.close(descriptor)


def _walk(path: Path, create: bool) -> int:
    """Opens what `path` leads to, through folders in which no other user can change the next name."""
    with ExitStack() as stack:

        def opened(descriptor: int) -> int:
            stack.callback(os.close, descriptor)
            return descriptor

        here, shown, links = opened(_root()), Path("/"), 0
        ahead = list(reversed(path.parts[1:]))
        while ahead:
            _check_way(here, shown)
            name = ahead.pop()
            entry = opened(_entry(here, name, create))
            target = _target(entry, shown / name)
            if target is None:
                here, shown = entry, shown / name
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            if target.is_absolute():
                here, shown = opened(_root()), Path("/")
            ahead += reversed(target.parts[1:] if target.is_absolute() else target.parts)
        return os.dup(here)


def _root() -> int:
    return os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def _entry(folder: int, name: str, create: bool) -> int:
    """The attributes of `name` itself: a symbolic link is not followed."""
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise
    with suppress(FileExistsError):  # another process has just made it
        os.mkdir(name, 0o700, dir_fd=folder)
    return os.open(name, flags, dir_fd=folder)


def _target(entry: int, shown: Path) -> Path | None:
    """The path that a symbolic link leads to; None if `name` is no link."""
    info = os.fstat(entry)
    if not stat.S_ISLNK(info.st_mode):
        return None
    if info.st_uid not in _trusted():
        raise InvalidArgument(f"{shown} is a symbolic link of another user, uid {info.st_uid}: {_ELSEWHERE}")
    return Path(os.readlink("", dir_fd=entry))


def _check_way(folder: int, shown: Path) -> None:
    """Refuses a folder in which another user could replace the file of the next name."""
    info = os.fstat(folder)
    if info.st_uid not in _trusted() | {os.stat("/").st_uid}:
        raise InvalidArgument(f"{shown} belongs to another user, uid {info.st_uid}: {_ELSEWHERE}")
    # With the sticky bit, as in /tmp, users can rename only their own files; files of other users are refused next.
    if info.st_mode & _OTHERS_WRITE and not info.st_mode & stat.S_ISVTX:
        raise InvalidArgument(f"other users can write to {shown} ({_mode(info)}): chmod go-w it, or {_ELSEWHERE}")


def _check(info: os.stat_result, path: Path, advice: str) -> None:
    if info.st_uid not in _trusted():
        raise InvalidArgument(f"{path} belongs to another user, uid {info.st_uid}: {advice}")
    if info.st_mode & _OTHERS_WRITE:
        raise InvalidArgument(f"other users can write to {path} ({_mode(info)}): chmod go-w it, or {advice}")


def _trusted() -> set[int]:
    return {0, os.geteuid()}


def _mode(info: os.stat_result) -> str:
    return f"mode {stat.S_IMODE(info.st_mode):04o}"
