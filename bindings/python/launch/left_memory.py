# SPDX-License-Identifier: Apache-2.0
"""Removes shared memory that a killed process has left behind.

UCX takes the name of a new segment away as soon as it has a descriptor. A process that is killed between both leaves a
file in /dev/shm, which no later process would remove.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_FOLDER = Path("/dev/shm")
_NAMES = "ucx_shm_posix_*"


def remove_left_memory(since: float, folder: Path = _FOLDER) -> list[str]:
    """Removes this user's segments that were made after `since` (seconds since 1970) and that no process has open.
    Returns their names."""
    made = [path for path in folder.glob(_NAMES) if _is_ours(path, since)]
    if not made:
        return []
    still_open = _open_files(folder)
    removed = []
    for path in made:
        if str(path) not in still_open:
            with contextlib.suppress(OSError):
                path.unlink()
                removed.append(path.name)
    return removed


def _is_ours(path: Path, since: float) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    # The kernel's clock of files may be a tick behind.
    return found.st_uid == os.getuid() and found.st_ctime >= since - 1


def _open_files(folder: Path) -> set[str]:
    """The files of the folder that processes have open or mapped."""
    found: set[str] = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        # The process may end meanwhile, or be another user's.
        with contextlib.suppress(OSError):
            found.update(os.readlink(entry.path) for entry in os.scandir(f"/proc/{name}/fd"))
        with contextlib.suppress(OSError):
            maps = Path("/proc", name, "maps").read_text(errors="replace")
            found.update(line.split(maxsplit=5)[-1] for line in maps.splitlines() if str(folder) in line)
    return {file for file in found if file.startswith(str(folder))}
