# SPDX-License-Identifier: Apache-2.0
"""Replaces files as a whole: a crash during writing leaves the old file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields the path of a new file beside `path` to write to; at the end it replaces `path` by the new file at once.

        with hipress.whole_file("checkpoint.pt") as new:
            torch.save(states, new)

    The new name has the same ending as `path`, because some libraries choose the format by it. The bytes have reached
    the disk before the name changes. If the block raises, the new file is removed; if the process or the machine dies,
    a later call for the same path writes over it. Only one process may write to a path at a time. Raises OSError.
    """
    target = Path(path)
    new = target.with_name(f".new-{target.name}")
    try:
        yield new
        with new.open("rb") as file:
            os.fsync(file.fileno())
        new.replace(target)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # so that the new name survives a crash of the machine
    finally:
        os.close(folder)
